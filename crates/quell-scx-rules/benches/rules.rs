//! What the rules at a wake-up and at a yield cost, on machines of three sizes: nanoseconds, which other work on the machine
//! changes, and machine instructions, which valgrind's callgrind counts. Between the smallest and the largest machine no rule may
//! cost twice as much. `cargo bench -p quell-scx-rules --bench rules [-- PART OF A NAME]`.

use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use quell_model::topology::Cpu;
use quell_model::{CpuId, Topology};
use quell_scx::layout::{MAX_CPUS, NO_CPU, NO_SLOT, Shared};
use quell_scx_rules as _;

unsafe extern "C" {
    fn quell_wakes_up_times(shared: *const Shared, slot: u32, last: u32, cpus: *const u64, times: u64) -> u64;
    fn quell_has_sets(has: bool);
    fn quell_slot_waits(shared: *const Shared, slot: u32);
    fn quell_yields_times(shared: *const Shared, cpu: u32, times: u64) -> u64;
}

/// CPUs and workloads.
const SIZES: [(u32, u32); 3] = [(8, 4), (64, 64), (512, 1000)];
/// Of the last-level cache and the socket; cores have two.
const CACHE: u32 = 16;
const SOCKET: u32 = 256;
/// The workload that wakes up: latency-critical.
const OWN: u32 = 0;
/// Where the thread was.
const LAST: u32 = 2;
/// The CPU that is yielded.
const YIELDED: u32 = 1;
/// Rounds; the fastest counts.
const ROUNDS: usize = 15;
const TIMES: u64 = 20_000;
/// Under valgrind so often, and three times as often.
const FEW: u64 = 2_000;

/// A machine: each CPU's holder, and which slots have a thread that waits.
struct Case {
    name: &'static str,
    is_yield: bool,
    holder: fn(cpu: u32, cpus: u32, slots: u32) -> u32,
    waits: fn(slot: u32, slots: u32) -> bool,
}

fn best_effort(cpu: u32, _: u32, slots: u32) -> u32 {
    slots / 2 + cpu % (slots / 2)
}

const CASES: [Case; 8] = [
    Case {
        name: "wake-up, its last CPU is free",
        is_yield: false,
        holder: |cpu, cpus, slots| if cpu / 2 % 2 == 1 { NO_SLOT } else { best_effort(cpu, cpus, slots) },
        waits: |_, _| false,
    },
    Case {
        name: "wake-up, the last core is free",
        is_yield: false,
        holder: |cpu, cpus, slots| if cpu >= cpus - 2 { NO_SLOT } else { best_effort(cpu, cpus, slots) },
        waits: |_, _| false,
    },
    Case {
        name: "wake-up, half of each core is free",
        is_yield: false,
        holder: |cpu, cpus, slots| if cpu % 2 == 1 { NO_SLOT } else { best_effort(cpu, cpus, slots) },
        waits: |_, _| false,
    },
    Case { name: "wake-up, of best-effort work", is_yield: false, holder: best_effort, waits: |_, _| false },
    Case {
        name: "wake-up, nothing to be had",
        is_yield: false,
        holder: |cpu, cpus, slots| if cpu < 2 { OWN } else { best_effort(cpu, cpus, slots) },
        waits: |_, _| false,
    },
    Case {
        name: "yield, none waits",
        is_yield: true,
        holder: |cpu, cpus, slots| if cpu == YIELDED { NO_SLOT } else { best_effort(cpu, cpus, slots) },
        waits: |_, _| false,
    },
    Case {
        name: "yield, one waits",
        is_yield: true,
        holder: |cpu, cpus, slots| if cpu == YIELDED { NO_SLOT } else { best_effort(cpu, cpus, slots) },
        waits: |slot, slots| slot == slots - 1,
    },
    Case {
        name: "yield, all wait",
        is_yield: true,
        holder: |cpu, cpus, slots| if cpu == YIELDED { NO_SLOT } else { best_effort(cpu, cpus, slots) },
        waits: |_, _| true,
    },
];

fn topology(cpus: u32) -> Topology {
    let cpu = |id: u32| Cpu {
        id: CpuId(id),
        core: id / 2,
        llc: id / CACHE,
        node: 0,
        socket: id / SOCKET,
        capacity: Cpu::FULL,
    };
    Topology::new((0..cpus).map(cpu).collect()).expect("a topology")
}

impl Case {
    fn machine(&self, (cpus, slots): (u32, u32)) -> Box<Shared> {
        // SAFETY: all bytes zero are a value of this structure of atomic integers.
        let shared = unsafe { Box::new(std::mem::MaybeUninit::<Shared>::zeroed()).assume_init() };
        shared.nr_cpus.store(cpus, Relaxed);
        shared.nr_slots.store(slots, Relaxed);
        for (slot, state) in shared.workload[..slots as usize].iter().enumerate() {
            let lc = slot == OWN as usize || (slot as u32) < slots / 2;
            state.lc.store(lc.into(), Relaxed);
            state.guaranteed.store(2 * u32::from(lc), Relaxed);
            state.burst.store(2 * u32::from(lc), Relaxed);
            state.limit.store(u32::MAX, Relaxed);
            state.in_line.store(1, Relaxed);
            state.queued.store((self.waits)(slot as u32, slots).into(), Relaxed);
        }
        for (cpu, state) in shared.cpu.iter().enumerate() {
            let (cpu, is_there) = (cpu as u32, u32::from((cpu as u32) < cpus));
            state.holder.store(NO_SLOT, Relaxed);
            state.banned_for.store(u64::MAX, Relaxed);
            state.in_pool.store(is_there, Relaxed);
            state.online.store(is_there, Relaxed);
            state.sibling.iter().for_each(|sibling| sibling.store(NO_CPU, Relaxed));
            state.sibling[0].store(cpu ^ 1, Relaxed);
            if is_there == 1 {
                let holder = (self.holder)(cpu, cpus, slots);
                state.holder.store(holder, Relaxed);
                shared.workload.get(holder as usize).map(|state| state.held.fetch_add(1, Relaxed));
            }
        }
        shared.sets.store(1, Relaxed);
        shared.place_cpus(&topology(cpus));
        shared.sort();
        for slot in (0..slots).filter(|&slot| (self.waits)(slot, slots)) {
            // SAFETY: the pointer is to a value of the type that the function takes.
            unsafe { quell_slot_waits(&raw const *shared, slot) };
        }
        shared
    }

    fn run(&self, shared: &Shared, times: u64) -> u64 {
        let all = [u64::MAX; MAX_CPUS / 64];
        // SAFETY: both point to values of the types that the functions take.
        unsafe {
            quell_has_sets(shared.nr_cpus.load(Relaxed) > quell_scx::FEW_CPUS);
            match self.is_yield {
                true => quell_yields_times(shared, YIELDED, times),
                false => quell_wakes_up_times(shared, OWN, LAST, all.as_ptr(), times),
            }
        }
    }

    fn nanoseconds(&self, size: (u32, u32)) -> f64 {
        let shared = self.machine(size);
        self.run(&shared, TIMES);
        let rounds = (0..ROUNDS).map(|_| {
            let began = Instant::now();
            std::hint::black_box(self.run(&shared, TIMES));
            began.elapsed()
        });
        rounds.min().expect("a round").as_nanos() as f64 / TIMES as f64
    }

    /// None: there is no valgrind.
    fn instructions(&self, size: (u32, u32)) -> Option<f64> {
        let counted = |times| collected(self.name, size, times);
        Some((counted(3 * FEW)? - counted(FEW)?) as f64 / (2 * FEW) as f64)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, name, cpus, slots, times] = &args[..]
        && mode == "again"
    {
        let number = |text: &String| text.parse::<u32>().expect("a number");
        let case = CASES.iter().find(|case| case.name == *name).expect("a case");
        std::hint::black_box(case.run(&case.machine((number(cpus), number(slots))), number(times).into()));
        return ExitCode::SUCCESS;
    }
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    let sizes = SIZES.map(|(cpus, slots)| format!("{cpus} x {slots}"));
    println!("{:<36} {:>42} {:>42}", "CPUs x workloads", "ns", "instructions");
    println!("{:<36} {} {:>7} {} {:>7}", "", row(&sizes), "ratio", row(&sizes), "ratio");
    for case in CASES.iter().filter(|case| wanted.is_none_or(|part| case.name.contains(&part[..]))) {
        let ns = SIZES.map(|size| Some(case.nanoseconds(size)));
        println!("{:<36} {} {}", case.name, with_ratio(ns), with_ratio(SIZES.map(|size| case.instructions(size))));
    }
    ExitCode::SUCCESS
}

fn row(cells: &[String; 3]) -> String {
    format!("{:>10} {:>11} {:>11}", cells[0], cells[1], cells[2])
}

fn with_ratio(values: [Option<f64>; 3]) -> String {
    let cells = values.map(|value| value.map_or("-".to_owned(), |value| format!("{value:.0}")));
    let ratio = values[0].zip(values[2]).map_or("-".to_owned(), |(small, large)| format!("{:.2}", large / small));
    format!("{} {ratio:>7}", row(&cells))
}

/// Machine instructions of a run of this program that decides so often.
fn collected(name: &str, (cpus, slots): (u32, u32), times: u64) -> Option<u64> {
    let own = std::env::current_exe().ok()?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(own);
    valgrind.args(["again", name, &cpus.to_string(), &slots.to_string(), &times.to_string()]);
    let said = String::from_utf8_lossy(&valgrind.output().ok()?.stderr).into_owned();
    said.lines().find_map(|line| line.split_once("Collected :"))?.1.trim().parse().ok()
}
