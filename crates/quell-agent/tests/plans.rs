//! Random plans on a fake machine whose files refuse writes at random, and whose agent is killed at random writes: no
//! plan is half applied, and the journal puts everything back.
//!
//! `cargo test` makes a few hundred plans; `QUELL_PLANS=100000 cargo test -p quell-agent --test plans` makes more.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_agent::guardian::put_back;
use quell_agent::journal::{FileJournal, replay};
use quell_linux::testkit::FakeTree;
use quell_linux::write::{Fate, Journal, Write};
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, Host, Knob, KnobSetting, Plan, Selector, SignalSet, Target, Topology,
    Verdict, View, Workload, WorkloadId,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const CPUS: u32 = 8;
const GROUPS: [&str; 4] = ["a", "a/b", "a/b/c", "d"];
/// Files that can be read but not written, not even by root: as a cgroup file that refuses.
const REFUSES_TEXT: &str = "/proc/sys/kernel/ostype";
const REFUSES_CPUS: &str = "/sys/devices/system/cpu/present";

/// Dies when the countdown is over: half of the times before the write is made, half of the times after.
#[derive(Debug)]
struct Mortal {
    below: FileJournal,
    countdown: Arc<AtomicU64>,
}

struct Killed;

impl Mortal {
    fn tick(&self) {
        if self.countdown.fetch_sub(1, Ordering::Relaxed) == 0 {
            std::panic::resume_unwind(Box::new(Killed));
        }
    }
}

impl Journal for Mortal {
    fn before(&mut self, write: &Write) -> io::Result<()> {
        self.below.before(write)?;
        self.tick();
        Ok(())
    }

    fn done(&mut self, write: &Write, fate: Fate) -> io::Result<()> {
        self.tick();
        self.below.done(write, fate)
    }
}

/// Every file of the cgroups and every thread's affinity and state.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.join("cgroup"), root.join("proc")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap().trim().to_owned();
                // A thread whose affinity was never set may run everywhere.
                if !(path.ends_with("affinity") && text.parse::<CpuSet>().unwrap() == CpuSet::first(CPUS as usize)) {
                    found.insert(path, text);
                }
            }
        }
    }
    found
}

fn machine() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 2, CPUS / 4, 2));
    for (at, group) in GROUPS.iter().enumerate() {
        tree.cgroup(group);
        let pid = 10 * (at as i32 + 1);
        tree.process(pid, 1, "work");
        tree.thread(pid, pid + 1);
        tree.join(group, &[pid]);
    }
    tree.process(90, 1, "alone");
    tree.thread(90, 91);
    tree
}

fn attach(host: &mut LinuxHost) -> Vec<WorkloadId> {
    let mut selectors: Vec<Selector> = GROUPS.iter().map(|group| Selector::Cgroup(group.into())).collect();
    selectors.push(Selector::Pid(90));
    let workload = |(at, selector)| Workload {
        selectors: vec![selector],
        ..Workload::new(format!("w{at}"), Class::BestEffort, CpuCount::ZERO)
    };
    selectors.into_iter().enumerate().map(workload).map(|workload| host.attach(workload).unwrap()).collect()
}

fn random_set(random: &mut StdRng) -> CpuSet {
    let start = random.random_range(0..CPUS);
    (start..random.random_range(start + 1..=CPUS)).map(CpuId).collect()
}

fn random_plan(random: &mut StdRng, ids: &[WorkloadId]) -> Plan {
    let mut plan = Plan::default();
    for _ in 0..random.random_range(1..6) {
        let knob = match random.random_range(0..5) {
            0 | 1 => Knob::Cpus(random_set(random)),
            2 => Knob::Weight(random.random_range(1..=10_000)),
            3 => Knob::Quota(random.random_bool(0.7).then(|| CpuCount(random.random_range(100..4000)))),
            // Not idle-only: the kernel gives its group another weight by itself, which plain files do not.
            _ => Knob::Pause(random.random_bool(0.5)),
        };
        let target = Target::Workload(ids[random.random_range(0..ids.len())]);
        // Threads alone have no quota, and their classes are not files.
        if target != Target::Workload(ids[GROUPS.len()]) || matches!(knob, Knob::Cpus(_) | Knob::Pause(_)) {
            plan.knobs.push(KnobSetting { target, knob });
        }
    }
    plan
}

/// One of the cgroups' files refuses everything until it is made itself again.
fn make_refuse(random: &mut StdRng, root: &Path) -> (PathBuf, PathBuf) {
    let names = ["cpu.weight", "cpu.max", "cpu.idle", "cpuset.cpus"];
    let name = names[random.random_range(0..names.len())];
    let file = root.join("cgroup").join(GROUPS[random.random_range(0..GROUPS.len())]).join(name);
    let kept = file.with_extension("kept");
    fs::rename(&file, &kept).unwrap();
    symlink(if name == "cpuset.cpus" { REFUSES_CPUS } else { REFUSES_TEXT }, &file).unwrap();
    (file, kept)
}

fn plans() -> u64 {
    std::env::var("QUELL_PLANS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[test]
fn no_plan_is_half_applied() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut applied, mut refused, mut made) = (0u64, 0u64, 0);
    while made < plans() {
        let tree = machine();
        let mut host = tree.host(HostOptions::default()).unwrap();
        let ids = attach(&mut host);
        let mut view = View::new(host.topology());
        let mut events: Vec<Event> = Vec::new();
        for _ in 0..100 {
            made += 1;
            host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
            events.clear();
            let refusing = random.random_bool(0.4).then(|| make_refuse(&mut random, tree.path()));
            let before = snapshot(tree.path());
            host.apply(&random_plan(&mut random, &ids), &mut events).unwrap();
            let after = snapshot(tree.path());
            let verdicts = events.iter().filter_map(|event| match event {
                Event::Outcome(outcome) => Some(&outcome.verdict),
                _ => None,
            });
            for verdict in verdicts {
                match verdict {
                    Verdict::Refused(why) => {
                        refused += 1;
                        let differ: Vec<_> =
                            before.iter().filter(|(path, text)| after.get(*path) != Some(text)).collect();
                        assert!(before == after, "half applied after {made} plans, refused: {why}: {differ:?}");
                    }
                    Verdict::Applied(_) => applied += 1,
                    other => panic!("{other:?}"),
                }
            }
            if let Some((file, kept)) = refusing {
                fs::remove_file(&file).unwrap();
                fs::rename(&kept, &file).unwrap();
            }
        }
    }
    println!("plans: {made} made, {applied} applied, {refused} refused, none half applied");
    assert!(applied > made / 4 && refused > made / 20, "{applied} applied and {refused} refused of {made}");
}

#[test]
fn whatever_write_it_is_killed_at_everything_is_put_back() {
    let mut random = StdRng::seed_from_u64(2);
    let (mut lives, mut changed) = (0u64, 0u64);
    while lives < plans() / 4 {
        lives += 1;
        let tree = machine();
        let first = snapshot(tree.path());
        let path = tree.path().join("agent.journal");
        let countdown = Arc::new(AtomicU64::new(random.random_range(0..60)));
        let below = FileJournal::create(&path, &tree.roots()).unwrap();
        let journal = Mortal { below, countdown: Arc::clone(&countdown) };
        let mut host = tree.host(HostOptions::default()).unwrap().with_journal(Box::new(journal));
        let death = catch_unwind(AssertUnwindSafe(|| {
            let ids = attach(&mut host);
            let mut view = View::new(host.topology());
            let mut events: Vec<Event> = Vec::new();
            loop {
                host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
                host.apply(&random_plan(&mut random, &ids), &mut events).unwrap();
                events.clear();
            }
        }));
        let Err(cause) = death;
        if !cause.is::<Killed>() {
            std::panic::resume_unwind(cause);
        }
        // Outside a solo run, dropping a host writes nothing.
        drop(host);
        let mut bytes = fs::read(&path).unwrap();
        if random.random_bool(0.2) {
            // The machine's last line is torn: its write was not made.
            bytes.extend_from_slice(br#"{"write":{"n":99,"at"#);
        }
        fs::remove_file(&path).unwrap();
        changed += u64::from(snapshot(tree.path()) != first);
        let mut passes = 0;
        let threads = || Ok(Box::new(tree.threads()) as Box<_>);
        let report = put_back(&replay(&bytes), &tree.roots(), &threads, &mut |_| false, &mut || passes += 1).unwrap();
        assert!(passes > 1, "life {lives}: a watchdog gets no heartbeat meanwhile");
        assert!(report.left.is_empty(), "life {lives}: {:?}", report.left);
        assert_eq!(snapshot(tree.path()), first, "life {lives}: {}", report.summary());
    }
    println!(
        "plans: killed at a random write {lives} times, changed something in {changed}, everything back each time"
    );
    assert!(changed > lives / 2);
}
