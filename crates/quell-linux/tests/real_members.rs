//! Real processes that fork, start threads, execute other programs, change their user and cgroup and end their first threads, at
//! random: each thread has what its workload has, or its own from before. Root; `QUELL_REAL_STEPS` is the number of steps.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CommandLine, CpuCount, Host, Knob, KnobSetting, Nanos, Plan, SchedClass, Selector, Signal, SignalSet,
    Target, View, Workload,
};

const STRANGER: u32 = 65534;
/// What a process does that is asked by lines. A thread that is not the first reads them, so that the first may end.
const PUPPET: &str = r#"
import ctypes, os, sys, threading, time
leave = threading.Event()
def run():
    try: obey()
    except BaseException: os._exit(1)
def obey():
    for line in sys.stdin:
        word = line.split()
        if word[0] == "thread": threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        elif word[0] == "fork":
            if os.fork() == 0: time.sleep(600)
        elif word[0] == "title": os.execv(sys.executable, [sys.executable, sys.argv[0], word[1]])
        elif word[0] == "user": os.setresuid(int(word[1]), int(word[1]), int(word[1]))
        elif word[0] == "leave": leave.set()
        print("done", flush=True)
threading.Thread(target=run, daemon=True).start()
print("done", flush=True)
leave.wait()
ctypes.CDLL(None).syscall(60, 0)
"#;
/// By title: those of two workloads, and one of none.
const TITLES: [&str; 3] = ["one", "two", "other"];
/// Longest time until a command line is read again, and much more.
const PATIENCE: Duration = Duration::from_secs(20);

struct Puppet {
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    title: usize,
    is_root: bool,
    in_group: bool,
    /// Processes that it created, each with the number of its title then, whether root's, and whether in the cgroup.
    children: Vec<(i32, usize, bool, bool)>,
    has_leader: bool,
}

impl Puppet {
    fn start(scene: &Scene, title: usize) -> Puppet {
        let mut command = Command::new("python3");
        command.arg(&scene.program).arg(scene.word(title)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (asks, answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let (is_root, has_leader) = (true, true);
        let mut puppet =
            Puppet { process, asks, answers, title, is_root, in_group: false, children: Vec::new(), has_leader };
        puppet.is_done();
        puppet
    }

    fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    fn is_done(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.asks, "{line}").unwrap();
        self.is_done();
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        for (child, ..) in &self.children {
            let pid = rustix::process::Pid::from_raw(*child).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Scene {
    directory: tempfile::TempDir,
    program: PathBuf,
    /// A cgroup of the third workload, if a tree of version 2 is mounted.
    group: Option<PathBuf>,
    /// The class that processes have from this one.
    own: SchedClass,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("puppet.py");
        std::fs::write(&program, PUPPET).unwrap();
        let group = Roots::default().cgroup.join(format!("quell-members-{}", std::process::id()));
        let made = std::fs::create_dir(&group).is_ok();
        let is_cgroup = made && group.join("cgroup.procs").exists();
        if made && !is_cgroup {
            std::fs::remove_dir(&group).unwrap();
        }
        let group = is_cgroup.then_some(group);
        let own = Kernel::new().unwrap().class(0).unwrap().class;
        Scene { directory, program, group, own }
    }

    /// A title that no other process has.
    fn word(&self, title: usize) -> String {
        format!("{}-{}", TITLES[title], self.directory.path().file_name().unwrap().display())
    }

    /// The class of a process's threads: by its title and user, else by its cgroup, else its own.
    fn class(&self, title: usize, is_root: bool, in_group: bool) -> SchedClass {
        match (title, is_root, in_group) {
            (0, true, _) => SchedClass::Fifo { priority: 1 },
            (1, true, _) => SchedClass::Batch { nice: 3 },
            (_, _, true) => SchedClass::Fair { nice: 7, slice: None },
            _ => self.own,
        }
    }

    fn host(&self) -> LinuxHost {
        let options =
            HostOptions { threads_only: true, scan_interval: Nanos::from_millis(1), ..HostOptions::default() };
        let mut host = LinuxHost::new(Roots::default(), options).unwrap();
        let mut plan = Plan { number: 1, ..Plan::default() };
        for (title, name) in TITLES.iter().enumerate() {
            let mut workload = Workload::new(*name, Class::BestEffort, CpuCount::ZERO);
            workload.selectors.push(match (title, &self.group) {
                (0 | 1, _) => {
                    Selector::Command(CommandLine { user: Some("root".into()), ..self.word(title).as_str().into() })
                }
                (_, Some(group)) => Selector::Cgroup(group.file_name().unwrap().into()),
                (_, None) => continue,
            });
            let id = host.attach(workload).unwrap();
            let class = self.class(title, title < 2, title == 2);
            plan.knobs.push(KnobSetting { target: Target::Workload(id), knob: Knob::Class(class) });
        }
        host.apply(&plan, &mut Vec::new()).unwrap();
        host
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let Some(group) = &self.group else { return };
        let begun = Instant::now();
        while std::fs::remove_dir(group).is_err() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A number below this, by xorshift.
fn pick(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below as u64) as usize
}

/// Threads of a process that run, with their classes.
fn classes(kernel: &Kernel, pid: i32) -> Vec<(i32, SchedClass)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids = tasks.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let lives = |tid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    tids.filter(lives).filter_map(|tid| Some((tid, kernel.class(tid).ok()?.class))).collect()
}

/// What is not as it is to be.
fn wrong(kernel: &Kernel, scene: &Scene, puppets: &[Puppet], managed: bool) -> Option<String> {
    for puppet in puppets {
        let own = (puppet.pid(), puppet.title, puppet.is_root, puppet.in_group);
        for (pid, title, is_root, in_group) in std::iter::once(own).chain(puppet.children.iter().copied()) {
            // What is selected by neither its title and user nor its cgroup is so as a descendant.
            let is_selected = title < 2 && is_root || in_group;
            let (title, is_root) = if is_selected { (title, is_root) } else { (puppet.title, puppet.is_root) };
            let right = if managed { scene.class(title, is_root, in_group) } else { scene.own };
            if let Some((tid, class)) = classes(kernel, pid).into_iter().find(|(_, class)| *class != right) {
                return Some(format!("thread {tid} of process {pid} is {class}; right: {right}"));
            }
        }
    }
    None
}

fn until_right(kernel: &Kernel, scene: &Scene, puppets: &[Puppet], host: &mut LinuxHost, what: &str) {
    let mut view = View::new(host.topology());
    let begun = Instant::now();
    loop {
        host.observe(SignalSet::of(&[Signal::Threads]), &mut view, &mut Vec::new()).unwrap();
        let Some(wrong) = wrong(kernel, scene, puppets, true) else { return };
        assert!(begun.elapsed() < PATIENCE, "{what}: {wrong}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn children(puppet: &Puppet) -> Vec<i32> {
    let pid = puppet.pid();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect()
}

/// SCHED_FIFO for a thread of this process.
fn may_be_real_time() -> bool {
    let try_it = || Kernel::new().unwrap().set_class(0, &ThreadClass::of(SchedClass::Fifo { priority: 1 })).is_ok();
    std::thread::spawn(try_it).join().unwrap()
}

#[test]
fn at_each_step_every_thread_has_its_workloads_class_or_its_own() {
    if !rustix::process::geteuid().is_root()
        || !may_be_real_time()
        || !cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
    {
        eprintln!("not tested here: needs root with the right to real-time classes, on x86-64 or ARM64");
        return;
    }
    let steps = std::env::var("QUELL_REAL_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(40);
    let of_now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let mut state: u64 =
        std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(of_now);
    println!("seed {state}");
    state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (kernel, scene) = (Kernel::new().unwrap(), Scene::new());
    let mut puppets: Vec<Puppet> = (0..3).map(|title| Puppet::start(&scene, title)).collect();
    if let Some(group) = &scene.group {
        std::fs::write(group.join("cgroup.procs"), puppets[2].pid().to_string()).unwrap();
        puppets[2].in_group = true;
    }
    let mut host = scene.host();
    let mut counts = [0; 8];
    for step in 0..steps {
        let at = pick(&mut state, puppets.len());
        let change = pick(&mut state, 8);
        let puppet = &mut puppets[at];
        let what = match change {
            0 | 1 => "a thread is started",
            2 if puppet.children.len() < 4 => "a child is forked",
            // Threads that are not the first, too, execute another program.
            3 if puppet.is_root => "another title",
            4 if puppet.is_root && puppet.title < 2 => "another user",
            // The kernel lists a process whose first thread has ended where that was.
            5 if scene.group.is_some() && puppet.has_leader => "another cgroup",
            6 if puppet.has_leader => "the first thread ends",
            _ => "a process ends, and one begins",
        };
        match what {
            "a thread is started" => puppet.ask("thread"),
            "a child is forked" => {
                let before = children(puppet);
                puppet.ask("fork");
                let new = children(puppet).into_iter().find(|child| !before.contains(child)).unwrap();
                puppet.children.push((new, puppet.title, puppet.is_root, puppet.in_group));
            }
            "another title" => {
                puppet.title = (puppet.title + 1 + pick(&mut state, 2)) % 3;
                let line = format!("title {}", scene.word(puppet.title));
                puppet.ask(&line);
                puppet.has_leader = true;
            }
            "another user" => {
                puppet.ask(&format!("user {STRANGER}"));
                puppet.is_root = false;
            }
            "another cgroup" => {
                puppet.in_group = !puppet.in_group;
                let group = if puppet.in_group { scene.group.clone().unwrap() } else { Roots::default().cgroup };
                std::fs::write(group.join("cgroup.procs"), puppet.pid().to_string()).unwrap();
            }
            "the first thread ends" => {
                puppet.ask("leave");
                puppet.has_leader = false;
            }
            _ => {
                let title = pick(&mut state, 3);
                puppets[at] = Puppet::start(&scene, title);
            }
        }
        counts[change] += 1;
        until_right(&kernel, &scene, &puppets, &mut host, &format!("step {step}: {what} (process {at})"));
    }
    println!("{steps} steps, by kind: {counts:?}");
    host.restore();
    assert_eq!(wrong(&kernel, &scene, &puppets, false), None);
    drop(puppets);
}
