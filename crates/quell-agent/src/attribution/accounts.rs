//! The accounts of the workloads that are there.

use std::sync::Arc;

use quell_gap::attribution::{Ledger, Shares};
use quell_model::{Nanos, Workload};

use super::exchange::Look;

/// By slot.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    slots: Vec<Option<(Arc<Workload>, Ledger)>>,
}

impl Accounts {
    /// Takes what the loop saw. Another workload in a slot has an account of its own.
    pub fn count(&mut self, look: &Look) {
        self.slots.resize_with(look.workloads.len(), || None);
        for (slot, found) in self.slots.iter_mut().zip(&look.workloads) {
            let Some((spec, waited)) = found else {
                *slot = None;
                continue;
            };
            match slot {
                // A reload may describe it anew; its threads are counted on.
                Some((known, _)) if known.name == spec.name => *known = Arc::clone(spec),
                _ => *slot = Some((Arc::clone(spec), Ledger::default())),
            }
            if let Some((_, ledger)) = slot {
                ledger.count(look.at, *waited);
            }
        }
    }

    /// Names by slot; empty where there is no workload.
    pub fn names(&self) -> Vec<String> {
        let name =
            |slot: &Option<(Arc<Workload>, Ledger)>| slot.as_ref().map_or(String::new(), |(spec, _)| spec.name.clone());
        self.slots.iter().map(name).collect()
    }

    pub fn ledgers(&self) -> impl Iterator<Item = &Ledger> {
        self.slots.iter().flatten().map(|(_, ledger)| ledger)
    }

    pub fn ledgers_mut(&mut self) -> impl Iterator<Item = &mut Ledger> {
        self.slots.iter_mut().flatten().map(|(_, ledger)| ledger)
    }

    /// A burst is over; it had these workloads. None: it found out nothing.
    pub fn end_burst(&mut self, names: &[String], shares: Option<&[Shares]>) {
        for (slot, account) in self.slots.iter_mut().enumerate() {
            let Some((spec, ledger)) = account else { continue };
            let is_same = names.get(slot) == Some(&spec.name);
            ledger.end_burst(shares.filter(|_| is_same).and_then(|shares| shares.get(slot)).cloned());
        }
    }

    /// Each workload with its account, by slot.
    pub fn all(&self) -> impl Iterator<Item = Option<(&Arc<Workload>, &Ledger)>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|(spec, ledger)| (spec, ledger)))
    }

    /// The time that others took, by slot.
    pub fn for_others(&self) -> impl Iterator<Item = (Option<Arc<Workload>>, Nanos)> {
        self.all()
            .map(|account| account.map_or((None, Nanos::ZERO), |(spec, it)| (Some(Arc::clone(spec)), it.by_others())))
    }
}
