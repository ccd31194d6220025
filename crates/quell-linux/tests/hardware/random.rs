//! Random commands, while writes fail, threads and CPUs come and go, and another program takes groups and threads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use quell_linux::resctrl::GroupCalls;
use quell_linux::testkit::{FakeResctrl, FakeTree};
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, Host, Knob, Lease, LeaseLimits, LeaseRequest, LlcWays, Nanos, Plan, Refusal,
    Selector, Target, Verdict, Workload, WorkloadId,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::machines::*;
use crate::standing::{NAMES, Standing, Wanted, limit, state};

/// On each machine this many commands; then everything is put back.
const LIFE: u64 = 60;
/// A number that can be read and not written, not even by root: as a `scaling_max_freq` that refuses.
const REFUSES: &str = "/proc/sys/kernel/ngroups_max";

/// A kind of machine.
struct Kind {
    has: Option<FakeResctrl>,
    /// Frequency domains: CPUs in one; 0: there are none.
    domain: u32,
    /// Its maker, in /proc/cpuinfo.
    make: &'static str,
    /// Is the throttle in MB/s?
    megabytes: bool,
}

const fn kind(has: Option<FakeResctrl>, domain: u32, make: &'static str) -> Kind {
    Kind { has, domain, make, megabytes: false }
}

const KINDS: [Kind; 7] = [
    kind(Some(INTEL), 1, "GenuineIntel"),
    kind(Some(WITH_MBA), 1, "GenuineIntel"),
    kind(Some(CDP), 4, "GenuineIntel"),
    kind(Some(AMD), 1, "AuthenticAMD"),
    kind(Some(ARM), 2, ""),
    Kind { megabytes: true, ..kind(Some(IN_MEGABYTES), 1, "GenuineIntel") },
    // A virtual machine.
    kind(None, 0, "GenuineIntel"),
];

/// `cargo test` makes some hundreds a kind of machine; `make soak` more.
fn commands() -> u64 {
    std::env::var("QUELL_HARDWARE_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_500)
}

struct Life {
    kind: &'static Kind,
    tree: FakeTree,
    host: LinuxHost,
    ids: [WorkloadId; 3],
    wanted: Wanted,
    /// Processes of the workloads, with their threads.
    threads: [Vec<i32>; 3],
    /// Threads that another program took once: they are Quell's again at the next command for their workload.
    taken: Vec<i32>,
    next: i32,
    solo: bool,
    random: StdRng,
    /// What was done, for people who look for a failure.
    story: Vec<String>,
}

impl Drop for Life {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.story.iter().for_each(|line| println!("{line}"));
        }
    }
}

impl Life {
    fn begin(kind: &'static Kind, random: StdRng, cache: bool) -> (Life, Vec<String>) {
        let tree = machine(kind.has.as_ref());
        tree.write("proc/cpuinfo", &format!("vendor_id : {}", kind.make));
        if kind.megabytes {
            tree.write("proc/self/mountinfo", "40 30 0:35 / /sys/fs/resctrl rw - resctrl resctrl rw,mba_MBps");
        }
        for first in (0..8).step_by(kind.domain.max(1) as usize).filter(|_| kind.domain > 0) {
            let cpus: Vec<String> = (first..first + kind.domain).map(|cpu| cpu.to_string()).collect();
            tree.frequencies(first, &cpus.join(" "));
        }
        let before = state(&tree);
        let leases = LeaseLimits { longest: Nanos::from_secs(600), duty_per_mille: 1000 };
        let (host, ids) = attached(&tree, HostOptions { cache, leases, ..HostOptions::default() });
        let threads = [0, 1, 2].map(|at| vec![1000 + 10 * at, 1001 + 10 * at]);
        let life = Life {
            kind,
            tree,
            host,
            ids,
            wanted: Wanted::default(),
            threads,
            taken: Vec::new(),
            next: 2000,
            solo: false,
            random,
            story: Vec::new(),
        };
        (life, before)
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.random_range(0..of) == 0
    }

    /// Something that no policy has asked for.
    fn happens(&mut self) {
        let at = self.random.random_range(0..3);
        let what = self.random.random_range(0..12);
        self.story.push(format!("happens {what} to {at}"));
        match what {
            0 | 1 => self.born(at),
            2 => self.dies(at),
            3 => {
                let cpus = self.some_cpus();
                self.tree.set_online(cpus);
            }
            4 => self.tree.set_online(CpuSet::first(8)),
            5 => self.takes_group(),
            6 => self.others().iter().for_each(|group| self.tree.control().remove(group).unwrap()),
            7 => self.takes_thread(at),
            8 => self.all_die(at),
            9 => self.leaves_and_returns(),
            _ => {}
        }
    }

    fn born(&mut self, at: usize) {
        self.next += 1;
        let pid = self.threads[at].first().copied().unwrap_or(self.next);
        if pid == self.next {
            self.tree.process(pid, 1, "program anew");
            self.tree.join(&format!("{}.service", NAMES[at]), &[pid]);
        } else {
            self.tree.thread(pid, self.next);
        }
        self.threads[at].push(self.next);
    }

    fn dies(&mut self, at: usize) {
        if let [pid, .., last] = self.threads[at][..] {
            self.threads[at].pop();
            self.tree.ends(pid, last);
        }
    }

    /// A whole workload, perhaps in the middle of its solo run.
    fn all_die(&mut self, at: usize) {
        while self.threads[at].len() > 1 {
            self.dies(at);
        }
        for pid in std::mem::take(&mut self.threads[at]) {
            self.tree.ends(pid, pid);
        }
        self.tree.join(&format!("{}.service", NAMES[at]), &[]);
    }

    fn some_cpus(&mut self) -> CpuSet {
        let first = [0, 1, 4].map(|first| (first..8).map(CpuId).collect::<CpuSet>());
        match self.random.random_range(0..4) {
            3 => CpuSet::first(4),
            at => first[at],
        }
    }

    /// The groups of another program.
    fn others(&self) -> Vec<PathBuf> {
        let mut groups = self.tree.control_groups();
        groups.retain(|group| !is_ours(group));
        groups
    }

    fn takes_group(&mut self) {
        if self.kind.has.is_some() {
            self.next += 1;
            let group = self.tree.path().join(ROOT).join(format!("pqos{}", self.next));
            // All may be in use.
            let _ = self.tree.control().make(&group);
        }
    }

    fn takes_thread(&mut self, at: usize) {
        if let (Some(group), Some(&tid)) = (self.others().first(), self.threads[at].first()) {
            self.tree.control().join(group, tid).unwrap();
            self.taken.push(tid);
        }
    }

    fn leaves_and_returns(&mut self) {
        self.end_solo();
        let report = self.host.detach(self.ids[2]).unwrap();
        assert!(report.left.is_empty(), "{report:?}");
        let mut workload = Workload::new("other", Class::BestEffort, CpuCount::whole(1));
        workload.selectors.push(Selector::Cgroup("other.service".into()));
        self.ids[2] = self.host.attach(workload).unwrap();
        (self.wanted.ways[2], self.wanted.throttle[2]) = ([None; 2], None);
    }

    fn end_solo(&mut self) -> Verdict {
        self.solo = false;
        self.story.push("solo ends".into());
        self.lease(LeaseRequest::End(self.ids[0]))
    }

    fn lease(&mut self, request: LeaseRequest) -> Verdict {
        let mut events = Vec::new();
        self.host.apply(&Plan { leases: vec![request], ..Plan::default() }, &mut events).unwrap();
        let verdict = events.into_iter().find_map(|event| match event {
            Event::Outcome(outcome) => Some(outcome.verdict),
            _ => None,
        });
        verdict.expect("an outcome")
    }

    fn command(&mut self) -> Verdict {
        match self.random.random_range(0..10) {
            0 if !self.solo => {
                let within = [None, Some(CpuSet::first(4))][self.random.random_range(0..2)];
                let lease = Lease { within, ..Lease::of(self.ids[0], true, Nanos::from_secs(600)) };
                let verdict = self.lease(LeaseRequest::Begin(lease));
                self.story.push(format!("solo: {verdict:?}"));
                self.solo = matches!(verdict, Verdict::Applied(_));
                verdict
            }
            0..3 if self.solo => self.end_solo(),
            _ => {
                let settings: Vec<_> = (0..self.random.random_range(1..5)).flat_map(|_| self.setting()).collect();
                let targets: Vec<_> = settings.iter().map(|&(target, knob)| (self.target(target), knob)).collect();
                let verdict = set(&mut self.host, &targets);
                self.story.push(format!("{targets:?}: {verdict:?}"));
                if matches!(verdict, Verdict::Applied(_)) {
                    settings.into_iter().for_each(|(target, knob)| self.wanted.take(target, knob));
                    self.wanted.note_apart(self.kind.domain);
                }
                verdict
            }
        }
    }

    fn target(&self, (is_cpu, at): (bool, u32)) -> Target {
        if is_cpu { Target::Cpu(CpuId(at)) } else { Target::Workload(self.ids[at as usize]) }
    }

    /// One knob, or the same on all CPUs of a domain. The target: is it a CPU, and its number.
    fn setting(&mut self) -> Vec<((bool, u32), Knob)> {
        let workload = (false, self.random.random_range(0..3));
        let mask = match self.random.random_range(0..5) {
            0 => self.random.random_range(0..1 << 22),
            _ => ((1u32 << self.random.random_range(1..12)) - 1) << self.random.random_range(0..9),
        };
        match self.random.random_range(0..5) {
            0 | 1 => vec![(workload, Knob::CacheWays(mask))],
            2 => vec![(workload, Knob::WaysOfLlc(LlcWays { llc: self.random.random_range(0..3), mask }))],
            3 => {
                let most = [130, 3000][usize::from(self.kind.megabytes || self.kind.make == "AuthenticAMD")];
                vec![(workload, Knob::Throttle(self.random.random_range(0..most)))]
            }
            _ => {
                let khz = [700_000, 1_000_000, 2_345_678, 4_000_000][self.random.random_range(0..4)];
                let first = self.random.random_range(0..8) / self.kind.domain.max(1) * self.kind.domain.max(1);
                // Now and then a part of a domain.
                let end = first + if self.chance(6) { 1 } else { self.kind.domain.max(1) };
                (first..end).map(|cpu| ((true, cpu), Knob::MaxFrequencyKhz(khz))).collect()
            }
        }
    }

    /// A limit of frequencies that refuses until it is made itself again.
    fn refusing(&mut self) -> Option<(PathBuf, PathBuf)> {
        let number = self.random.random_range(0..8);
        let file = self.tree.path().join(limit(number));
        let is_asked = self.chance(6) && file.exists();
        is_asked.then(|| {
            let kept = file.with_extension("kept");
            fs::rename(&file, &kept).unwrap();
            symlink(REFUSES, &file).unwrap();
            (file, kept)
        })
    }

    /// During a solo run much is lifted.
    fn check(&self) {
        if !self.solo {
            let Life { tree, ids, wanted, threads, taken, .. } = self;
            Standing { tree, ids, wanted, threads, taken }.check(self.kind.has.as_ref());
        }
    }

    fn end(&mut self, before: &[String]) {
        self.tree.set_online(CpuSet::first(8));
        let theirs: Vec<PathBuf> = self.others();
        let report = self.host.restore();
        assert!(report.left.is_empty(), "{:?}", report.left);
        assert_eq!(self.others(), theirs, "another program's groups stay");
        theirs.iter().for_each(|group| self.tree.control().remove(group).unwrap());
        assert_eq!(state(&self.tree), before);
    }
}

fn is_ours(group: &std::path::Path) -> bool {
    group.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("quell."))
}

/// A plan is made whole or not at all, whatever fails and happens; what was made stands; in the end everything is as before.
#[test]
fn resctrl_and_cpufreq_random_commands_leave_nothing_half_done() {
    let mut random = StdRng::seed_from_u64(29);
    let (mut applied, mut refused, mut failed, mut twice) = (0u64, 0u64, 0u64, 0u64);
    let lives = commands().div_ceil(LIFE);
    for number in 0..lives {
        let kind = &KINDS[number as usize % KINDS.len()];
        let seed = random.random();
        let (mut life, before) = Life::begin(kind, StdRng::seed_from_u64(seed), number.is_multiple_of(2));
        for _ in 0..LIFE {
            life.happens();
            observe(&mut life.host);
            life.check();
            let standing = state(&life.tree);
            let refusing = life.refusing();
            let fails_in = life.random.random_range(0..24u32).saturating_sub(10);
            life.tree.fail_in(fails_in);
            let verdict = life.command();
            life.tree.fail_in(0);
            if let Some((file, kept)) = refusing {
                fs::rename(kept, file).unwrap();
            }
            match verdict {
                // Two failures in one plan: it says what it left, and that is put back in the end.
                Verdict::Refused(Refusal::System(why)) if why.contains("could not be put back") => {
                    twice += 1;
                    break;
                }
                Verdict::Refused(why) => {
                    refused += 1;
                    failed += u64::from(matches!(why, Refusal::System(_)));
                    assert_eq!(state(&life.tree), standing, "life {number}, seed {seed}: {why}");
                }
                _ => applied += 1,
            }
        }
        observe(&mut life.host);
        life.end(&before);
    }
    println!(
        "{applied} commands applied, {refused} refused, of them {failed} because a write failed; {twice} could not be taken back"
    );
    assert!(failed * 40 > applied && applied * 2 > refused, "{applied} applied, {refused} refused, {failed} failed");
}
