//! Threads on shared CPUs: real-time first, then fair by weight, then idle, within each thread's CPU set.

use quell_model::{CpuId, CpuSet, Nanos, SchedClass};

use crate::ToyHost;

/// Longest stretch of time with one placement of the threads.
pub(crate) const TICK: Nanos = Nanos::from_millis(1);

/// What a thread asks for and what it got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    member: usize,
    thread: usize,
    rank: Rank,
    weight: f64,
    demand: f64,
    cpus: CpuSet,
    cpu: usize,
    share: f64,
}

/// Lower runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    RealTime(std::cmp::Reverse<u8>),
    Fair,
    Idle,
}

impl ToyHost {
    /// Places the threads and divides the CPUs among them for the stretch of time that begins. Leaves in `busy` how
    /// much of each CPU is used.
    pub(crate) fn place_threads(&mut self) {
        self.busy.fill(0.0);
        let mut claims = self.claims();
        // Equal threads take turns at the better places.
        let turn = (self.now.0 / TICK.0) as usize;
        let count = claims.len().max(1);
        claims.rotate_left(turn % count);
        claims.sort_by_key(|claim| claim.rank);
        for rank in claims.chunk_by_mut(|a, b| a.rank == b.rank) {
            place(rank, &self.busy);
            share(rank, &mut self.busy);
        }
        self.shares.clear();
        self.shares.resize(self.members.len(), 0.0);
        for claim in &claims {
            self.shares[claim.member] += claim.share * self.frequency(CpuId(claim.cpu as u32));
        }
        self.claims = claims;
    }

    /// The threads run for this span as they were placed.
    pub(crate) fn run_threads(&mut self, span: Nanos) {
        for claim in &self.claims {
            let Some(member) = self.members[claim.member].as_mut() else { continue };
            let thread = &mut member.threads[claim.thread];
            thread.cpu = CpuId(claim.cpu as u32);
            thread.run_time += span.scaled(claim.share);
            thread.run_delay += span.scaled((claim.demand - claim.share).max(0.0));
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for id in self.ids() {
            let Some(member) = self.members[id.index()].as_ref().filter(|_| !self.is_stopped(id)) else { continue };
            let lifted = self.is_lifted(id);
            let own = if lifted { self.online } else { member.settings.cpus };
            for (thread, seen) in member.threads.iter().enumerate().filter(|(_, thread)| thread.demand > 0.0) {
                let cpus = if lifted { own } else { seen.cpus.unwrap_or(own) };
                let (rank, weight) = standing(seen.class, member.settings.weight, member.settings.idle_only);
                claims.push(Claim {
                    member: id.index(),
                    thread,
                    rank,
                    weight,
                    demand: seen.demand.min(1.0),
                    cpus: cpus.intersection(&self.online),
                    cpu: seen.cpu.index(),
                    share: 0.0,
                });
            }
        }
        claims
    }
}

/// A thread's rank and weight. A step of nice is a factor of 1.25, as in the kernel; SCHED_DEADLINE is taken as the
/// highest real-time priority.
fn standing(class: SchedClass, weight: u32, idle_only: bool) -> (Rank, f64) {
    let nice = |nice: i8| f64::from(weight) * 1.25_f64.powi(-i32::from(nice));
    match class {
        SchedClass::Deadline { .. } => (Rank::RealTime(std::cmp::Reverse(100)), 1.0),
        SchedClass::Fifo { priority } | SchedClass::RoundRobin { priority } => {
            (Rank::RealTime(std::cmp::Reverse(priority)), 1.0)
        }
        SchedClass::Idle => (Rank::Idle, f64::from(weight)),
        SchedClass::Fair { .. } | SchedClass::Batch { .. } if idle_only => (Rank::Idle, f64::from(weight)),
        SchedClass::Fair { nice: value, .. } | SchedClass::Batch { nice: value } => (Rank::Fair, nice(value)),
    }
}

/// Puts each thread on the CPU of its set where least is used or claimed.
fn place(claims: &mut [Claim], busy: &[f64]) {
    let mut load: Vec<f64> = busy.to_vec();
    for claim in claims {
        let least = claim.cpus.iter().min_by(|a, b| load[a.index()].total_cmp(&load[b.index()]));
        let Some(cpu) = least else {
            claim.demand = 0.0;
            continue;
        };
        claim.cpu = cpu.index();
        load[claim.cpu] += claim.demand;
    }
}

/// Divides what is left of each CPU among the threads placed there, by weight, nobody beyond its demand.
fn share(claims: &mut [Claim], busy: &mut [f64]) {
    for (cpu, used) in busy.iter_mut().enumerate() {
        let mut left = 1.0 - *used;
        while left > 1e-9 {
            let hungry = |claim: &&mut Claim| claim.cpu == cpu && claim.share < claim.demand;
            let weights: f64 = claims.iter_mut().filter(hungry).map(|claim| claim.weight).sum();
            if weights <= 0.0 {
                break;
            }
            let round = left;
            for claim in claims.iter_mut().filter(hungry) {
                let part = (round * claim.weight / weights).min(claim.demand - claim.share);
                claim.share += part;
                left -= part;
            }
            if round - left < 1e-9 {
                break;
            }
        }
        *used = 1.0 - left.max(0.0);
    }
}
