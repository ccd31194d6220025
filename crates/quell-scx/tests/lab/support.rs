//! Cgroups, processes that spin or sleep in them, and a loaded scheduler.

use std::cell::Cell;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, CpuId, Event, GrantCommand, Host, Nanos, Outcome, Part, Plan, Refusal, Rule, Selector, SignalSet,
    Verdict, View, Workload, WorkloadId,
};
use quell_scx::{Scx, ScxOptions, Verified};

/// A lab of this many CPUs, with the kernel that QUELL_TEST_KERNEL names, or the lab's first choice.
pub fn guest(cpus: u32) -> quell_guest::Machine {
    let kernel = std::env::var("QUELL_TEST_KERNEL").ok();
    quell_guest::Machine { cpus, kernel, ..quell_guest::Machine::packed(Vec::new()) }
}

/// The scheduler that the suite's tests share, with its options as text, between two of them: loading takes seconds.
static SHARED: Mutex<Option<(String, LinuxHost)>> = Mutex::new(None);

/// A host with a scheduler, which another test has after this one if it is shared.
pub struct Loaded {
    host: Option<LinuxHost>,
    /// Its options as text, if it is shared.
    shared: Option<String>,
}

impl Deref for Loaded {
    type Target = LinuxHost;

    fn deref(&self) -> &LinuxHost {
        self.host.as_ref().unwrap()
    }
}

impl DerefMut for Loaded {
    fn deref_mut(&mut self) -> &mut LinuxHost {
        self.host.as_mut().unwrap()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let shared = self.shared.take().filter(|_| !std::thread::panicking());
        let (Some(mut host), Some(options)) = (self.host.take(), shared) else { return };
        let scheduler: Option<&Scx> = host.scheduler();
        if scheduler.is_some_and(|scx| scx.grant().check().is_ok()) {
            // Those that there are.
            (0..16).for_each(|id| _ = host.detach(WorkloadId(id)));
            *SHARED.lock().unwrap() = Some((options, host));
        }
    }
}

/// A loaded scheduler with its host and view.
pub struct Machine {
    pub host: Loaded,
    pub view: View,
    pub events: Vec<Event>,
}

impl Machine {
    pub fn load() -> Machine {
        Machine::with(ScxOptions::default())
    }

    /// The scheduler that an earlier test of the suite loaded, without workloads: what it counts goes on.
    pub fn shared() -> Machine {
        Machine::shared_with(ScxOptions::default())
    }

    /// The same with these options.
    pub fn shared_with(options: ScxOptions) -> Machine {
        let text = format!("{options:?}");
        let kept = SHARED.lock().unwrap().take_if(|(loaded, _)| *loaded == text);
        let mut machine = match kept {
            Some((_, host)) => Machine::of(host),
            None => Machine::with(options),
        };
        machine.host.shared = Some(text);
        machine.scx().grant().set_loop(rustix::thread::gettid().as_raw_nonzero().get());
        machine
    }

    /// Ends the one that tests share.
    pub fn unload() {
        if SHARED.lock().unwrap().take().is_some() {
            await_state("disabled");
        }
    }

    pub fn with(options: ScxOptions) -> Machine {
        Machine::unload();
        let topology = quell_linux::sysfs::topology("/sys".as_ref()).unwrap();
        Machine::begin(Verified::load(&topology, options.parts).unwrap(), options)
    }

    /// Of one that is verified.
    pub fn begin(verified: Verified, options: ScxOptions) -> Machine {
        // Every 4 s it takes each CPU for a moment, with a thread of a higher class: a CPU that is held by a grant alone,
        // without a rule that takes it back, is yielded then, for a loop to grant again. These tests grant once.
        fs::write("/proc/sys/kernel/watchdog", "0").unwrap();
        let roots = Roots::default();
        // Everything here is a child of this process: Quell's own processes are not exempt.
        let linux = HostOptions { include_self: true, ..HostOptions::default() };
        let linux = LinuxHost::new(roots.clone(), linux).unwrap();
        let scheduler = Scx::begin(verified, linux.topology(), roots, options).unwrap();
        Machine::of(linux.with_scheduler(scheduler).unwrap())
    }

    fn of(host: LinuxHost) -> Machine {
        let view = View::new(quell_linux::sysfs::topology("/sys".as_ref()).unwrap().into());
        Machine { host: Loaded { host: Some(host), shared: None }, view, events: Vec::new() }
    }

    /// The scheduler.
    pub fn scx(&self) -> &Scx {
        self.host.scheduler().unwrap()
    }

    pub fn attach(&mut self, name: &str, class: Class) -> WorkloadId {
        let mut workload = Workload::new(name, class, CpuCount::ZERO);
        workload.selectors = vec![Selector::Cgroup(name.into())];
        self.host.attach(workload).unwrap()
    }

    /// The cgroups "lc", guaranteed one CPU and limited to this many, and "be", next in line for both.
    pub fn attach_pair(&mut self, limit: u32) -> (WorkloadId, WorkloadId) {
        let lc = self.attach("lc", Class::LatencyCritical);
        let be = self.attach("be", Class::BestEffort);
        self.apply(&rights(lc, 1, limit, 0), &[]);
        self.apply(&rights(be, 0, 2, 1), &[]);
        (lc, be)
    }

    /// Has these done, as a policy would: what a rule overtook is asked for again.
    pub fn apply(&mut self, rules: &[Rule], grants: &[GrantCommand]) {
        let mut plan = Plan { rules: rules.to_vec(), grants: grants.to_vec(), ..Plan::default() };
        for _ in 0..100 {
            self.observe();
            let mut outcomes = Vec::new();
            self.host.apply(&plan, &mut outcomes).unwrap();
            assert_eq!(outcomes.len(), plan.rules.len() + plan.grants.len());
            let mut again = Vec::new();
            for outcome in outcomes {
                let Event::Outcome(Outcome { part, verdict, .. }) = outcome else { panic!("{outcome:?}") };
                match (part, verdict) {
                    (_, Verdict::Applied(_)) => {}
                    (Part::Grant(at), Verdict::Refused(Refusal::Overtaken)) => again.push(plan.grants[at as usize]),
                    (part, verdict) => panic!("{part:?}: {verdict:?}"),
                }
            }
            if again.is_empty() {
                return;
            }
            plan = Plan { grants: again, ..Plan::default() };
        }
        panic!("overtaken a hundred times: {:?}", plan.grants);
    }

    pub fn grant(&mut self, grants: &[(u32, WorkloadId)]) {
        let grants: Vec<_> = grants.iter().map(|&(cpu, id)| GrantCommand::Grant(CpuId(cpu), id)).collect();
        self.apply(&[], &grants);
    }

    pub fn observe(&mut self) -> &View {
        let all = SignalSet::of(&[
            quell_model::Signal::QueueingDelay,
            quell_model::Signal::RunTime,
            quell_model::Signal::Holder,
            quell_model::Signal::RequestStart,
        ]);
        self.events.clear();
        self.host.observe(all, &mut self.view, &mut self.events).unwrap();
        &self.view
    }

    /// Does the workload hold one of the two CPUs, within a second? For moments this program has the one, and what woke
    /// up the other.
    pub fn comes_to_hold(&mut self, id: WorkloadId) -> bool {
        (0..200).any(|look| {
            pass(if look == 0 { 0 } else { 5 });
            [0, 1].into_iter().any(|cpu| self.holder(cpu) == Some(id))
        })
    }

    pub fn holder(&mut self, cpu: u32) -> Option<WorkloadId> {
        self.observe().cpus.holder[cpu as usize]
    }
}

/// The rights of a workload.
pub fn rights(id: WorkloadId, guaranteed: u32, limit: u32, rank: u32) -> [Rule; 3] {
    [
        Rule::Guaranteed { workload: id, cpus: guaranteed },
        Rule::Limit { workload: id, cpus: limit },
        Rule::Rank { workload: id, rank },
    ]
}

/// A cgroup below the root; removed in the end.
pub struct Group(PathBuf);

impl Group {
    pub fn new(name: &str) -> Group {
        Group::at(PathBuf::from("/sys/fs/cgroup").join(name))
    }

    fn at(path: PathBuf) -> Group {
        fs::create_dir(&path).unwrap();
        Group(path)
    }

    /// Its children have cpu.weight, cpu.idle and cpu.max.
    pub fn with_controller(name: &str) -> Group {
        let group = Group::new(name);
        group.set("cgroup.subtree_control", "+cpu");
        group
    }

    pub fn child(&self, name: &str) -> Group {
        Group::at(self.0.join(name))
    }

    pub fn child_with_controller(&self, name: &str) -> Group {
        let group = self.child(name);
        group.set("cgroup.subtree_control", "+cpu");
        group
    }

    pub fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap_or_else(|error| panic!("{file} of {}: {error}", self.0.display()));
    }

    pub fn add(&self, pid: i32) {
        self.set("cgroup.procs", &pid.to_string());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A process of this test; killed in the end.
pub struct Child(pub i32);

impl Child {
    /// Runs `work` in a process of its own, in a cgroup if one is given, on one CPU if one is given.
    pub fn run(group: Option<&Group>, cpu: Option<u32>, work: fn()) -> Child {
        // SAFETY: the child calls nothing that another thread of this process could hold a lock of: it writes one file,
        // sets its affinity, and works without allocating.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork");
        if pid == 0 {
            match cpu {
                Some(cpu) => pin(0, cpu..cpu + 1),
                None => pin(0, 0..64),
            }
            // SAFETY: stops this very process until its parent has put it where it belongs.
            unsafe { libc::raise(libc::SIGSTOP) };
            work();
            // SAFETY: ends the child without running the parent's clean-ups.
            unsafe { libc::_exit(0) };
        }
        let child = Child(pid);
        let mut status = 0;
        // SAFETY: a child of ours, and a local to write to.
        unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
        if let Some(group) = group {
            group.add(pid);
        }
        child.signal(libc::SIGCONT);
        child
    }

    /// A process that never sleeps.
    pub fn spin(group: Option<&Group>, cpu: Option<u32>) -> Child {
        Child::run(group, cpu, || {
            loop {
                std::hint::spin_loop();
            }
        })
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(self.0, signal) };
    }

    /// Has it come to its end after a signal?
    pub fn has_ended(&self) -> bool {
        // SAFETY: a child of ours.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::WNOHANG) == self.0 }
    }

    /// CPU time so far.
    pub fn ran(&self) -> Duration {
        Duration::from_nanos(self.statistic(0))
    }

    /// Time for which it wanted a CPU and had none, so far.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.statistic(1))
    }

    /// Times that it came to run so far.
    pub fn turns(&self) -> u64 {
        self.statistic(2)
    }

    fn statistic(&self, which: usize) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.0)).unwrap();
        text.split_whitespace().nth(which).unwrap().parse().unwrap()
    }

    /// The CPU that it runs on or ran on last.
    pub fn cpu(&self) -> u32 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap();
        text.rsplit(' ').nth(13).unwrap().parse().unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: a child of ours.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// The longest time for which each of its children stood still. They wake up every 5 ms.
pub struct Beats {
    beats: &'static [Beat; MOST_BEATS],
    children: Cell<usize>,
}

/// In nanoseconds.
struct Beat {
    last: AtomicU64,
    longest_gap: AtomicU64,
}

const MOST_BEATS: usize = 8;
static BEATS: AtomicPtr<[Beat; MOST_BEATS]> = AtomicPtr::new(std::ptr::null_mut());
static NEXT_BEAT: AtomicUsize = AtomicUsize::new(0);

impl Beats {
    pub fn begin() -> Beats {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, for this process and its children, that stays; zeros are values of atomics.
        let beats = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            BEATS.store(at.cast(), Relaxed);
            &*at.cast::<[Beat; MOST_BEATS]>()
        };
        Beats { beats, children: Cell::new(0) }
    }

    /// One that begins to beat.
    pub fn child(&self, group: Option<&Group>, cpu: Option<u32>) -> Child {
        NEXT_BEAT.store(self.children.get(), Relaxed);
        self.children.set(self.children.get() + 1);
        Child::run(group, cpu, || {
            // SAFETY: the parent's mapping, which this child has inherited.
            let beat = unsafe { &(&*BEATS.load(Relaxed))[NEXT_BEAT.load(Relaxed)] };
            beat.last.store(monotonic().0, Relaxed);
            loop {
                pass(5);
                let now = monotonic().0;
                beat.longest_gap.fetch_max(now - beat.last.swap(now, Relaxed), Relaxed);
            }
        })
    }

    /// Of each child.
    pub fn longest(&self) -> Vec<Duration> {
        let gap = |beat: &Beat| {
            let since_last = monotonic().0.saturating_sub(beat.last.load(Relaxed));
            Duration::from_nanos(beat.longest_gap.load(Relaxed).max(since_last))
        };
        let gaps: Vec<_> = self.beats.iter().take(self.children.get()).map(gap).collect();
        println!("longest gaps: {gaps:?}");
        gaps
    }
}

pub fn pin(pid: i32, cpus: std::ops::Range<u32>) {
    // SAFETY: a set of CPUs on the stack, of the size that is passed.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.for_each(|cpu| libc::CPU_SET(cpu as usize, &mut set));
        assert_eq!(libc::sched_setaffinity(pid, size_of_val(&set), &raw const set), 0);
    }
}

/// The test runs before all others while the value lives, on CPU 0, so that it is never what waits.
pub struct RealTime;

impl RealTime {
    pub fn begin() -> RealTime {
        // Children are not to be like that.
        pin(0, 0..1);
        set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 50);
        RealTime
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        set_class(libc::SCHED_OTHER, 0);
        pin(0, 0..64);
    }
}

pub fn set_class(class: i32, priority: i32) {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a structure on the stack; 0 is the calling thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, class, &raw const parameters) }, 0);
}

/// The clock of the scheduler's times.
pub fn monotonic() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

pub fn pass(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// How much each child ran meanwhile, in thousandths of the time.
pub fn shares(children: &[&Child], milliseconds: u64) -> Vec<u128> {
    let before: Vec<Duration> = children.iter().map(|child| child.ran()).collect();
    let start = Instant::now();
    pass(milliseconds);
    let span = start.elapsed();
    let ran = children.iter().zip(before).map(|(child, before)| child.ran() - before);
    ran.map(|ran| ran.as_micros() * 1000 / span.as_micros()).collect()
}

/// As [`shares`], of the first of five spans in which they are as `right` says. A host that others load stops one CPU of
/// the guest for a while, which shows in one span; what the scheduler divides wrongly, it divides wrongly in all of them.
pub fn shares_until(children: &[&Child], milliseconds: u64, right: impl Fn(&[u128]) -> bool) -> Vec<u128> {
    let mut spans = Vec::new();
    for _ in 0..5 {
        let shares = shares(children, milliseconds);
        println!("{shares:?}");
        if right(&shares) {
            return shares;
        }
        spans.push(shares);
    }
    panic!("wrong in each of {} spans: {spans:?}", spans.len());
}

/// Makes 25 processes, again and again, that end at once.
pub fn storm() {
    // When this process is killed, its children end in their own time; a descriptor of the scheduler, inherited, would keep
    // it loaded until then.
    // SAFETY: every descriptor of this very process, which uses none.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    loop {
        for _ in 0..25 {
            // SAFETY: the child does nothing but end; the parent has one thread.
            if unsafe { libc::fork() } == 0 {
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
        }
        // SAFETY: children of this process.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {}
    }
}

pub fn set_online(cpu: u32, online: bool) {
    fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), if online { "1" } else { "0" }).unwrap();
}

/// What the kernel says of its scheduler.
pub fn state() -> String {
    fs::read_to_string("/sys/kernel/sched_ext/state").unwrap().trim().to_owned()
}

/// Waits until the kernel says so: it loads and ends schedulers in its own time.
pub fn await_state(wanted: &str) {
    for _ in 0..12_000 {
        if state() == wanted {
            return;
        }
        pass(10);
    }
    panic!("the kernel's scheduler is {}, not {wanted}", state());
}
