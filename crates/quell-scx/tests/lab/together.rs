//! Workloads that hold CPUs as one: shares by weight, and wake-ups that take CPUs.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use quell_guest::lab_tests;
use quell_model::{
    Class, Event, Host, Knob, KnobSetting, Nanos, Outcome, Plan, QueueOrder, Rule, Signal, SignalSet, Target, Verdict,
};
use quell_model::{ThreadId, WorkloadId};
use quell_scx::{Parts, ScxOptions};

use crate::support::*;

/// Two latency-critical cgroups that hold this many CPUs as one.
struct Two {
    groups: [Group; 2],
    ids: [WorkloadId; 2],
    machine: Machine,
}

fn two(cpus: u32) -> Two {
    let groups = [Group::new("one"), Group::new("other")];
    let parts = Parts { together: true, ..Parts::default() };
    let mut machine = Machine::with(ScxOptions { parts, ..ScxOptions::default() });
    let ids = ["one", "other"].map(|name| machine.attach(name, Class::LatencyCritical));
    let together = ids.map(|workload| Rule::Together { workload, leader: Some(ids[0]), order: QueueOrder::Weight });
    machine.apply(&together, &[]);
    machine.apply(&rights(ids[0], cpus, cpus, 0), &[]);
    Two { groups, ids, machine }
}

impl Two {
    /// As a policy gives a thread a weight.
    fn give(&mut self, settings: &[(&Child, Knob)]) {
        let wanted = SignalSet::of(&[Signal::Threads]);
        let find = |threads: &[ThreadId], child: &Child| threads.iter().find(|id| id.tid == child.0).copied();
        for _ in 0..1000 {
            self.machine.host.observe(wanted, &mut self.machine.view, &mut Vec::new()).unwrap();
            if settings.iter().all(|(child, _)| find(&self.machine.view.threads.id, child).is_some()) {
                break;
            }
            pass(10);
        }
        let id = |child| find(&self.machine.view.threads.id, child).expect("the host finds its workloads' threads");
        let knobs = settings.iter().map(|&(child, knob)| KnobSetting { target: Target::Thread(id(child)), knob });
        let plan = Plan { knobs: knobs.collect(), ..Plan::default() };
        let mut outcomes = Vec::new();
        self.machine.host.apply(&plan, &mut outcomes).unwrap();
        let [Event::Outcome(Outcome { verdict: Verdict::Applied(_), .. })] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
    }

    fn overtaken(&self) -> u64 {
        self.machine.scx().grant().decisions().overtaken
    }
}

/// Wake-ups of a thread, each 10 ms, and those that were later than 300 µs.
struct Late([AtomicU64; 2]);

static AT: AtomicU64 = AtomicU64::new(0);

fn sleeper(group: &Group) -> (Child, &'static Late) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, for this process and its children, that stays; zeros are values of atomics.
    let late = unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        AT.store(at as u64, Relaxed);
        &*at.cast::<Late>()
    };
    let child = Child::run(Some(group), None, || {
        // SAFETY: the parent's mapping, which this child has inherited.
        let late = unsafe { &*(AT.load(Relaxed) as *const Late) };
        let mut next = monotonic().0;
        loop {
            next = next.max(monotonic().0) + 10_000_000;
            let at = libc::timespec { tv_sec: (next / 1_000_000_000) as i64, tv_nsec: (next % 1_000_000_000) as i64 };
            // SAFETY: a time on the stack.
            unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
            };
            let by = monotonic().0.saturating_sub(next);
            late.0[0].fetch_add(1, Relaxed);
            late.0[1].fetch_add((by > 300_000).into(), Relaxed);
        }
    });
    (child, late)
}

lab_tests! {
    mod together {
        machine: guest(2);

        fn threads_share_by_weight_what_their_workload_has_by_its_own() {
            let _first = RealTime::begin();
            let mut two = two(1);
            let threads = [0, 0, 1].map(|one| Child::spin(Some(&two.groups[one]), None));
            let all = [&threads[0], &threads[1], &threads[2]];
            pass(200);
            for (weights, least, most) in [([10, 15], 1250, 1800), ([100, 1], 1, 50), ([100, 300], 2300, 3900)] {
                two.give(&[(all[0], Knob::Weight(weights[0])), (all[1], Knob::Weight(weights[1]))]);
                pass(500);
                println!("weights {weights:?}");
                // The other workload has its half.
                shares_until(&all, 2000, |shares| {
                    (least..=most).contains(&(shares[1] * 1000 / shares[0].max(1))) && (400..=600).contains(&shares[2])
                });
            }
            two.machine.scx().grant().check().unwrap();
        }

        fn who_wakes_up_takes_the_cpu_of_one_that_is_further_ahead_than_its_latency() {
            let _first = RealTime::begin();
            let mut two = two(2);
            let spins: Vec<Child> = (0..6).map(|at| Child::spin(Some(&two.groups[at % 2]), None)).collect();
            let (sleeps, late) = sleeper(&two.groups[1]);
            let mut overtook = [0; 2];
            for (at, latency) in [Nanos::from_micros(100), Nanos::from_millis(24)].into_iter().enumerate() {
                two.give(&[(&sleeps, Knob::WakeUpLatency(Some(latency)))]);
                pass(300);
                let count = || [0, 1].map(|at| late.0[at].load(Relaxed));
                let (before, overtaken) = (count(), two.overtaken());
                pass(3000);
                let (now, times) = (count(), two.overtaken() - overtaken);
                let [woke, late] = [0, 1].map(|at| now[at] - before[at]);
                println!("latency {latency}: woke {woke}, {late} later than 0.3 ms, overtook {times}");
                overtook[at] = times;
                // A busy host makes any of them late, and those that run seem to run for long.
                assert!(at > 0 || times * 2 > woke, "{latency}: {times} of {woke}");
            }
            assert!(overtook[1] * 3 < overtook[0], "{overtook:?}");
            drop(spins);
            two.machine.scx().grant().check().unwrap();
        }

        fn what_cannot_be_held_as_one_is_refused_and_the_leaders_end_ends_it() {
            let mut two = two(1);
            let [one, other] = two.ids;
            let be = Group::new("be");
            let batch = two.machine.attach("be", Class::BestEffort);
            let mut reported = |workload, leader| {
                let plan = Plan { rules: vec![Rule::Together { workload, leader, order: QueueOrder::Weight }], ..Plan::default() };
                let mut outcomes = Vec::new();
                two.machine.host.apply(&plan, &mut outcomes).unwrap();
                format!("{outcomes:?}")
            };
            assert!(reported(batch, Some(one)).contains("latency-critical"));
            assert!(reported(one, Some(other)).contains("one leader"), "the leader follows no one");
            assert!(reported(WorkloadId(77), Some(one)).contains("Vanished"));
            let leader = |machine: &Machine, id| machine.scx().grant().leader_of(id);
            assert_eq!(leader(&two.machine, other), Some(one));
            let spins = Child::spin(Some(&two.groups[1]), None);
            pass(100);
            two.machine.host.detach(one).unwrap();
            assert_eq!(leader(&two.machine, other), None);
            // It is a workload of its own again, which may be given a CPU.
            two.machine.apply(&rights(other, 1, 1, 0), &[]);
            assert!(two.machine.comes_to_hold(other));
            assert!(shares(&[&spins], 300)[0] > 300);
            drop(be);
        }
    }
}
