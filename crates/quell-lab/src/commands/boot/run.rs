//! `quell-lab boot run`: one command in the lab.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use quell_guest::{Accelerator, Clock, Input, Job, Lab, Lockstep, Machine, Root, ToStderr, Topology};
use quell_model::Nanos;

use super::shell;
use quell_command::units;

/// Run a command on a kernel with sched_ext; its output and exit status come back
///
/// It reads what is piped in or typed here; in lock-step its input is empty.
/// Exit status: the command's; 124 after a time-out, 125 if the lab failed, 127 if there is no such command.
#[derive(Args)]
pub struct Arguments {
    /// Virtual CPUs [default: 4, or as many as --topology makes]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Sockets, cores a socket and threads a core, as in 2,4,2
    #[arg(long, value_name = "S,C,T")]
    topology: Option<Topology>,
    /// Guest memory in MiB, or as 512M, 2G [default: what the files need, 1G at least]
    #[arg(long, value_name = "SIZE", value_parser = mebibytes, allow_negative_numbers = true)]
    mem: Option<u64>,
    /// Kernel version, as in 6.18.15 [default: the best available]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Time passes with the guest's instructions; `serial`: two runs are identical
    #[arg(long, value_name = "HOW", require_equals = true, num_args = 0..=1, default_missing_value = "parallel")]
    lockstep: Option<How>,
    /// Lock-step: millions of instructions a second of guest time
    #[arg(long, value_name = "M", default_value_t = Lockstep::default().mips, requires = "lockstep")]
    mips: u32,
    /// Lock-step: length of a round, at whose end timers and interrupts act, such as 20us
    #[arg(long, value_name = "TIME", default_value = "10us", requires = "lockstep", value_parser = quantum, allow_negative_numbers = true)]
    quantum: u32,
    /// Guest time to wait before the command, whole seconds [default: 20s in lock-step, else 0]
    #[arg(long, value_name = "TIME", value_parser = units::whole_seconds, allow_negative_numbers = true)]
    settle: Option<u32>,
    /// Put the program, what it loads and these files into memory, and nothing else of the host
    #[arg(long, value_name = "FILE", num_args = 0..)]
    pack: Option<Vec<PathBuf>>,
    /// Set a variable in the command's environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(OsString, OsString)>,
    /// Further kernel parameters
    #[arg(long, value_name = "WORDS")]
    append: Vec<String>,
    /// Give up after this time
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    timeout: Option<Nanos>,
    /// Use the host's virtualisation instead of emulation
    #[arg(long, conflicts_with = "lockstep")]
    kvm: bool,
    /// Run on this machine itself, if its kernel has sched_ext
    #[arg(long, conflicts_with_all = ["kvm", "lockstep", "pack"])]
    native: bool,
    /// Show the guest's console
    #[arg(long)]
    console: bool,
    /// Show the lock-step plugin's counters and the wall-clock time at the end
    #[arg(long)]
    stats: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// The CPUs of a round run at the same time: faster, the last digits differ from run to run
    Parallel,
    /// The CPUs of a round run one after the other: two runs are identical
    Serial,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut job = Job::new(arguments.command.iter().cloned());
    job.environment.clone_from(&arguments.env);
    job.timeout = arguments.timeout.map(Duration::from);
    job.input = if arguments.lockstep.is_some() { Input::Nothing } else { shell::stdin() };
    let ending = if arguments.native {
        quell_guest::native(&job, Path::new("/sys"))?
    } else {
        let mut lab = Lab::new(&ToStderr)?;
        lab.show_console = arguments.console;
        lab.statistics = arguments.stats;
        lab.run(&machine(arguments), &job, &mut io::stdout(), &mut io::stderr())?
    };
    if arguments.stats {
        eprintln!("lab: {:.1} s wall-clock time", ending.wall.as_secs_f64());
    }
    Ok(ExitCode::from(ending.status))
}

fn machine(arguments: &Arguments) -> Machine {
    let lockstep = |how| Lockstep { serial: how == How::Serial, mips: arguments.mips, quantum_ns: arguments.quantum };
    let default = Machine::default();
    Machine {
        nodes: 1,
        cpus: arguments.cpus.or(arguments.topology.map(|topology| topology.cpus())).unwrap_or(default.cpus),
        topology: arguments.topology,
        memory_mib: arguments.mem,
        kernel: arguments.kernel.clone(),
        clock: arguments.lockstep.map_or(Clock::Free, |how| Clock::Lockstep(lockstep(how))),
        root: arguments.pack.clone().map_or(Root::Host, Root::Packed),
        accelerator: if arguments.kvm { Accelerator::Kvm } else { Accelerator::Emulation },
        kernel_arguments: arguments.append.clone(),
        counts: false,
        settle_s: arguments.settle.unwrap_or(if arguments.lockstep.is_some() { Machine::LOCKSTEP_SETTLE_S } else { 0 }),
    }
}

fn mebibytes(text: &str) -> Result<u64, String> {
    let number = text.chars().all(|digit| digit.is_ascii_digit());
    let bytes = units::size(&if number { format!("{text}MiB") } else { text.to_owned() });
    match bytes.map(|bytes| bytes >> 20) {
        Ok(mebibytes) if mebibytes > 0 => Ok(mebibytes),
        _ => Err("expected a size of at least 1 MiB, such as 512M or 2G; a number alone is MiB".into()),
    }
}

fn quantum(text: &str) -> Result<u32, String> {
    let ns = units::positive_duration(text).ok().and_then(|time| u32::try_from(time.0).ok());
    ns.ok_or_else(|| "expected a time above zero, at most 4s, such as 20us; a number alone is seconds".into())
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(letter) || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!("{name:?} is not a variable name"));
    }
    Ok((name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(words: &[&str]) -> Result<Arguments, clap::Error> {
        Cli::try_parse_from([&["run"], words].concat()).map(|cli| cli.arguments)
    }

    #[test]
    fn options_make_a_machine() {
        let plain = machine(&parsed(&["--", "true"]).unwrap());
        assert_eq!((plain.cpus, plain.clock, plain.root, plain.settle_s), (4, Clock::Free, Root::Host, 0));
        let words =
            ["--topology", "1,2,2", "--lockstep=serial", "--mips", "125", "--pack", "/a", "/b", "--", "sh", "-c"];
        let measuring = machine(&parsed(&words).unwrap());
        assert_eq!(measuring.cpus, 4);
        assert_eq!(measuring.clock, Clock::Lockstep(Lockstep { serial: true, mips: 125, quantum_ns: 10_000 }));
        assert_eq!(measuring.root, Root::Packed(vec!["/a".into(), "/b".into()]));
        assert_eq!(measuring.settle_s, 20);
        let alone = machine(&parsed(&["--pack", "--lockstep", "--settle", "0", "--", "true"]).unwrap());
        assert_eq!((alone.root, alone.settle_s), (Root::Packed(Vec::new()), 0));
    }

    #[test]
    fn times_have_units_or_the_usual_one() {
        let with = |words: &[&str]| parsed(&[words, &["--", "true"]].concat());
        let timeout = |text| with(&["--timeout", text]).map(|arguments| arguments.timeout);
        assert_eq!(timeout("2m").unwrap(), Some(Nanos::from_secs(120)));
        assert_eq!(timeout("900").unwrap(), Some(Nanos::from_secs(900)));
        assert_eq!(["20us", "1ms", "1"].map(|text| quantum(text).unwrap()), [20_000, 1_000_000, 1_000_000_000]);
        let default = with(&["--lockstep"]).unwrap().quantum;
        assert_eq!(default, Lockstep::default().quantum_ns);
        assert_eq!(["3", "3s", "1m"].map(|text| units::whole_seconds(text).unwrap()), [3, 3, 60]);
        for words in [["--timeout", "0"], ["--timeout", "soon"], ["--settle", "1.5s"], ["--settle", "-1"]] {
            assert!(with(&words).is_err(), "{words:?}");
        }
        assert!(["0", "5s", "x"].iter().all(|text| quantum(text).is_err()));
    }

    #[test]
    fn bad_options_are_refused() {
        for words in [
            &["true"][..],
            &["--mem", "lots", "--", "true"],
            &["--topology", "2,2", "--", "true"],
            &["--lockstep=quick", "--", "true"],
            &["--env", "1x=2", "--", "true"],
            &["--kvm", "--lockstep", "--", "true"],
            &["--mips", "5", "--", "true"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn sizes_are_mebibytes() {
        assert_eq!(["64", "512M", "2G", "1GiB"].map(|text| mebibytes(text).unwrap()), [64, 512, 2048, 1024]);
        assert!(["0", "1k", "-1M", "G"].iter().all(|text| mebibytes(text).is_err()));
    }
}
