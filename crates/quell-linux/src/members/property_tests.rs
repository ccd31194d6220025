//! Processes and threads do anything at random, on a simulated kernel that inherits classes and CPUs as Linux does: at every
//! scan each thread's values are its workload's, or its own from before; after the end all are as before.

use std::collections::BTreeMap;

use quell_model::{
    Class, CommandLine, CpuCount, CpuSet, Host, Knob, KnobSetting, Plan, SchedClass, Selector, SignalSet, Target,
    Topology, View, Workload, WorkloadId,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::sched::{ThreadCalls, ThreadClass};
use crate::testkit::{FakeThreads, FakeTree};
use crate::{HostOptions, LinuxHost};

const FIRST: i32 = 10;
const NUMBERS: i32 = 200;
const MOST: usize = 20;
const OWN: SchedClass = SchedClass::NORMAL;

#[derive(Clone, Debug)]
struct Task {
    /// Classes that are its own: one, or several where it set one itself while it was a workload's.
    own: Vec<SchedClass>,
    in_threaded: bool,
    /// Not seen by a scan yet.
    young: bool,
    /// Has it changed its threaded cgroup since the last scan? What it creates until then is not found.
    moved: bool,
}

#[derive(Clone, Debug)]
struct Process {
    start: u64,
    /// Number and start of the parent.
    parent: (i32, u64),
    title: &'static str,
    user: u32,
    group: &'static str,
    tasks: BTreeMap<i32, Task>,
    leader_gone: bool,
    /// By the end of the last scan.
    owner: Option<usize>,
    explicit: Option<usize>,
    by_descent: bool,
    /// Not seen by a scan yet; its parent's owner when it was created.
    young: bool,
    born_of: Option<usize>,
    /// Until the scan after the next it may have the values of this workload, whose process it was a child of.
    may_lag: Option<usize>,
}

struct World {
    tree: FakeTree,
    calls: FakeThreads,
    rng: StdRng,
    processes: BTreeMap<i32, Process>,
    last: i32,
    /// How far the numbers went since the last scan.
    went: i32,
    starts: u64,
    /// The text that a file has, by the number that it is of, so that none is written twice.
    written: BTreeMap<(i32, &'static str), String>,
    log: Vec<String>,
}

/// The class and the CPUs that each workload has.
const VALUES: [(SchedClass, &str); 4] = [
    (SchedClass::Fair { nice: 10, slice: None }, "0-1"),
    (SchedClass::Fifo { priority: 1 }, "2-3"),
    (SchedClass::Idle, "0"),
    (SchedClass::Fair { nice: 5, slice: None }, "3"),
];

impl World {
    fn new() -> World {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        for group in ["other", "b"] {
            tree.cgroup(group);
        }
        tree.cgroup("t");
        tree.remove("cgroup/t/cgroup.procs");
        tree.write("cgroup/t/cgroup.threads", "");
        let calls = tree.threads();
        let rng = StdRng::seed_from_u64(0);
        let (processes, log) = (BTreeMap::new(), Vec::new());
        let mut world =
            World { tree, calls, rng, processes, last: FIRST, went: 0, starts: 0, written: BTreeMap::new(), log };
        world.tree.process(1, 0, "init");
        for (title, user, group) in [("alpha", 0, "other"), ("beta", 0, "b"), ("gamma", 7, "other"), ("x", 7, "other")]
        {
            let pid = world.number();
            world.create(pid, (1, 0), title, user, group, &[OWN], None);
        }
        let pid = world.number();
        world.create(pid, (1, 0), "y", 7, "other", &[OWN], None);
        let tid = world.number();
        world.thread(pid, pid, tid);
        world.processes.get_mut(&pid).unwrap().tasks.get_mut(&tid).unwrap().in_threaded = true;
        world.publish();
        world
    }

    /// The next number that is free, as the kernel gives them out.
    fn number(&mut self) -> i32 {
        loop {
            self.last = if self.last + 1 >= FIRST + NUMBERS { FIRST } else { self.last + 1 };
            self.went += 1;
            let last = self.last;
            if !self.processes.iter().any(|(pid, process)| *pid == last || process.tasks.contains_key(&last)) {
                return last;
            }
        }
    }

    /// Gives a new thread the values of its creator: real-time classes of Quell's are reset.
    fn inherit(&mut self, from: Option<i32>, to: i32) {
        let Some(from) = from else { return };
        let class = self.calls.class(from).unwrap().class;
        let class = if class.is_real_time() { SchedClass::NORMAL } else { class };
        let cpus = self.calls.affinity(from).unwrap();
        self.calls.set_class(to, &ThreadClass::of(class)).unwrap();
        self.calls.set_affinity(to, &cpus).unwrap();
    }

    #[expect(clippy::too_many_arguments, reason = "a process has that many properties")]
    fn create(
        &mut self,
        pid: i32,
        parent: (i32, u64),
        title: &'static str,
        user: u32,
        group: &'static str,
        own: &[SchedClass],
        from: Option<i32>,
    ) {
        self.tree.process(pid, parent.0, title);
        self.starts += 1;
        self.inherit(from, pid);
        // Where its creator is.
        let creator = from.and_then(|from| self.processes.get(&parent.0)?.tasks.get(&from));
        let in_threaded = creator.is_some_and(|creator| creator.in_threaded);
        let task = Task { own: own.to_vec(), in_threaded, young: true, moved: false };
        let born_of = self.processes.get(&parent.0).and_then(|parent| parent.owner.or(parent.may_lag));
        self.processes.insert(
            pid,
            Process {
                start: self.starts,
                parent,
                title,
                user,
                group,
                tasks: BTreeMap::from([(pid, task)]),
                leader_gone: false,
                owner: None,
                explicit: None,
                by_descent: false,
                young: true,
                born_of,
                may_lag: None,
            },
        );
    }

    fn thread(&mut self, pid: i32, creator: i32, tid: i32) {
        self.tree.thread(pid, tid);
        self.inherit(Some(creator), tid);
        let process = self.processes.get_mut(&pid).unwrap();
        let creator = process.tasks[&creator].clone();
        process.tasks.insert(tid, Task { young: true, ..creator });
    }

    /// Writes what is not written where it happens.
    fn publish(&mut self) {
        let members = |group: &str| {
            let own = self.processes.iter().filter(|(_, process)| process.group == group);
            own.map(|(pid, _)| *pid).collect::<Vec<_>>()
        };
        self.tree.join("b", &members("b"));
        let mut single = Vec::new();
        let mut files = Vec::new();
        for (pid, process) in &self.processes {
            single.extend(process.tasks.iter().filter(|(_, task)| task.in_threaded).map(|(tid, _)| tid.to_string()));
            let title = if process.leader_gone { String::new() } else { format!("{}\0", process.title) };
            files.push(((*pid, "cmdline"), title));
            let user = process.user;
            let status = format!("Tgid:\t{pid}\nUid:\t{user}\t{user}\t{user}\t{user}\n");
            files.extend(process.tasks.keys().map(|number| ((*number, "status"), status.clone())));
        }
        for ((number, name), text) in files {
            if self.written.get(&(number, name)) != Some(&text) {
                let directory = self.tree.path().join(format!("proc/{number}"));
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(directory.join(name), &text).unwrap();
                self.written.insert((number, name), text);
            }
        }
        self.tree.write("cgroup/t/cgroup.threads", &single.join("\n"));
        self.tree.write_uptime();
        self.tree.write("proc/sys/kernel/ns_last_pid", &self.last.to_string());
        self.tree.write("proc/sys/kernel/pid_max", if self.went >= NUMBERS { "1" } else { "4194304" });
    }

    fn pick(&mut self, fits: impl Fn(&Process) -> bool) -> Option<i32> {
        let fit: Vec<i32> = self.processes.iter().filter(|(_, process)| fits(process)).map(|(pid, _)| *pid).collect();
        (!fit.is_empty()).then(|| fit[self.rng.random_range(0..fit.len())])
    }

    fn any_task(&mut self, pid: i32) -> i32 {
        let process = &self.processes[&pid];
        let alive: Vec<i32> =
            process.tasks.keys().copied().filter(|tid| !(process.leader_gone && *tid == pid)).collect();
        alive[self.rng.random_range(0..alive.len())]
    }

    fn has_young_children(&self, pid: i32) -> bool {
        self.processes.values().any(|process| process.young && process.parent.0 == pid)
    }

    fn end_process(&mut self, pid: i32) {
        let process = self.processes.remove(&pid).unwrap();
        self.tree.remove(format!("proc/{pid}"));
        self.written.retain(|(number, _), _| *number != pid);
        for tid in process.tasks.keys().filter(|tid| **tid != pid) {
            self.clear_own_entry(*tid);
        }
    }

    /// A thread's own entry is written at the next scan: one that is younger has none.
    fn clear_own_entry(&mut self, tid: i32) {
        self.written.remove(&(tid, "status"));
        let _ = std::fs::remove_dir_all(self.tree.path().join(format!("proc/{tid}")));
    }

    fn drop_task(&mut self, pid: i32, tid: i32) {
        self.processes.get_mut(&pid).unwrap().tasks.remove(&tid);
        self.tree.remove(format!("proc/{pid}/task/{tid}"));
        self.clear_own_entry(tid);
    }

    /// One of the things that processes do: it depends on nothing but its number and the world.
    fn step(&mut self, number: u64) {
        self.rng = StdRng::seed_from_u64(number);
        const TITLES: [&str; 4] = ["alpha", "beta", "gamma", "x"];
        let title = TITLES[self.rng.random_range(0..4)];
        let kind = self.rng.random_range(0..13);
        let Some(pid) = self.pick(|_| true) else { return };
        let process = self.processes[&pid].clone();
        self.log.push(format!("{kind} on {pid} {title}"));
        match kind {
            0..=2 if self.processes.len() < MOST => {
                let (number, creator) = (self.number(), self.any_task(pid));
                if process.tasks[&creator].moved {
                    return;
                }
                let own = process.tasks[&creator].own.clone();
                let Process { title, user, group, .. } = process;
                self.log.push(format!("  {creator} creates process {number} with {own:?}"));
                self.create(number, (pid, process.start), title, user, group, &own, Some(creator));
            }
            3 | 4 if process.tasks.len() < 4 => {
                let (number, creator) = (self.number(), self.any_task(pid));
                self.log.push(format!("  {creator} creates thread {number}"));
                self.thread(pid, creator, number);
            }
            // Another program: its first thread is the only one.
            5 if !process.leader_gone => {
                let others: Vec<i32> = process.tasks.keys().copied().filter(|tid| *tid != pid).collect();
                others.into_iter().for_each(|tid| self.drop_task(pid, tid));
                self.processes.get_mut(&pid).unwrap().title = title;
            }
            6 if !process.leader_gone => self.processes.get_mut(&pid).unwrap().title = title,
            7 if !process.leader_gone => self.processes.get_mut(&pid).unwrap().user = 7 - process.user,
            8 if !process.young && !self.has_young_children(pid) => {
                let group = if process.group == "b" { "other" } else { "b" };
                self.processes.get_mut(&pid).unwrap().group = group;
            }
            9 if !process.young => {
                let tid = self.any_task(pid);
                let task = self.processes.get_mut(&pid).unwrap().tasks.get_mut(&tid).unwrap();
                // One that no scan saw leaves its cgroup unseen.
                task.in_threaded ^= !task.young;
                task.moved |= !task.young;
            }
            // Of a thread that no scan saw, and whose process's first one has ended, the values from before are a guess: the usual ones.
            10 if !process.leader_gone && process.tasks.len() > 1 && process.tasks.values().all(|task| !task.young) => {
                let path = format!("proc/{pid}/task/{pid}/stat");
                let line = self.tree.read(&path).replacen(" S ", " Z ", 1);
                self.tree.write(&path, &line);
                self.processes.get_mut(&pid).unwrap().leader_gone = true;
            }
            // A process ends, and sometimes its number is given out again at once.
            11 if self.processes.len() > 4 && !self.has_young_children(pid) => {
                self.end_process(pid);
                let can_fork =
                    |process: &Process| !process.leader_gone && process.tasks.values().all(|task| !task.moved);
                if let (true, Some(parent)) = (self.rng.random_bool(0.7), self.pick(can_fork)) {
                    let ahead = (pid - self.last - 1).rem_euclid(NUMBERS) + 1;
                    (self.last, self.went) = (pid, self.went + ahead);
                    let Process { title, user, group, start, .. } = self.processes[&parent].clone();
                    let own = self.processes[&parent].tasks[&parent].own.clone();
                    self.log.push(format!("  {parent} creates process {pid} again with {own:?}"));
                    self.create(pid, (parent, start), title, user, group, &own, Some(parent));
                }
            }
            // It sets a class of its own, whatever Quell had set.
            12 => {
                let class = SchedClass::Fair { nice: self.rng.random_range(11..15), slice: None };
                let alive: Vec<i32> =
                    process.tasks.keys().copied().filter(|tid| !(process.leader_gone && *tid == pid)).collect();
                let may_be_a_members = process.young
                    || process.owner.or(process.may_lag).is_some()
                    || process.tasks.values().any(|task| task.in_threaded || task.own.len() > 1);
                self.log.push(format!("  {alive:?} are {class:?}"));
                for tid in alive {
                    self.calls.set_class(tid, &ThreadClass::of(class)).unwrap();
                    let own = &mut self.processes.get_mut(&pid).unwrap().tasks.get_mut(&tid).unwrap().own;
                    if !may_be_a_members {
                        own.clear();
                    }
                    own.push(class);
                }
                // A child that no scan saw had its creator's class of before, or this one: nothing says which.
                let is_young_child = |process: &&mut Process| process.young && process.parent.0 == pid;
                for child in self.processes.values_mut().filter(is_young_child) {
                    child.tasks.values_mut().for_each(|task| task.own.push(class));
                }
            }
            _ => {}
        }
    }

    /// Each process's owner, by the rules.
    fn decide(&mut self) {
        let mut by_age: Vec<i32> = self.processes.keys().copied().collect();
        by_age.sort_by_key(|pid| self.processes[pid].start);
        let before = self.processes.clone();
        for pid in by_age {
            let process = &self.processes[&pid];
            let by_title = match (process.title, process.user) {
                ("alpha", 0) => Some(0),
                ("gamma", _) => Some(2),
                _ => None,
            };
            // Nothing but its user can be read of one whose first thread has ended.
            let of_before = process.explicit.filter(|owner| *owner != 0 || process.user == 0);
            let explicit = if process.leader_gone { of_before } else { by_title };
            let in_cgroup = (process.group == "b").then_some(1);
            let parent = self.processes.get(&process.parent.0).filter(|parent| parent.start == process.parent.1);
            let was = before.get(&process.parent.0).filter(|parent| parent.start == process.parent.1);
            let mut may_lag = None;
            let by_descent = match parent {
                Some(parent) => {
                    // What a cgroup selects are those in it alone.
                    let owner = parent.owner.filter(|_| parent.explicit.is_some() || parent.by_descent);
                    if process.young && owner.is_none() {
                        may_lag = was.and_then(|was| was.owner.or(was.may_lag)).or(process.born_of);
                    }
                    owner
                }
                None if process.young => None,
                None => process.owner.filter(|_| process.by_descent),
            };
            let owner = explicit.or(in_cgroup).or(by_descent);
            let process = self.processes.get_mut(&pid).unwrap();
            (process.owner, process.explicit, process.young) = (owner, explicit, false);
            process.tasks.values_mut().for_each(|task| (task.young, task.moved) = (false, false));
            process.by_descent = explicit.or(in_cgroup).is_none();
            process.may_lag = may_lag.filter(|_| owner.is_none());
        }
    }

    fn check(&self) -> Result<(), String> {
        for (pid, process) in &self.processes {
            for (tid, task) in &process.tasks {
                if process.leader_gone && tid == pid {
                    continue;
                }
                let by_thread = task.in_threaded.then_some(3).filter(|_| process.explicit.is_none());
                let owner = by_thread.or(process.owner);
                let class = self.calls.class(*tid).unwrap().class;
                let cpus = self.calls.affinity(*tid).unwrap();
                let said = || {
                    format!(
                        "thread {tid} of {process:?}: {class:?} on {cpus}, owner {owner:?}\n{}",
                        self.log.join("\n")
                    )
                };
                let all: CpuSet = "0-3".parse().unwrap();
                let is_of = |owner: usize| {
                    let (set, on) = VALUES[owner];
                    let on: CpuSet = on.parse().unwrap();
                    cpus == on && (class == set || task.own.len() > 1 && task.own.contains(&class))
                };
                let is_own = cpus == all && task.own.contains(&class);
                let right = match (owner, process.may_lag) {
                    (Some(owner), _) => is_of(owner),
                    (None, Some(lags)) => is_own || is_of(lags),
                    (None, None) => is_own,
                };
                if !right {
                    return Err(said());
                }
            }
        }
        Ok(())
    }
}

fn managed(world: &World) -> LinuxHost {
    let options = HostOptions { threads_only: true, ..HostOptions::default() };
    let mut host = world.tree.host(options).unwrap();
    let alpha = CommandLine { user: Some("0".into()), ..CommandLine::from("alpha") };
    let selectors = [
        Selector::Command(alpha),
        Selector::Cgroup("b".into()),
        Selector::Command(CommandLine::from("gamma")),
        Selector::Cgroup("t".into()),
    ];
    let mut knobs = Vec::new();
    for (at, selector) in selectors.into_iter().enumerate() {
        let mut workload = Workload::new(format!("w{at}"), Class::BestEffort, CpuCount::ZERO);
        workload.selectors.push(selector);
        let target = Target::Workload(host.attach(workload).unwrap());
        let (class, cpus) = VALUES[at];
        let knob = if class == SchedClass::Idle { Knob::IdleOnly(true) } else { Knob::Class(class) };
        knobs.extend([knob, Knob::Cpus(cpus.parse().unwrap())].map(|knob| KnobSetting { target, knob }));
    }
    look(&mut host);
    host.apply(&Plan { number: 1, knobs, ..Plan::default() }, &mut Vec::new()).unwrap();
    host
}

/// A scan of everything, command lines included.
fn look(host: &mut LinuxHost) {
    host.members.selectors_changed();
    let mut view = View::new(host.topology());
    host.observe(SignalSet::default(), &mut view, &mut Vec::new()).unwrap();
}

/// Runs these steps; None: a scan.
fn run(steps: &[Option<u64>]) -> Result<(), String> {
    let mut world = World::new();
    let mut host = managed(&world);
    world.decide();
    world.check()?;
    for step in steps {
        let Some(number) = step else {
            world.publish();
            look(&mut host);
            world.decide();
            world.went = 0;
            world.check()?;
            world.log.push("scan".into());
            continue;
        };
        world.step(*number);
    }
    world.publish();
    let report = host.restore();
    world.processes.values_mut().for_each(|process| {
        (process.owner, process.may_lag) = (None, None);
        process.tasks.values_mut().for_each(|task| task.in_threaded = false);
    });
    world.log.push(format!("restored: {:?}", report.left));
    world.check()?;
    assert!((0..4).all(|at| host.level(WorkloadId(at)).is_some()));
    Ok(())
}

fn random_steps(seed: u64, count: usize) -> Vec<Option<u64>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut steps = Vec::new();
    for _ in 0..count {
        steps.push(Some(rng.random()));
        if rng.random_bool(1.0 / 3.0) {
            steps.push(None);
        }
    }
    steps.push(None);
    steps
}

/// The fewest steps that fail, and how.
fn shrunk(mut steps: Vec<Option<u64>>) -> String {
    let mut chunk = steps.len() / 2;
    while chunk > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + chunk).min(steps.len()));
            if run(&fewer).is_err() {
                steps = fewer;
            } else {
                from += chunk;
            }
        }
        chunk /= 2;
    }
    run(&steps).expect_err("it failed a moment ago")
}

#[test]
fn whatever_processes_do_each_thread_has_its_workloads_values_or_its_own() {
    let run_some = |first: u64| {
        for seed in (first..20).step_by(4) {
            let steps = random_steps(seed, 500);
            assert!(run(&steps).is_ok(), "seed {seed}, {}", shrunk(steps));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|first| _ = scope.spawn(move || run_some(first))));
}
