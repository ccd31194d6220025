//! Leased workloads: a configuration with workloads that stand in none of its files.

use std::path::PathBuf;

use quell_model::{Class, CpuCount, Policy as _, Reservation, Selector, TargetKind, Workload};
use quell_policy::AnyPolicy;

use super::selector::{impossible, same};
use super::{Config, Layer, Member, Place};
use crate::wire::{self, Match, Protect};

/// A workload that a caller leased.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    /// The workload.
    pub workload: Workload,
    /// The caller, in words.
    pub by: String,
    /// The policy that it asks for.
    policy: AnyPolicy,
    /// Does it ask for parameters of the policy?
    has_parameters: bool,
}

impl Leased {
    /// What a caller asks for.
    ///
    /// # Errors
    /// What is wrong with it, with the fix.
    pub fn new(protect: &Protect, by: &str) -> Result<Leased, String> {
        let class = match protect.class {
            wire::Class::Lc => Class::LatencyCritical,
            wire::Class::Be => Class::BestEffort,
        };
        let cpus = CpuCount::try_from(protect.cpus)?;
        let workload = Workload {
            limit: protect.limit.map(CpuCount::try_from).transpose()?,
            reservation: if protect.strict { Reservation::Strict } else { Reservation::Standard },
            selectors: protect.selectors.iter().map(selector).collect(),
            ..Workload::new(protect.name.clone(), class, cpus)
        };
        workload.check().map_err(|error| error.to_string())?;
        if workload.selectors.is_empty() {
            return Err(format!("workload '{}' matches nothing; say where its threads are", workload.name));
        }
        if let Some(why) = workload.selectors.iter().find_map(impossible) {
            return Err(why);
        }
        let parameters = serde_json::Value::Object(protect.parameters.clone());
        let policy = AnyPolicy::build(&protect.policy, parameters).map_err(|error| error.to_string())?;
        Ok(Leased { workload, by: by.to_owned(), policy, has_parameters: !protect.parameters.is_empty() })
    }

    /// With the parameters of the layer that it joins in this configuration: they are its own once who brought them is gone.
    #[must_use]
    pub fn joined(mut self, config: &Config) -> Leased {
        let name = self.policy.describe().name;
        if let Some(layer) = config.policies.iter().find(|layer| layer.policy.describe().name == name) {
            self.policy = layer.policy.clone();
        }
        self
    }

    /// The place of its faults.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::file(PathBuf::from(format!("lease of {} for '{}'", self.by, self.workload.name)))
    }
}

fn selector(wanted: &Match) -> Selector {
    match wanted {
        Match::Unit(name) => Selector::Unit(name.clone()),
        Match::Cgroup(path) => Selector::Cgroup(path.into()),
        Match::Container(id) => Selector::Container(id.clone()),
        Match::Label(label) => Selector::Label(label.clone()),
        Match::Pod(uid) => Selector::Pod(uid.clone()),
        Match::Pid(pid) => Selector::Pid(*pid),
    }
}

impl Config {
    /// The same with a leased workload, after all others. The first layer of its policy owns it too; without one there is a new
    /// one, after all others.
    ///
    /// # Errors
    /// Why that is not possible, with the fix.
    pub fn with_leased(&self, leased: &Leased) -> Result<Config, String> {
        let (workload, policy) = (&leased.workload, leased.policy.describe());
        let name = &workload.name;
        for other in &self.workloads {
            let (theirs, place) = (&other.workload, &other.place);
            if theirs.name == *name {
                return Err(format!("workload '{name}' is already defined ({place}); give this one another name"));
            }
            let both = |own: &&Selector| theirs.selectors.iter().any(|selector| same(selector, own));
            if let Some(selector) = workload.selectors.iter().find(both) {
                return Err(format!("{selector} is already in workload '{}' ({place}); see `quell why`", theirs.name));
            }
        }
        let mut config = self.clone();
        let place = leased.place();
        let member = Member {
            workload: workload.clone(),
            latency: None,
            leased_by: Some(leased.by.clone()),
            place: place.clone(),
        };
        config.workloads.push(member);
        let hands_out = policy.can_use_own_scheduler();
        let not_now = |why: &str| {
            Err(format!(
                "policy '{}' {why}; write policy and workload into the configuration, or request another policy (guard)",
                policy.name
            ))
        };
        match config.policies.iter_mut().find(|layer| layer.policy.describe().name == policy.name) {
            Some(layer) if leased.has_parameters && layer.policy != leased.policy => Err(format!(
                "policy '{}' has other parameters in this agent; request it without parameters",
                policy.name
            )),
            Some(layer) => match &mut layer.workloads {
                None => Ok(config),
                Some(_) if hands_out => not_now("grants CPUs here, to the workloads in the configuration only"),
                Some(names) => {
                    names.push(name.clone());
                    Ok(config)
                }
            },
            None if hands_out => not_now("grants CPUs, for which this agent's scheduler was not started"),
            None if sets_more_than_workloads(policy) => not_now("also sets values of CPUs or of the whole machine"),
            None => {
                let workloads = Some(vec![name.clone()]);
                config.policies.push(Layer { policy: leased.policy.clone(), workloads, place });
                Ok(config)
            }
        }
    }
}

/// What would not be put back with its workloads.
fn sets_more_than_workloads(policy: &quell_model::Description) -> bool {
    let beyond = |kind: &TargetKind| matches!(kind, TargetKind::Cpu | TargetKind::Machine);
    policy.knobs.iter().any(|need| need.what.info().on.iter().any(beyond))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read_text;
    use super::*;

    fn config(policy: &str) -> Config {
        let text = format!(
            "[[policy]]\nname = \"{policy}\"\nworkloads = [\"web\"]\n[[workload]]\nname = \"web\"\nclass = \"lc\"\n\
             cpus = 1\nmatch = [{{ unit = \"web\" }}]\n"
        );
        read_text(Path::new("quell.toml"), &text).unwrap()
    }

    fn protect(name: &str, policy: &str, selector: Match) -> Protect {
        Protect {
            name: name.into(),
            class: wire::Class::Lc,
            cpus: 1.0,
            limit: None,
            strict: false,
            selectors: vec![selector],
            processes: Vec::new(),
            policy: policy.into(),
            parameters: serde_json::Map::default(),
        }
    }

    fn with(config: &Config, protect: &Protect) -> Result<Config, String> {
        config.with_leased(&Leased::new(protect, "root (process 7)")?)
    }

    #[test]
    fn a_layer_of_its_policy_is_joined_or_added_and_the_others_stay() {
        let base = config("guard");
        let joined = with(&base, &protect("db", "guard", Match::Pid(7))).unwrap();
        assert_eq!(joined.policies.len(), 1);
        assert_eq!(joined.policies[0].workloads.as_ref().unwrap(), &["web", "db"]);
        assert_eq!(joined.workloads[1].leased_by.as_deref(), Some("root (process 7)"));
        let added = with(&joined, &protect("cache", "rkube", Match::Unit("cache".into()))).unwrap();
        assert_eq!(added.policies[1].workloads.as_ref().unwrap(), &["cache"]);
        assert_eq!(added.policies[0], joined.policies[0]);
        assert!(!base.needs_restart(&base) && added.workloads.len() == 3);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_a_line_with_the_fix() {
        let base = config("guard");
        let error = |base: &Config, protect: &Protect| with(base, protect).unwrap_err();
        let mut other = protect("db", "guard", Match::Pid(7));
        for (change, parts) in [
            (
                protect("web", "guard", Match::Pid(7)),
                &["'web' is already defined (quell.toml:5:8)", "another name"][..],
            ),
            (protect("db", "guard", Match::Unit("web.service".into())), &["already in workload 'web'", "quell why"]),
            (protect("db", "gaurd", Match::Pid(7)), &["did you mean 'guard'"]),
            (protect("db", "caladan", Match::Pid(7)), &["'caladan' grants CPUs", "another policy"]),
            (protect("db", "heracles", Match::Pid(7)), &["whole machine", "configuration"]),
            (protect("db", "guard", Match::Container("a b".into())), &["docker ps"]),
            (protect("", "guard", Match::Pid(7)), &["name"]),
        ] {
            let error = error(&base, &change);
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        other.parameters = serde_json::from_str(r#"{"run_budget": "20ms"}"#).unwrap();
        assert!(error(&base, &other).contains("other parameters"));
        other.cpus = -1.0;
        assert!(error(&base, &other).contains("expected a number"));
        assert!(
            error(&config("caladan"), &protect("db", "caladan", Match::Pid(7))).contains("in the configuration only")
        );
    }
}
