//! Instructions that the agent's own work takes, its programs' and the kernel's for it, counted in the lab: what else runs on this
//! machine does not change them. Fails where one is above its bound.
//! `cargo bench -p quell-daemon --bench own_work [-- PART OF A NAME] [--functions]`.

mod guest;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use quell_guest::counts::{Counts, Side, Symbols, by_function};
use quell_guest::{Job, Lab, Lockstep, Machine, ToStderr};

use self::work::{Counted, WORK, Work};

/// Stands before the name of a work in the arguments of the guest's program.
const INSIDE: &str = "--inside";
/// Shows the functions that take most of it, and the system calls.
const FUNCTIONS: &str = "--functions";
const TOP: usize = 30;

const LIMIT: Duration = Duration::from_secs(900);
const LOCKSTEP: Lockstep = Lockstep { serial: true, mips: 500, quantum_ns: 4_000 };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [inside, name, ..] if inside == INSIDE => {
            let work = WORK.iter().find(|work| work.name == *name).expect("a work");
            guest::run(work, arguments.iter().any(|argument| argument == FUNCTIONS));
            return ExitCode::SUCCESS;
        }
        [process, threads, wakes] if process == guest::PROCESS => guest::be_a_process(threads, wakes),
        _ => {}
    }
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_named = |work: &&Work| named.is_empty() || named.iter().any(|name| work.name.contains(&name[..]));
    let functions = arguments.iter().any(|argument| argument == FUNCTIONS);
    let mut all_within = true;
    for work in WORK.iter().filter(is_named) {
        let spent = count(work, functions);
        let is_within = spent <= work.bound;
        all_within &= is_within;
        let verdict = if is_within { "within" } else { "ABOVE" };
        println!(
            "{:<22} {spent:>13} instructions {}, {verdict} {}; goal {}",
            work.name, work.unit, work.bound, work.goal
        );
    }
    if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Instructions of one unit of the work.
fn count(work: &Work, functions: bool) -> u64 {
    let own = std::env::current_exe().expect("this program");
    let mut command = vec![own.into_os_string(), INSIDE.into(), work.name.into()];
    command.extend(functions.then(|| OsString::from(FUNCTIONS)));
    let machine = Machine {
        counts: true,
        memory_mib: Some(work.memory_mib),
        settle_s: 2,
        kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
        ..Machine::measuring(work.cpus, LOCKSTEP, Vec::new())
    };
    let job = Job { timeout: Some(LIMIT), ..Job::new(command) };
    let output = Lab::new(&ToStderr).and_then(|lab| lab.output(&machine, &job)).expect("a guest");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.ending.status, 0, "{stderr}");
    let counts = Counts::parse(&output.counts).unwrap_or_else(|error| panic!("{error}\n{stderr}"));
    let is_counted = |cpu: usize| work.counted == Counted::AllCpus || cpu == guest::AGENTS_CPU;
    let on_counted = |by_cpu: &[u64]| -> u64 {
        by_cpu.iter().enumerate().filter(|(cpu, _)| is_counted(*cpu)).map(|(_, count)| count).sum()
    };
    if functions {
        let mut found = by_function(&counts, &Symbols::parse(&stdout));
        found.sort_by_key(|function| std::cmp::Reverse(on_counted(&function.instructions)));
        let is_call = |name: &str| name.starts_with("__x64_sys_");
        let shown = found.iter().enumerate().filter(|(at, function)| *at < TOP || is_call(&function.name));
        for (_, function) in shown {
            let name = if function.side == Side::Programs { "(programs)" } else { &function.name };
            let [spent, calls] =
                [&function.instructions, &function.calls].map(|by_cpu| on_counted(by_cpu) / work.units);
            println!("  {spent:>11} in {calls:>8} calls {:?} {name}", function.side);
        }
    }
    let all: u64 = counts.blocks.iter().map(|block| on_counted(&block.executions) * block.instructions).sum();
    all / work.units
}
