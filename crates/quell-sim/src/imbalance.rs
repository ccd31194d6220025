//! What is too unequal between parts of a domain, and by how much; which part is the emptiest.

use std::cmp::Ordering;

/// A part must be this much more loaded, per cent (`imbalance_pct`).
const IMBALANCE: u64 = 117;

/// Why balancing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NewlyIdle,
    Idle,
    Busy,
}

/// What one part of a domain has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub cpus: u64,
    pub idle: u64,
    pub tasks: u64,
    pub load: u64,
}

impl Part {
    pub fn is_overloaded(&self) -> bool {
        self.tasks > self.cpus
    }

    pub fn load_per_cpu(&self) -> u64 {
        self.load / self.cpus.max(1)
    }
}

/// Is a part busier than another?
pub(crate) fn is_busier(part: &Part, other: &Part) -> bool {
    match (part.is_overloaded(), other.is_overloaded()) {
        (true, true) => part.load_per_cpu() > other.load_per_cpu(),
        (false, false) => (part.tasks, other.idle) > (other.tasks, part.idle),
        (overloaded, _) => overloaded,
    }
}

/// Should threads move from the busiest part here, and how much: a load (true), or a number of threads?
pub(crate) fn imbalance(own: &Part, busiest: &Part, total: &Part, reason: Reason) -> Option<(bool, u64)> {
    if busiest.is_overloaded() {
        if own.tasks < own.cpus || reason == Reason::NewlyIdle {
            return Some((false, own.idle.max(1)));
        }
        let (here, there, mean) = (own.load_per_cpu(), busiest.load_per_cpu(), total.load / total.cpus.max(1));
        let is_close = own.is_overloaded() && 100 * there <= IMBALANCE * here;
        if here >= mean || there <= mean || is_close {
            return None;
        }
        return Some((true, ((there - mean) * busiest.cpus).min((mean - here) * own.cpus)));
    }
    if reason == Reason::Busy || busiest.tasks <= 1 || (busiest.cpus > 1 && own.idle <= busiest.idle + 1) {
        return None;
    }
    let differ = busiest.tasks.saturating_sub(own.tasks) / 2;
    (differ > 0).then_some((false, differ))
}

/// What a part of a domain has for a new thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    pub cpus: u64,
    pub idle: u64,
    pub tasks: u64,
    /// CPUs' worth of time that it was busy lately.
    pub used: f64,
    /// In weights of nice 0.
    pub load: f64,
}

impl Room {
    /// The kernel's `group_type`: 0 has room, 1 is busy, 2 is overloaded.
    fn kind(&self) -> u8 {
        let is_full = self.used * IMBALANCE as f64 > 100.0 * self.cpus as f64;
        match self.tasks.cmp(&self.cpus) {
            Ordering::Less => 0,
            _ if !is_full => 0,
            Ordering::Equal => 1,
            Ordering::Greater => 2,
        }
    }

    fn load_per_cpu(&self) -> f64 {
        self.load / self.cpus.max(1) as f64
    }

    /// Is it emptier than another (`update_pick_idlest`)?
    fn is_emptier(&self, other: &Room) -> bool {
        match self.kind().cmp(&other.kind()) {
            Ordering::Equal if self.kind() > 0 => self.load_per_cpu() < other.load_per_cpu(),
            Ordering::Equal if self.idle == other.idle => self.used < other.used,
            Ordering::Equal => self.idle > other.idle,
            unequal => unequal.is_lt(),
        }
    }
}

/// Where a new thread begins (`sched_balance_find_dst_group`): in one of the other parts, or in its parent's own (None). The parent's
/// is left out if the thread may not run there.
pub(crate) fn emptiest(own: Option<&Room>, others: &[Room]) -> Option<usize> {
    let mut best = 0;
    for place in 1..others.len() {
        if others[place].is_emptier(&others[best]) {
            best = place;
        }
    }
    let (there, Some(here)) = (others.get(best)?, own) else { return Some(best) };
    let goes = match here.kind().cmp(&there.kind()) {
        Ordering::Equal if here.kind() > 0 => {
            let more = (IMBALANCE - 100) as f64 / 100.0;
            let (here, there) = (here.load_per_cpu(), there.load_per_cpu());
            there < here + more && 100.0 * here > IMBALANCE as f64 * there
        }
        Ordering::Equal => here.idle < there.idle,
        unequal => unequal.is_gt(),
    };
    goes.then_some(best)
}

/// How many CPUs of `count` that share a cache wake-ups look at, where each was busy for this part of its time lately: the fewer the
/// busier, none from 85 % on (`update_idle_cpu_scan`).
pub(crate) fn scans(used: f64, count: usize) -> u32 {
    let limit = IMBALANCE as f64 / 100.0;
    ((1.0 - used * used * limit * limit).max(0.0) * count as f64) as u32
}

/// Of how much use a CPU's looks for work were when it went idle (`newidle_call`, `newidle_success`, `newidle_ratio`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    calls: u32,
    successes: u32,
    /// Of 1024 looks this many find something.
    ratio: u32,
}

impl Looks {
    /// As the kernel begins: every second one finds something.
    pub const FIRST: Looks = Looks { calls: 512, successes: 256, ratio: 512 };

    /// How often a look is taken: of 1024 times.
    pub fn weight(&self) -> u32 {
        1 + self.ratio
    }

    /// One look that found nothing, or was not taken; or one that found something, and stands for those that were not taken.
    pub fn count(&mut self, found: bool) {
        self.calls += 1;
        self.successes += if found { (1024 + self.weight() / 2) / self.weight() } else { 0 };
        if self.calls >= 1024 {
            self.ratio = self.successes;
            (self.calls, self.successes) = (self.calls / 2, self.successes / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_cpus_were_the_fewer_are_looked_at() {
        assert_eq!([0.0, 0.5, 0.7, 0.8, 0.9].map(|used| scans(used, 4)), [4, 2, 1, 0, 0]);
    }

    #[test]
    fn a_new_thread_begins_on_an_idle_cpu_or_where_the_load_is_clearly_less() {
        let room = |idle: u64, tasks: u64, used: f64, load: f64| Room { cpus: 1, idle, tasks, used, load };
        let (parent, idle) = (room(0, 1, 0.1, 0.1), room(1, 0, 0.5, 0.2));
        assert_eq!(emptiest(Some(&parent), &[room(0, 1, 0.2, 0.0), idle, room(1, 0, 0.3, 0.9)]), Some(2));
        assert_eq!(emptiest(Some(&parent), &[room(0, 1, 0.2, 0.0)]), None, "neither is idle, both have room");
        let full = |load: f64| room(0, 3, 1.0, load);
        assert_eq!(emptiest(Some(&full(2.0)), &[full(1.9), full(1.8)]), None);
        assert_eq!(emptiest(Some(&full(2.0)), &[full(1.9), full(1.5)]), Some(1));
        assert_eq!(emptiest(None, &[full(1.9), full(2.5)]), Some(0));
        assert_eq!(emptiest(Some(&parent), &[]), None);
    }

    #[test]
    fn looks_become_as_frequent_as_they_are_of_use() {
        let mut looks = Looks::FIRST;
        (0..5_000).for_each(|_| looks.count(false));
        assert!(looks.weight() < 50, "{}", looks.weight());
        let mut at = 0u32;
        // Each look that is taken finds something; one of this many is taken.
        for _ in 0..20_000 {
            at += looks.weight();
            looks.count(at >= 1024);
            at %= 1024;
        }
        assert!(looks.weight() > 900, "{}", looks.weight());
    }
}
