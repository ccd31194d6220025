//! What each of the scheduler's callbacks costs at a wake-up, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;

use quell_model::Class;

use crate::support::*;
use crate::switches::{MIPS, Ring};

/// Of one wake-up: calls, and instructions.
pub type Costs = BTreeMap<String, (f64, f64)>;

/// Of the callbacks, while these run; a turn is a wake-up.
fn costs(machine: &Machine, children: &[Child]) -> Costs {
    let read = || {
        let programs = machine.scx().grant().programs().into_iter().map(|program| (program.name, program.ran));
        (programs.collect::<BTreeMap<_, _>>(), children.iter().map(Child::turns).sum::<u64>())
    };
    pass(100);
    let (before, turns) = read();
    pass(400);
    let (after, turned) = read();
    let wake_ups = (turned - turns).max(1) as f64;
    let of = |(name, (runs, time)): (String, (u64, quell_model::Nanos))| {
        let (calls, ns) = (runs - before[&name].0, (time - before[&name].1).0);
        (calls > 0).then(|| (name, (calls as f64 / wake_ups, (ns * MIPS) as f64 / 1000.0 / wake_ups)))
    };
    after.into_iter().filter_map(of).collect()
}

fn sleeps() {
    loop {
        std::thread::sleep(std::time::Duration::from_micros(700));
    }
}

/// At wake-ups of a thread of no workload that is bound to an idle CPU, and of two latency-critical threads that pass a byte on,
/// alone and beside best-effort threads that spin.
pub fn at_wake_ups() -> [Costs; 3] {
    let [lc, be] = ["lc", "be"].map(Group::new);
    let mut machine = Machine::load();
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
    let bound = costs(&machine, &[Child::run(None, Some(1), sleeps)]);
    let [server, batch] =
        [("lc", Class::LatencyCritical), ("be", Class::BestEffort)].map(|(name, class)| machine.attach(name, class));
    machine.apply(&rights(server, 2, 2, 0), &[]);
    machine.apply(&rights(batch, 0, 2, 1), &[]);
    let ring = Ring::begin(&[&lc], 2, true);
    let alone = costs(&machine, &ring.children);
    let spinners = [0, 1].map(|_| Child::spin(Some(&be), None));
    let beside = costs(&machine, &ring.children);
    drop((spinners, ring));
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "0").unwrap();
    machine.scx().grant().check().unwrap();
    [bound, alone, beside]
}
