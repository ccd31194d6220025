use std::collections::BTreeMap;

use quell_model::{CpuId, CpuSet, Nanos};
use quell_trace::{Found, Instants, Sampled, Task};

use super::*;
use crate::services::Holder;
use crate::stage::thread;

fn workload(name: &str) -> Key {
    Key::by(Cause::Workload, name)
}

/// A thread of this workload waited on a CPU.
fn waits(slot: u16, cpu: u32, from: u32, to: u32) -> Sampled {
    Sampled { from, to, cpu: CpuId(cpu), what: Found::Waits(thread(i32::from(slot), slot)) }
}

fn runs(task: Task, cpu: u32, from: u32, to: u32) -> Sampled {
    Sampled { from, to, cpu: CpuId(cpu), what: Found::Runs(task, String::new()) }
}

/// The shares of a burst of instants 1,000 to 3,000, of workloads `web` and `batch`; a thread of no workload is `kworker`'s.
fn burst(sampled: &[Sampled], interrupted: Interrupted) -> Vec<Shares> {
    let mut burst = Burst::new(2, CpuSet::first(2));
    sampled.iter().for_each(|sampled| burst.add(sampled.clone()));
    let around = Around {
        begin: (Nanos::ZERO, 1000),
        end: (Nanos(Instants::STRETCH.0 * 2000), 3000),
        interrupted: &|_| interrupted,
        limited: &|_| Nanos::ZERO,
    };
    burst.close(&around, &mut |holder| match holder {
        Holder::Service(slot) => workload(["web", "batch"][usize::from(slot)]),
        _ => Key::by(Cause::Kernel, "kworker"),
    })
}

#[track_caller]
fn assert_shares(shares: &Shares, of: &[(Key, f64)]) {
    assert_eq!(shares.of.len(), of.len(), "{shares:?}");
    for (key, share) in of {
        assert!((shares.get(key).share - share).abs() < 1e-9, "{key:?}: {shares:?}");
    }
}

#[test]
fn a_burst_lays_each_threads_wait_to_what_had_its_cpu_and_to_what_interrupted_that() {
    let (web, batch, kworker) = (Task::Member(thread(10, 0)), Task::Member(thread(20, 1)), Task::Other(99));
    let sampled = [
        runs(batch, 0, 0, 1800),
        runs(web, 0, 1800, 2000),
        runs(kworker, 0, 2000, 2200),
        // Two waited for the batch, one for its own, one for the kernel; what was before is not of the burst.
        waits(0, 0, 500, 1800),
        waits(0, 0, 1000, 2200),
        // Elsewhere its CPU was on its way to it.
        waits(0, 1, 2900, 3400),
        runs(Task::Idle, 1, 0, 3000),
        // Not its CPU, not its workload.
        waits(0, 7, 1000, 3000),
        waits(9, 0, 1000, 3000),
    ];
    let shares = burst(&sampled, Interrupted { interrupts: 0.25, steal: 0.0 });
    assert_eq!(shares[0].waited, Nanos(Instants::STRETCH.0 * 2100));
    let (own, idle) = (Key::of(Cause::OwnThreads), Key::of(Cause::IdleCpu));
    let parts = [
        (workload("batch"), 1200.0),
        (own, 150.0),
        (Key::by(Cause::Kernel, "kworker"), 150.0),
        (Key::of(Cause::Interrupts), 500.0),
        (idle, 100.0),
    ];
    assert_shares(&shares[0], &parts.map(|(key, part)| (key, part / 2100.0)));
    assert_eq!((&shares[1].of, shares[1].end), (&BTreeMap::new(), Nanos(Instants::STRETCH.0 * 2000)));
}

#[test]
fn what_ran_is_unknown_where_no_record_says_it_and_of_few_instants_a_part_is() {
    let batch = Task::Member(thread(20, 1));
    let sampled = [runs(batch, 0, 1100, 1500), waits(0, 0, 1000, 2000)];
    let shares = burst(&sampled, Interrupted::default());
    assert_shares(&shares[0], &[(workload("batch"), 0.4), (Key::of(Cause::Unknown), 0.6)]);
    // Seen waiting once: that is no proof of what took the rest.
    let shares = burst(&[runs(batch, 0, 1100, 1500), waits(0, 0, 1200, 1201)], Interrupted::default());
    assert_shares(&shares[0], &[(workload("batch"), 0.2), (Key::of(Cause::Unknown), 0.8)]);
    let share = shares[0].get(&workload("batch"));
    assert!(share.within >= 0.8 && share.error >= 0.8, "it may be all: {share:?}");
}
