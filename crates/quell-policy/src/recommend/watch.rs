//! Facts from looking at threads' times: the longest run without a pause, what they waited, how fast their load moves.

use std::collections::BTreeMap;

use quell_model::{CpuCount, Nanos, ThreadId};
use serde::Serialize;

use super::facts::WorkloadFacts;

/// A thread that ran or waited for a CPU for this share of the time between two looks made no pause.
const NO_PAUSE: f64 = 0.9;

/// A workload that waits for less than this share of what it asks for is not disturbed.
const UNDISTURBED: f64 = 0.01;

/// What moves by less than this share of the mean demand is noise of arrivals.
const MOVES: f64 = 0.25;

/// Looks further apart say nothing of milliseconds.
const CLOSE: Nanos = Nanos::from_millis(20);

/// Fewer looks say nothing of how the load moves.
const LEAST_LOOKS: usize = 20;

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    run_time: Nanos,
    run_delay: Nanos,
    streak: Nanos,
    look: u64,
}

/// Watches the threads of a workload.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    threads: BTreeMap<ThreadId, Thread>,
    looked_at: Option<Nanos>,
    looks: u64,
    pauses: Option<u64>,
    /// CPUs that were asked for between two looks.
    asked: Vec<f64>,
    ran: Nanos,
    waited: Nanos,
    watched: Nanos,
    longest_run: Nanos,
}

/// What the looks found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Looks {
    /// For how long.
    pub watched: Nanos,
    /// CPU time that its threads used.
    pub ran: Nanos,
    /// Time that they waited for a CPU.
    pub waited: Nanos,
    /// The longest run of a thread without a pause, as far as looks can say.
    pub longest_run: Nanos,
    /// How long they ran from one pause to the next, on average; none where pauses were not counted.
    pub mean_run: Option<Nanos>,
    /// CPUs that they asked for, on average: ran and waited.
    pub asked: f64,
    /// By how many CPUs that moves from one look to the next (root mean square); none of few or distant looks.
    pub swing: Option<f64>,
}

impl Watch {
    /// Looks at the threads, each with the times that the kernel has counted of it.
    pub fn look(&mut self, now: Nanos, threads: impl IntoIterator<Item = (ThreadId, Nanos, Nanos)>) {
        let elapsed = self.looked_at.map(|before| now - before);
        if elapsed == Some(Nanos::ZERO) {
            return;
        }
        self.looks += 1;
        let mut wanted_by_all = Nanos::ZERO;
        for (id, run_time, run_delay) in threads {
            let known = self.threads.get(&id).copied();
            let before = known.unwrap_or(Thread { run_time, run_delay, ..Thread::default() });
            let (ran, waited) = (run_time - before.run_time, run_delay - before.run_delay);
            let wanted = ran + waited;
            let no_pause = elapsed.is_some_and(|elapsed| wanted >= elapsed.scaled(NO_PAUSE));
            let streak = if no_pause { before.streak + ran } else { Nanos::ZERO };
            self.longest_run = self.longest_run.max(streak);
            self.ran += ran;
            self.waited += waited;
            wanted_by_all += wanted;
            self.threads.insert(id, Thread { run_time, run_delay, streak, look: self.looks });
        }
        let look = self.looks;
        self.threads.retain(|_, thread| thread.look == look);
        if let Some(elapsed) = elapsed {
            self.watched += elapsed;
            self.asked.push(wanted_by_all.0 as f64 / elapsed.0 as f64);
        }
        self.looked_at = Some(now);
    }

    /// Counts pauses of the threads, by the kernel's count of their voluntary switches.
    pub fn count_pauses(&mut self, pauses: u64) {
        self.pauses = Some(self.pauses.unwrap_or(0) + pauses);
    }

    /// What the looks have found; none before the second look.
    #[must_use]
    pub fn found(&self) -> Option<Looks> {
        if self.watched == Nanos::ZERO {
            return None;
        }
        let steps = || self.asked.windows(2).map(|pair| pair[1] - pair[0]);
        let squares: f64 = steps().map(|step| step * step).sum();
        let count = self.asked.len().saturating_sub(1);
        let are_close = self.asked.len() >= LEAST_LOOKS && self.watched.0 <= CLOSE.0 * self.asked.len() as u64;
        let swing = are_close.then(|| libm::sqrt(squares / count as f64));
        let asked = (self.ran + self.waited).0 as f64 / self.watched.0 as f64;
        let Watch { watched, ran, waited, longest_run, .. } = *self;
        let mean_run = self.pauses.map(|pauses| Nanos(ran.0 / pauses.max(self.threads.len() as u64).max(1)));
        Some(Looks { watched, ran, waited, longest_run, mean_run, asked, swing })
    }
}

impl Looks {
    /// CPUs that they asked for, without what is less than a tenth: a thread that never pauses asks for one, give or take the time
    /// that looking takes.
    #[must_use]
    pub fn demand(&self) -> CpuCount {
        CpuCount((self.asked * 10.0) as u32 * 100)
    }

    /// Writes what they say into a workload's facts. A workload that did nothing says nothing.
    pub fn write_into(&self, facts: &mut WorkloadFacts) {
        let asked = self.ran + self.waited;
        if asked == Nanos::ZERO {
            return;
        }
        facts.disturbed = Some(self.waited >= asked.scaled(UNDISTURBED));
        facts.longest_run = self.run();
        facts.cpus = facts.cpus.or(Some(self.demand()));
        facts.moves = self.swing.map(|swing| swing > f64::max(1.0, self.asked * MOVES));
    }

    /// The longest run that the rule goes by; none: not known.
    #[must_use]
    pub fn run(&self) -> Option<Nanos> {
        // A thread that waits more than it runs has no pause because others keep it from its work: it would have some without them.
        // And a look within a wait, which the kernel counts at its end, takes that for a pause: the mean run is no shorter.
        let longest = || Some(self.mean_run.map_or(self.longest_run, |mean| mean.max(self.longest_run)));
        if self.waited > self.ran { self.mean_run } else { longest() }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::Class;

    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Looks every 10 ms at threads whose run and waiting times between two looks are given.
    fn found(of: &[&[(u64, u64)]]) -> Looks {
        let mut watch = Watch::default();
        let mut totals = vec![(Nanos::ZERO, Nanos::ZERO); of[0].len()];
        let list = |totals: &[(Nanos, Nanos)]| -> Vec<(ThreadId, Nanos, Nanos)> {
            let id = |tid: usize| ThreadId { tid: tid as i32, ..ThreadId::default() };
            totals.iter().enumerate().map(|(tid, (ran, waited))| (id(tid), *ran, *waited)).collect()
        };
        watch.look(MS(1000), list(&totals));
        for (at, look) in of.iter().enumerate() {
            for (total, (ran, waited)) in totals.iter_mut().zip(*look) {
                *total = (total.0 + MS(*ran), total.1 + MS(*waited));
            }
            watch.look(MS(1010 + 10 * at as u64), list(&totals));
        }
        watch.found().unwrap()
    }

    fn facts(of: &[&[(u64, u64)]]) -> WorkloadFacts {
        let mut facts = WorkloadFacts::unknown("x", "", Class::LatencyCritical);
        found(of).write_into(&mut facts);
        facts
    }

    #[test]
    fn the_longest_run_counts_run_time_and_ends_at_a_pause() {
        let busy: &[(u64, u64)] = &[(5, 5)];
        let looks = found(&[&[(10, 0)], busy, busy, &[(8, 0)], &[(10, 0)]]);
        assert_eq!((looks.longest_run, looks.waited), (MS(20), MS(10)));
    }

    #[test]
    fn what_waits_more_than_it_runs_is_judged_by_its_pauses() {
        let crowded: &[(u64, u64)] = &[(4, 6)];
        let mut looks = found(&[crowded; 20]);
        assert_eq!(looks.longest_run, MS(80));
        let run = |looks: &Looks| {
            let mut facts = WorkloadFacts::unknown("x", "", Class::LatencyCritical);
            looks.write_into(&mut facts);
            facts.longest_run
        };
        assert_eq!(run(&looks), None);
        looks.mean_run = Some(MS(2));
        assert_eq!(run(&looks), Some(MS(2)));
        looks.waited = MS(79);
        assert_eq!(run(&looks), Some(MS(80)));
    }

    #[test]
    fn a_thread_that_never_pauses_asks_for_one_cpu() {
        let looks = Looks { asked: 1.04, ..found(&[&[(10, 0)]]) };
        let mut facts = WorkloadFacts::unknown("x", "", Class::LatencyCritical);
        looks.write_into(&mut facts);
        assert_eq!((facts.cpus, facts.whole_cpus()), (Some(CpuCount::whole(1)), 1));
    }

    #[test]
    fn what_does_not_wait_is_not_disturbed_and_what_does_nothing_says_nothing() {
        let always = |times: (u64, u64)| facts(&[&[times][..]; 3]).disturbed;
        assert_eq!([always((5, 0)), always((5, 1)), always((0, 0))], [Some(false), Some(true), None]);
    }

    #[test]
    fn a_load_moves_if_more_than_a_cpu_comes_and_goes_between_looks() {
        let all: &[(u64, u64)] = &[(10, 0); 4];
        let none: &[(u64, u64)] = &[(0, 0); 4];
        let bursts: Vec<&[(u64, u64)]> = (0..40).map(|at| if at % 4 == 0 { all } else { none }).collect();
        assert_eq!(facts(&bursts).moves, Some(true));
        let ramp: Vec<&[(u64, u64)]> = (0..40).map(|at| if at < 20 { none } else { all }).collect();
        assert_eq!(facts(&ramp).moves, Some(false), "once in 400 ms is no movement within milliseconds");
        let one: Vec<&[(u64, u64)]> =
            (0..40).map(|at| if at % 2 == 0 { &[(10u64, 0u64)][..] } else { &[(0, 0)] }).collect();
        assert_eq!(
            facts(&one).moves,
            Some(false),
            "one thread is one CPU at most, which nothing else could use better"
        );
        assert_eq!(facts(&bursts[..8]).moves, None);
    }
}
