//! Machine instructions a kernel event, which other work on the machine does not change, as wall time does: what valgrind's
//! callgrind counts while a busy machine is simulated for a long and for a short time; the difference leaves out what it takes
//! to build the machine. `cargo bench -p quell-sim --bench instructions [-- PART OF A NAME]`.

mod busy;

use std::process::{Command, ExitCode};

use quell_model::Nanos;

/// The simulated machine's events, in the long run about this many.
const EVENTS: u64 = 60_000;
/// In this time the events are counted that show how long that is.
const LOOK: Nanos = Nanos::from_millis(20);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, name, span] = &args[..]
        && mode == "simulate"
    {
        let machine = busy::all().into_iter().find(|machine| machine.name == *name).expect("a machine");
        println!("{}", machine.simulate(Nanos(span.parse().expect("ns"))));
        return ExitCode::SUCCESS;
    }
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    for machine in busy::all().iter().filter(|machine| wanted.is_none_or(|part| machine.name.contains(&part[..]))) {
        let long = Nanos(LOOK.0 * EVENTS / machine.simulate(LOOK).max(1));
        let counted = [long, Nanos(long.0 / 3)].map(|span| counted(&machine.name, span));
        let [Some((many, most)), Some((few, least))] = counted else {
            eprintln!("valgrind counts nothing here: install it (Debian's package is valgrind)");
            return ExitCode::FAILURE;
        };
        let each = (most - least) as f64 / (many - few) as f64;
        println!("{:<42} {each:>8.0} instructions an event ({} events)", machine.name, many - few);
    }
    ExitCode::SUCCESS
}

/// Kernel events and machine instructions of a simulation of this long.
fn counted(name: &str, span: Nanos) -> Option<(u64, u64)> {
    let own = std::env::current_exe().ok()?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(own);
    let output = valgrind.args(["simulate", name, &span.0.to_string()]).output().ok()?;
    let events = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let instructions = said.lines().find_map(|line| line.split_once("Collected :"))?.1.trim().parse().ok()?;
    Some((events, instructions))
}
