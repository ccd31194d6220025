//! What cannot come to an end: stages that wait for each other, pools that run out of threads, too much work.

use super::plan::{Act, Flags, Plan, Plans};

impl Plans {
    /// # Errors
    /// A sentence that names first what is at fault.
    pub(super) fn check(&self) -> Result<(), String> {
        self.requests.iter().try_for_each(check_end)?;
        self.check_homes()?;
        self.check_threads()?;
        self.check_load()
    }

    /// A lock is held in one place: its release wakes the next one there.
    fn check_homes(&self) -> Result<(), String> {
        let holds = |plan: &Plan, lock| {
            let mut acts = plan.stages.iter().flat_map(|stage| &stage.steps);
            acts.any(|act| matches!(act, Act::Locked(_, of) if *of == lock))
        };
        for (lock, (name, _)) in self.locks.iter().enumerate() {
            let mut holders = self.requests.iter().filter(|plan| holds(plan, lock));
            let Some(first) = holders.next() else { continue };
            if let Some(other) = holders.find(|other| other.home != first.home) {
                return Err(format!(
                    "lock '{name}' is held by requests '{}' and '{}', which are not in the same VM: give each a lock of its own",
                    first.name, other.name
                ));
            }
        }
        Ok(())
    }

    /// CPUs' worth of time that open loops ask of a workload; None: no request comes to it by itself.
    pub fn demand(&self, workload: usize) -> Option<f64> {
        let pools = (0..self.pools.len()).filter(|&pool| self.pools[pool].workload == workload);
        let demands = pools.map(|pool| self.demand_on(|stage, _| stage == pool)).sum::<f64>();
        (demands > 0.0).then_some(demands)
    }

    /// CPUs' worth of time that open loops ask for in steps that are chosen by their pool and their lock.
    fn demand_on(&self, chosen: impl Fn(usize, Option<usize>) -> bool) -> f64 {
        self.demand_in(|pool, act| match act {
            Act::Work(piece) if chosen(pool, None) => Some(piece),
            Act::Locked(piece, lock) if chosen(pool, Some(lock)) => Some(piece),
            _ => None,
        })
    }

    /// Time a second that open loops ask for in steps whose piece of work is chosen, by their pool.
    fn demand_in(&self, piece: impl Fn(usize, Act) -> Option<usize>) -> f64 {
        let mut demand = 0.0;
        for plan in &self.requests {
            let Some(arrivals) = &plan.arrivals else { continue };
            let steps = plan.stages.iter().flat_map(|stage| stage.steps.iter().map(|act| (stage.pool, *act)));
            let pieces = steps.filter_map(|(pool, act)| piece(pool, act));
            demand += arrivals.rate() * pieces.map(|piece| plan.works[piece].mean() / 1e9).sum::<f64>();
        }
        demand
    }

    fn check_load(&self) -> Result<(), String> {
        let demand = self.demand_in(|_, act| if let Act::Gpu(piece) = act { Some(piece) } else { None });
        if demand > 1.0 {
            return Err(format!(
                "requests ask for {demand:.2} times the GPU: its queue would grow without end; lower the rate"
            ));
        }
        for (lock, (name, _)) in self.locks.iter().enumerate() {
            let demand = self.demand_on(|_, of| of == Some(lock));
            if demand > 1.0 {
                return Err(format!(
                    "lock '{name}' would be held {demand:.2} times at once: who waits for it would be ever more; lower \
                     the rate or hold it shorter"
                ));
            }
        }
        for (number, pool) in self.pools.iter().enumerate() {
            let (demand, threads) = (self.demand_on(|of, _| of == number), pool.threads.len());
            if demand > threads as f64 {
                return Err(format!(
                    "'{}' is asked for {demand:.2} CPUs by requests and has {threads} threads: its queue would grow \
                     without end; lower the rate",
                    pool.name
                ));
            }
        }
        Ok(())
    }

    /// Threads of a pool that wait for stages which need a thread of the same pool, perhaps by way of others, may be
    /// all there are. Where that can be, there must be a thread for every stage that can be under way.
    fn check_threads(&self) -> Result<(), String> {
        let count = self.pools.len();
        let mut waits_for = vec![vec![false; count]; count];
        self.requests.iter().for_each(|plan| note_waits(plan, &mut waits_for));
        for middle in 0..count {
            for from in 0..count {
                for to in 0..count {
                    waits_for[from][to] |= waits_for[from][middle] && waits_for[middle][to];
                }
            }
        }
        for pool in (0..count).filter(|&pool| waits_for[pool][pool]) {
            let threads = self.pools[pool].threads.len() as u64;
            let mut wanted = Some(0);
            for plan in &self.requests {
                let stages = plan.stages.iter().filter(|stage| stage.pool == pool).count() as u64;
                if stages > 0 {
                    wanted = wanted.zip(plan.most_under_way()).map(|(sum, most)| sum + stages * u64::from(most));
                }
            }
            if wanted.is_none_or(|wanted| wanted > threads) {
                let fix = match wanted {
                    Some(wanted) => format!("give it {wanted} threads, or let fewer requests be under way (at_most)"),
                    None => "say how many requests may be under way (at_most), or give those stages pools or roles of \
                             their own"
                        .into(),
                };
                return Err(format!(
                    "'{}' has {threads} threads, and all of them could wait for stages that need one of them: {fix}",
                    self.pools[pool].name
                ));
            }
        }
        Ok(())
    }
}

/// Plays a request through as if nothing took time and threads were plenty: it has to come to its end.
fn check_end(plan: &Plan) -> Result<(), String> {
    // By stage: the step that it is at, and whether it has come to the barrier there.
    let mut at = vec![(0, false); plan.stages.len()];
    let mut came = vec![0; plan.barriers.len()];
    let mut raised: Flags = 0;
    let mut is_moving = true;
    while std::mem::take(&mut is_moving) {
        for (number, stage) in plan.stages.iter().enumerate() {
            let (step, is_at_barrier) = &mut at[number];
            if stage.after & !raised != 0 || *step > stage.steps.len() {
                continue;
            }
            let goes_on = match stage.steps.get(*step) {
                Some(Act::Wait(flags)) => flags & !raised == 0,
                Some(&Act::Barrier(barrier)) => {
                    if !std::mem::replace(is_at_barrier, true) {
                        came[barrier] += 1;
                        is_moving = true;
                    }
                    came[barrier] == plan.barriers[barrier]
                }
                Some(Act::Signal(flag)) => {
                    raised |= 1 << flag;
                    true
                }
                Some(Act::Work(_) | Act::Locked(..) | Act::Gpu(_)) => true,
                None => {
                    raised |= 1 << number;
                    true
                }
            };
            if goes_on {
                (*step, *is_at_barrier, is_moving) = (*step + 1, false, true);
            }
        }
    }
    let stuck = plan.stages.iter().enumerate().find(|&(number, _)| raised >> number & 1 == 0);
    let Some((number, stage)) = stuck else { return Ok(()) };
    let what = match stage.steps.get(at[number].0) {
        _ if stage.after & !raised != 0 => format!("begins after {}", plan.names(stage.after & !raised)),
        Some(Act::Wait(flags)) => format!("waits for {}", plan.names(flags & !raised)),
        _ => "waits at a barrier".into(),
    };
    Err(format!("stage '{}' of request '{}' {what}, which waits for it: break the circle", stage.name, plan.name))
}

/// Notes which pools' threads sleep until some pool has had a thread for a stage.
fn note_waits(plan: &Plan, waits_for: &mut [Vec<bool>]) {
    for (number, stage) in plan.stages.iter().enumerate() {
        let mut wanted: Flags = 0;
        for step in &stage.steps {
            match *step {
                Act::Wait(flags) => wanted |= flags,
                Act::Barrier(barrier) => wanted |= meeting(plan, barrier),
                _ => {}
            }
        }
        if wanted == 0 {
            continue;
        }
        // Who must have begun before this stage began has a thread already.
        let begun = needed(plan, stage.after, false) | 1 << number;
        let to_come = needed(plan, wanted, true) & !begun;
        for other in (0..plan.stages.len()).filter(|other| to_come >> other & 1 == 1) {
            waits_for[stage.pool][plan.stages[other].pool] = true;
        }
    }
}

/// The stages that must have begun for these flags to be raised; with what they in turn `waits` for.
fn needed(plan: &Plan, flags: Flags, waits: bool) -> Flags {
    let (mut flags, mut stages): (Flags, Flags) = (flags, 0);
    loop {
        let before = (flags, stages);
        for (number, stage) in plan.stages.iter().enumerate() {
            let signals = |step: &Act| matches!(*step, Act::Signal(flag) if flags >> flag & 1 == 1);
            if flags >> number & 1 == 1 || stage.steps.iter().any(signals) {
                stages |= 1 << number;
                flags |= stage.after;
                for step in stage.steps.iter().filter(|_| waits) {
                    match *step {
                        Act::Wait(more) => flags |= more,
                        Act::Barrier(barrier) => flags |= meeting(plan, barrier),
                        _ => {}
                    }
                }
            }
        }
        if (flags, stages) == before {
            return stages;
        }
    }
}

/// The stages that meet at a barrier.
fn meeting(plan: &Plan, barrier: usize) -> Flags {
    let stages = plan.stages.iter().enumerate().filter(|(_, stage)| stage.steps.contains(&Act::Barrier(barrier)));
    stages.fold(0, |stages, (number, _)| stages | 1 << number)
}
