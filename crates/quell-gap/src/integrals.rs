//! A period's sums, and how the gap and its causes come out of them.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

/// Thousandths of a CPU times nanoseconds. Whole numbers, so that sums are exact.
pub(crate) type MilliCpuNanos = u128;

/// One workload's integrals over one period, in thousandths of a CPU times nanoseconds. The crate's page defines each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Integrals {
    /// `∫ c`
    pub requested: MilliCpuNanos,
    /// `∫ min(n, CPUs)`
    pub demanded: MilliCpuNanos,
    /// `∫ min(n, c)`
    pub due: MilliCpuNanos,
    /// `∫ r`
    pub got: MilliCpuNanos,
    /// Shortage while threads waited on an idle CPU.
    pub dispatch: MilliCpuNanos,
    /// Shortage while threads waited on CPUs that ran others.
    pub shared: MilliCpuNanos,
    /// Idle CPU time elsewhere while it had something to run.
    pub phantom: MilliCpuNanos,
}

/// A workload's account: sums over periods, in CPU time. `kept + frs + pct + rest = due`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its request.
    pub requested: Nanos,
    /// The time that it could have used of the whole machine.
    pub demanded: Nanos,
    /// The time that it could have used of its request.
    pub due: Nanos,
    /// The time that it got.
    pub got: Nanos,
    /// The part of its request that was honoured.
    pub kept: Nanos,
    /// Its shortage within its request: `due − kept`.
    pub gap: Nanos,
    /// The part of the gap that is forced runqueue sharing.
    pub frs: Nanos,
    /// The part of the gap that is phantom CPU time.
    pub pct: Nanos,
    /// The part of the gap that is neither.
    pub rest: Nanos,
    /// All shortage while another workload's thread ran on its CPU, also where idle time elsewhere would have covered it.
    pub shared: Nanos,
    /// All idle CPU time elsewhere while it had something to run, also where it was not short.
    pub phantom: Nanos,
}

/// The gap and its split, in thousandths of a CPU times nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub gap: MilliCpuNanos,
    pub frs: MilliCpuNanos,
    pub pct: MilliCpuNanos,
}

impl Integrals {
    /// The gap of a period and its causes.
    pub(crate) fn split(&self) -> Split {
        let gap = self.due.saturating_sub(self.got);
        let after_dispatch = gap - gap.min(self.dispatch);
        let pct = after_dispatch.min(self.phantom);
        let frs = (after_dispatch - pct).min(self.shared);
        Split { gap, frs, pct }
    }
}

/// Sums of settled periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    sums: Integrals,
    split: Split,
}

impl Totals {
    /// Adds a period.
    pub fn settle(&mut self, period: &Integrals) {
        let split = period.split();
        self.split.gap += split.gap;
        self.split.frs += split.frs;
        self.split.pct += split.pct;
        self.sums.requested += period.requested;
        self.sums.demanded += period.demanded;
        self.sums.due += period.due;
        self.sums.got += period.got;
        self.sums.dispatch += period.dispatch;
        self.sums.shared += period.shared;
        self.sums.phantom += period.phantom;
    }

    /// In CPU time. Parts are rounded down to whole nanoseconds, and the rest takes the remainder, so that the parts
    /// still add up.
    pub fn account(&self) -> Account {
        let nanos = |milli: MilliCpuNanos| Nanos(u64::try_from(milli / 1000).unwrap_or(u64::MAX));
        let due = nanos(self.sums.due);
        let gap = nanos(self.split.gap);
        let (frs, pct) = (nanos(self.split.frs), nanos(self.split.pct));
        Account {
            requested: nanos(self.sums.requested),
            demanded: nanos(self.sums.demanded),
            due,
            got: nanos(self.sums.got),
            kept: due - gap,
            gap,
            frs,
            pct,
            rest: gap - frs - pct,
            shared: nanos(self.sums.shared),
            phantom: nanos(self.sums.phantom),
        }
    }
}

impl Account {
    /// The honoured part of its due time: 1 without a shortage; `None` if nothing was due.
    #[must_use]
    pub fn honoured(&self) -> Option<f64> {
        (self.due > Nanos::ZERO).then(|| self.kept.0 as f64 / self.due.0 as f64)
    }
}
