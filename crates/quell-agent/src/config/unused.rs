//! Keys of workloads that nothing acts on: neither a policy of the stack nor the host.

use quell_model::{Capabilities, Description, Key, Policy as _, Support, Workload};
use quell_policy::AnyPolicy;

use super::{Config, Problems};

/// The reason why the host does not keep a workload's limit, and the fix; None: it is kept.
pub type Obstacle<'a> = dyn FnMut(&Workload) -> Option<String> + 'a;

/// Keys of a workload without effect, one line each. `policies` are those that own it; without capabilities only the
/// policies' own effects are considered.
#[must_use]
pub fn unused(
    workload: &Workload,
    policies: &[&Description],
    capabilities: Option<&Capabilities>,
    obstacle: &mut Obstacle<'_>,
) -> Vec<String> {
    let line = |&key: &Key| {
        let asked = key.asked(workload)?;
        let using = policies.iter().find(|policy| policy.uses(key, workload));
        match (key, using) {
            (Key::Limit, _) => over_limit(workload, using, obstacle).map(|why| format!("{asked} is not kept: {why}")),
            // Watched all the same: see `notices_in`.
            (Key::Slo, None) => None,
            (_, None) => Some(format!("{asked} has no effect: {}", no_policy(key, workload, policies))),
            (Key::Grace, Some(_)) => match capabilities.map(|can| can.keys.get(&key)) {
                None | Some(Some(Support::Yes | Support::Partly(_))) => None,
                Some(Some(Support::No { why, fix })) => Some(format!("{asked} has no effect: {why}; {fix}")),
                Some(None) => Some(format!("{asked} has no effect: this host gives no grace; leave it out")),
            },
            (_, Some(_)) => None,
        }
    };
    Key::ALL.iter().filter_map(line).collect()
}

fn over_limit(workload: &Workload, using: Option<&&Description>, obstacle: &mut Obstacle<'_>) -> Option<String> {
    let (limit, why) = (workload.limit?, obstacle(workload)?);
    match using {
        // A policy that grants CPUs grants whole ones.
        Some(_) if limit.fraction().0 == 0 => None,
        Some(policy) => Some(format!("policy {} rounds it up to {} whole CPUs; {why}", policy.name, limit.ceil())),
        None => Some(why),
    }
}

/// No policy of these acts on the key; says which would.
fn no_policy(key: Key, workload: &Workload, policies: &[&Description]) -> String {
    let names = |all: &mut dyn Iterator<Item = &'static str>| all.collect::<Vec<_>>().join(", ");
    let own = names(&mut policies.iter().map(|policy| policy.name));
    let others =
        names(&mut AnyPolicy::ALL.iter().filter(|policy| policy.uses(key, workload)).map(|policy| policy.name));
    let lacks = match policies.len() {
        0 => "no policy owns the workload".to_owned(),
        1 => format!("policy {own} ignores it"),
        _ => format!("the policies {own} ignore it"),
    };
    let class = if policies.iter().any(|policy| policy.keys.iter().any(|used| used.key == key)) {
        " where the class is \"be\""
    } else {
        ""
    };
    let fix = if others.is_empty() { String::new() } else { format!("take one that does ({others}), or ") };
    format!("{lacks}{class}; {fix}leave it out")
}

/// The same for every workload of a configuration: its place in the list, and the line.
#[must_use]
pub fn unused_in(
    config: &Config,
    capabilities: Option<&Capabilities>,
    obstacle: &mut Obstacle<'_>,
) -> Vec<(usize, String)> {
    let owned = |at: usize| owners(config, &config.workloads[at].workload.name);
    let mut found = Vec::new();
    for (at, member) in config.workloads.iter().enumerate() {
        let lines = unused(&member.workload, &owned(at), capabilities, obstacle);
        found.extend(lines.into_iter().map(|line| (at, line)));
    }
    found
}

/// Keys that are watched and that no policy of the workload needs: its place in the list, and the line. No fault: a policy that
/// gives up best-effort work for an SLO is mostly the worse choice.
#[must_use]
pub fn notices_in(config: &Config) -> Vec<(usize, String)> {
    let line = |(at, asked, policies): (usize, String, Vec<&'static Description>)| {
        let names: Vec<&str> = policies.iter().map(|policy| policy.name).collect();
        let then = match names[..] {
            [] | ["none"] => "no policy acts on it".to_owned(),
            ["guard"] => "guard does not need it".to_owned(),
            _ => format!("{} works without it", names.join(" and ")),
        };
        (at, format!("{asked} is monitored only: `quell status` shows whether it is met; {then}"))
    };
    let watched = config.workloads.iter().enumerate().filter_map(|(at, member)| {
        let policies = owners(config, &member.workload.name);
        let acted_on = policies.iter().any(|policy| policy.uses(Key::Slo, &member.workload));
        Some((at, Key::Slo.asked(&member.workload).filter(|_| !acted_on)?, policies))
    });
    watched.map(line).collect()
}

/// The policies that own a workload.
fn owners(config: &Config, name: &str) -> Vec<&'static Description> {
    let owns = |names: &Vec<String>| names.iter().any(|other| other == name);
    let owners = config.policies.iter().filter(|layer| layer.workloads.as_ref().is_none_or(owns));
    owners.map(|layer| layer.policy.describe()).collect()
}

/// Warns of the findings of [`unused_in`], and adds those of [`notices_in`].
pub fn warn(
    config: &Config,
    capabilities: Option<&Capabilities>,
    obstacle: &mut Obstacle<'_>,
    problems: &mut Problems,
) {
    for (at, line) in unused_in(config, capabilities, obstacle) {
        let member = &config.workloads[at];
        problems.warning(&member.place, format!("workload '{}': {line}", member.workload.name));
    }
    for (at, line) in notices_in(config) {
        let member = &config.workloads[at];
        problems.info(&member.place, format!("workload '{}': {line}", member.workload.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Class, CpuCount, Grace, GraceSignal, Nanos, Reservation, Slo};

    fn described(name: &str) -> &'static Description {
        AnyPolicy::ALL.iter().find(|policy| policy.name == name).unwrap()
    }

    fn lines(workload: &Workload, policies: &[&str], grace: Support, obstacle: Option<&str>) -> Vec<String> {
        let policies: Vec<&Description> = policies.iter().map(|name| described(name)).collect();
        let mut can = Capabilities::default();
        can.keys.insert(Key::Grace, grace);
        unused(workload, &policies, Some(&can), &mut |_| obstacle.map(str::to_owned))
    }

    fn everything() -> Workload {
        Workload {
            limit: Some(CpuCount(1500)),
            reservation: Reservation::Strict,
            slo: Some(Slo { quantile: 0.99, bound: Nanos::from_millis(1) }),
            grace: Some(Grace { signal: GraceSignal::Urg, time: Nanos::from_micros(20) }),
            pausable: true,
            ..Workload::new("db", Class::LatencyCritical, CpuCount::whole(1))
        }
    }

    #[test]
    fn each_key_that_nothing_acts_on_is_named_once_with_who_would() {
        let no = Support::No { why: "no warning is given".into(), fix: "use Quell's scheduler".into() };
        let said = lines(&everything(), &["guard"], no.clone(), Some("it has no cpu.max; make one"));
        assert_eq!(said.len(), 4, "{said:#?}");
        assert_eq!(said[0], "limit = 1.5 is not kept: it has no cpu.max; make one");
        let of = |text: &str| said.iter().find(|line| line.starts_with(text)).unwrap();
        assert_eq!(
            of("reservation"),
            "reservation = \"strict\" has no effect: policy guard ignores it; take one that does (rkube), or leave it out"
        );
        assert!(said.iter().all(|line| !line.starts_with("slo")), "an SLO under guard is no fault");
        assert!(of("grace").contains("caladan") && of("pausable").contains("his"));
        let said = lines(&everything(), &["rkube", "guard"], no.clone(), None);
        assert_eq!(said.len(), 2, "{said:#?}");
        let said = lines(&everything(), &["caladan"], no, None);
        assert!(said.iter().any(|line| line.ends_with("no warning is given; use Quell's scheduler")), "{said:#?}");
        let said = lines(&everything(), &["caladan"], Support::Yes, None);
        assert!(!said.iter().any(|line| line.starts_with("grace")), "{said:#?}");
    }

    #[test]
    fn who_grants_whole_cpus_keeps_a_whole_limit_and_rounds_a_part_up() {
        let limited = |limit| Workload {
            limit: Some(CpuCount(limit)),
            ..Workload::new("batch", Class::BestEffort, CpuCount::ZERO)
        };
        let said = |limit, obstacle| lines(&limited(limit), &["caladan"], Support::Yes, obstacle);
        assert_eq!(said(2000, Some("why")), [""; 0]);
        assert_eq!(
            said(500, Some("why")),
            ["limit = 0.5 is not kept: policy caladan rounds it up to 1 whole CPUs; why"]
        );
        assert_eq!(said(500, None), [""; 0], "cpu.max keeps it on top");
    }

    #[test]
    fn a_key_that_counts_for_the_other_class_alone_says_so() {
        let batch = Workload::new("batch", Class::BestEffort, CpuCount::whole(2));
        let said = lines(&batch, &["guard"], Support::Yes, None);
        assert_eq!(
            said,
            ["cpus = 2 has no effect: policy guard ignores it where the class is \"be\"; take one that does \
              (rkube, dasec, sdc-local), or leave it out"]
        );
        assert_eq!(lines(&batch, &["rkube"], Support::Yes, None), [""; 0]);
        let plain = Workload::new("batch", Class::BestEffort, CpuCount::ZERO);
        assert_eq!(lines(&plain, &["none"], Support::Yes, Some("why")), [""; 0]);
    }
}
