//! Which workloads can be played.

use quell_sim::WorkloadSpec;
use quell_sim::workload::Dispatch;
use quell_sim::workload::graph::GraphSpec;

use crate::error::{Error, Result};
use crate::requests;

/// Is a workload one that real threads can play, with the scene's requests? The machine is not asked: groups and their settings are the caller's.
///
/// # Errors
/// [`Error::Unplayable`], with what is in the way.
pub fn check(spec: &WorkloadSpec, graph: &GraphSpec) -> Result<()> {
    let dispatch = spec.server.as_ref().map(|server| &server.dispatch);
    let dispatch = dispatch.or(spec.closed.as_ref().map(|closed| &closed.dispatch));
    let in_the_way = [
        (spec.profile.is_some(), "a profile of caches and memory"),
        (matches!(dispatch, Some(Dispatch::WorkStealing(_))), "green threads"),
        (spec.batch.as_ref().is_some_and(|batch| !batch.cycle.is_empty()), "a cycle of kinds of work"),
    ];
    let of_requests = spec.pool.as_ref().and_then(|_| requests::in_the_way(spec, graph));
    match in_the_way.into_iter().find(|(is, _)| *is).map(|(_, what)| what).or(of_requests) {
        Some(what) => Err(Error::Unplayable { workload: spec.name.clone(), what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use quell_model::Class;
    use quell_sim::contention::ProfileName;

    use super::*;

    #[test]
    fn what_cannot_be_played_is_named() {
        let plain = WorkloadSpec::new("web", Class::LatencyCritical);
        assert!(check(&plain, &GraphSpec::NONE).is_ok());
        let profile = Some(ProfileName::Known("memcached".into()));
        let error = check(&WorkloadSpec { profile, ..plain }, &GraphSpec::NONE).unwrap_err().to_string();
        assert!(error.contains("'web'") && error.contains("caches and memory"), "{error}");
    }
}
