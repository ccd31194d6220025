//! What it costs to move threads: grants, against the calls that Linux has for it.

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use quell_guest::{Lockstep, lab_tests};
use quell_model::{Class, CpuId, GrantCommand, Host, Plan};

use crate::support::{Child, Group, Machine, RealTime, monotonic, pass, pin, rights};

/// The first CPU is the scheduler's own.
const CPUS: usize = 8;
const ROUNDS: usize = 11;

/// What a spinning thread shares with the test.
struct Spinner {
    /// When it ran last, ns.
    ran: AtomicU64,
    /// Is it to wait?
    parked: AtomicU32,
}

type Spinners = [[Spinner; CPUS]; 2];
static SPINNERS: AtomicPtr<Spinners> = AtomicPtr::new(std::ptr::null_mut());
/// The next child's side and place.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn spinners() -> &'static Spinners {
    // SAFETY: the mapping of `share`, which stays and which children inherit.
    unsafe { &*SPINNERS.load(Acquire) }
}

fn share() {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of zeros, which are values of atomics.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    SPINNERS.store(at.cast(), Release);
}

fn own() -> &'static Spinner {
    let next = NEXT.load(Acquire);
    &spinners()[next / CPUS][next % CPUS]
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: a word in a mapping that stays; no timeout.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, std::ptr::null::<libc::timespec>()) };
}

/// Waits here while it is to wait: the signal's handler, and what a thread does that begins parked.
extern "C" fn park(_signal: i32) {
    while own().parked.load(Acquire) == 1 {
        futex(&own().parked, libc::FUTEX_WAIT, 1);
    }
}

fn spin() {
    let handler = park as extern "C" fn(i32);
    // SAFETY: installs a handler that touches atomics and calls the kernel alone.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    park(0);
    loop {
        own().ran.store(monotonic().0, Release);
    }
}

fn children(side: usize, group: Option<&Group>, parked: bool) -> Vec<Child> {
    (0..CPUS)
        .map(|at| {
            NEXT.store(side * CPUS + at, SeqCst);
            spinners()[side][at].parked.store(parked.into(), Release);
            Child::run(group, if parked { Some(0) } else { Some(at as u32 + 1) }.filter(|_| group.is_none()), spin)
        })
        .collect()
}

/// How long it took until this many of this side had run since then; the test looks again and again.
fn until_run(side: usize, count: usize, since: u64) -> Duration {
    loop {
        let ran = spinners()[side].iter().filter(|spinner| spinner.ran.load(Acquire) > since).count();
        let now = monotonic().0;
        if ran >= count {
            return Duration::from_nanos(now - since);
        }
        assert!(now - since < 2_000_000_000, "{ran} of {count} ran");
    }
}

/// The scheduler's own time for it, and when all ran: medians.
#[derive(Debug)]
struct Cost {
    work: Duration,
    latency: Duration,
}

fn medians(mut rounds: Vec<(Duration, Duration)>) -> Cost {
    let middle = rounds.len() / 2;
    rounds.sort_by_key(|round| round.0);
    let work = rounds[middle].0;
    rounds.sort_by_key(|round| round.1);
    Cost { work, latency: rounds[middle].1 }
}

/// Moves this many CPUs between the workloads and back, by grants.
fn by_grants(machine: &mut Machine, sides: [quell_model::WorkloadId; 2], count: usize) -> Cost {
    let mut move_to = |side: usize| {
        let grant = |at: usize| GrantCommand::Grant(CpuId(at as u32 + 1), sides[side]);
        let plan = Plan { grants: (0..count).map(grant).collect(), ..Plan::default() };
        let mut events = Vec::with_capacity(count);
        machine.observe();
        let begin = monotonic().0;
        machine.host.apply(&plan, &mut events).unwrap();
        let work = Duration::from_nanos(monotonic().0 - begin);
        // Of the side that has all CPUs again more threads run than were moved.
        let latency = if side == 1 { until_run(1, count, begin) } else { Duration::ZERO };
        pass(1);
        (work, latency)
    };
    medians((0..ROUNDS).map(|_| (move_to(1), move_to(0)).0).collect())
}

/// The same with a signal to the one that is to leave, and affinity and a futex for the one that is to come.
fn by_calls(sides: [&[Child]; 2], count: usize) -> Cost {
    let move_to = |side: usize| {
        let begin = monotonic().0;
        for (at, (leaves, comes)) in sides[1 - side].iter().zip(sides[side]).enumerate().take(count) {
            spinners()[1 - side][at].parked.store(1, Release);
            leaves.signal(libc::SIGUSR1);
            pin(comes.0, at as u32 + 1..at as u32 + 2);
            spinners()[side][at].parked.store(0, Release);
            futex(&spinners()[side][at].parked, libc::FUTEX_WAKE, 1);
        }
        let work = Duration::from_nanos(monotonic().0 - begin);
        let latency = if side == 1 { until_run(1, count, begin) } else { Duration::ZERO };
        pass(1);
        (work, latency)
    };
    medians((0..ROUNDS).map(|_| (move_to(1), move_to(0)).0).collect())
}

lab_tests! {
    mod moves {
        machine: quell_guest::Machine {
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_guest::Machine::measuring(
                CPUS as u32 + 1,
                Lockstep { serial: true, mips: 500, quantum_ns: 1000 },
                Vec::new(),
            )
        };

        #[ignore = "a measurement of minutes in lock-step: make soak"]
        fn grants_cost_less_than_the_calls_that_linux_has() {
            let counts = [1, 2, 4, 8];
            share();
            let by_calls: Vec<Cost> = {
                let _first = RealTime::begin();
                let (stay, come) = (children(0, None, false), children(1, None, true));
                pass(100);
                counts.iter().map(|&count| by_calls([&stay, &come], count)).collect()
            };
            let _first = RealTime::begin();
            let groups = [Group::new("stay"), Group::new("come")];
            let mut machine = Machine::load();
            let sides = ["stay", "come"].map(|name| machine.attach(name, Class::BestEffort));
            sides.iter().for_each(|&side| machine.apply(&rights(side, 0, CPUS as u32, 0)[1..2], &[]));
            let _children = [children(0, Some(&groups[0]), false), children(1, Some(&groups[1]), false)];
            // Each has run before it is moved: the first run is another program's start.
            for side in [sides[1], sides[0]] {
                let everything: Vec<_> = (1..=CPUS as u32).map(|cpu| (cpu, side)).collect();
                machine.grant(&everything);
                pass(50);
            }
            println!("CPUs moved  grants: work, latency  calls: work, latency  ratio of work, of latency");
            let mut ratios = Vec::new();
            for (&count, calls) in counts.iter().zip(&by_calls) {
                let grants = by_grants(&mut machine, sides, count);
                let ratio = |ours: Duration, theirs: Duration| ours.as_secs_f64() / theirs.as_secs_f64();
                ratios.push((ratio(grants.work, calls.work), ratio(grants.latency, calls.latency)));
                println!("{count} {grants:?} {calls:?} {:.2?}", ratios.last().unwrap());
            }
            let (work, latency) = ratios.last().unwrap();
            assert!(*work < 0.7 && *latency < 1.0, "{ratios:?}");
        }
    }
}
