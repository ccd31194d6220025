//! Limits are kept, and best-effort work has every core that no other task needs.

use quell_model::GrantCommand;

use super::Caladan;
use crate::invariant::{Calm, Invariants, most};

impl Invariants for Caladan {
    const VARIANTS: &'static [&'static str] =
        &[r#"{"thresh_ht": "30us", "thresh_bw": 15e9}"#, r#"{"many_a_round": true, "rules": false, "sockets": true}"#];

    fn check(&self, calm: &Calm<'_>) {
        calm.check_limits();
        // The last step gave away the cores that became idle just before it.
        let granted = calm.plan.grants.iter().filter_map(|command| match *command {
            GrantCommand::Grant(core, _) => Some(core),
            GrantCommand::Revoke(_) => None,
        });
        let idle = calm.view.cpus.idle.difference(&calm.banned).difference(&granted.collect());
        // Under the memory bandwidth controller cores may idle.
        for (id, spec) in calm.best_effort().filter(|_| self.config.thresh_bw.is_none()) {
            if calm.of(id).held.len() < most(spec) {
                assert!(idle.is_empty(), "{} wants more, and {idle:?} are idle", spec.name);
            }
        }
    }
}
