//! What a pod's reservation asks for, container by container.

use quell_model::CpuCount;

use crate::class::{Class, labelled};
use crate::pod::{Container, Sandbox};
use crate::qos::Qos;
use crate::refused::Refused;
use crate::request::requested;
use crate::rules::Rules;

/// The label, or annotation, that asks.
const NAME: &str = "quell.dev/reservation";

/// What a container of a strict pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// This many CPUs of its own.
    Own(usize),
    /// It asks for none (as init containers and sidecars may): it runs on the CPUs of its pod.
    WithPod,
    /// Part of a CPU: it runs on the CPUs of its pod, if that has some.
    Part(CpuCount),
}

/// Does the pod ask for CPUs of its own, and may it?
pub(crate) fn is_strict(sandbox: &Sandbox, rules: &Rules) -> Result<bool, Refused> {
    let value = match (sandbox.labels.get(NAME), sandbox.annotations.get(NAME)) {
        (Some(label), Some(annotation)) if label != annotation => {
            return Err(Refused::Contradiction { label: label.clone(), annotation: annotation.clone() });
        }
        (Some(value), _) | (None, Some(value)) => value.as_str(),
        (None, None) => return Ok(false),
    };
    match value {
        "standard" => Ok(false),
        "strict" if !rules.may_be_strict.contain(&sandbox.namespace) => {
            Err(Refused::Namespace(sandbox.namespace.clone()))
        }
        "strict" if labelled(sandbox) == Some(Class::BestEffort) => Err(Refused::BestEffort),
        "strict" => Ok(true),
        other => Err(Refused::Unknown(other.to_owned())),
    }
}

/// What this container of a strict pod asks for.
pub(crate) fn ask(container: &Container, qos: Qos) -> Result<Ask, Refused> {
    let asked = requested(container, Some(qos));
    let name = || container.name.clone();
    match asked {
        CpuCount::ZERO if qos == Qos::BestEffort => Err(Refused::BelowOne { name: name(), asked }),
        CpuCount::ZERO => Ok(Ask::WithPod),
        _ if asked.floor() == 0 => Ok(Ask::Part(asked)),
        _ if asked.fraction() > CpuCount::ZERO => Err(Refused::Fraction { name: name(), asked }),
        _ => Ok(Ask::Own(asked.floor() as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Mode, Namespaces};
    use quell_model::CpuSet;

    fn strict(namespace: &str, labels: &[(&str, &str)], annotation: Option<&str>) -> Result<bool, String> {
        let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let sandbox = Sandbox {
            namespace: namespace.into(),
            labels: labels.iter().copied().map(text).collect(),
            annotations: annotation.map(|value| text((NAME, value))).into_iter().collect(),
            ..Sandbox::default()
        };
        let shop = Namespaces::Named(["shop".to_owned()].into());
        let rules = Rules {
            mode: Mode::Enforce,
            may_be_lc: Namespaces::All,
            may_be_strict: shop,
            reserved: CpuSet::EMPTY,
            whole_cores: false,
        };
        is_strict(&sandbox, &rules).map_err(|refused| refused.to_string())
    }

    #[test]
    fn a_label_or_an_annotation_asks() {
        assert_eq!(strict("shop", &[(NAME, "strict")], None), Ok(true));
        assert_eq!(strict("shop", &[], Some("strict")), Ok(true));
        assert_eq!(strict("shop", &[(NAME, "strict")], Some("strict")), Ok(true));
        assert_eq!(strict("shop", &[], None), Ok(false));
        assert_eq!(strict("other", &[(NAME, "standard")], None), Ok(false));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_fix() {
        let refused = |answer: Result<bool, String>, why: &str, fix: &str| {
            let text = answer.unwrap_err();
            let (problem, remedy) = text.rsplit_once("; ").unwrap();
            assert!(problem.contains(why) && remedy.contains(fix), "{text}");
        };
        refused(strict("shop", &[(NAME, "Strict")], None), "=Strict is unknown", "strict or standard");
        refused(strict("shop", &[(NAME, "strict")], Some("standard")), "strict by label and standard", "keep one");
        refused(strict("other", &[(NAME, "strict")], None), "namespace other", "administrator");
        refused(strict("shop", &[(NAME, "strict"), ("quell.dev/class", "be")], None), "best-effort", "remove one");
    }

    #[test]
    fn whole_cpus_are_its_own_and_parts_are_not() {
        let with = |shares| Container { name: "app".into(), shares, ..Container::default() };
        assert_eq!(ask(&with(3072), Qos::Burstable), Ok(Ask::Own(3)));
        assert_eq!(ask(&with(102), Qos::Burstable), Ok(Ask::Part(CpuCount(100))));
        assert_eq!(ask(&with(2), Qos::Burstable), Ok(Ask::WithPod));
        let text = ask(&with(1536), Qos::Burstable).unwrap_err().to_string();
        assert_eq!(text, "container app of a strict pod asks for 1.5 CPUs, no whole number; request 1 or 2 CPUs");
        let text = ask(&with(2), Qos::BestEffort).unwrap_err().to_string();
        assert!(text.contains("less than one; request 1 CPU"), "{text}");
    }
}
