//! `quell-lab count`: what a request costs in instructions, function by function, on a real kernel.

mod result;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_command::{output, units};
use quell_evidence::Treatment;
use quell_guest::counts::{Symbols, by_function};
use quell_guest::{Lab, ToStderr};
use quell_report::screen::Screen;
use quell_sim::scenario::Shipped;
use rayon::prelude::*;

use self::result::{Conditions, Count};
use crate::in_guest::boots::{Bench, Boot, MIPS};
use crate::in_guest::peers;

/// Count the instructions that a request takes: kernel, BPF and programs, by CPU and by function.
///
/// A scene of programs runs on a real kernel in a guest, in lock-step time, a boot a treatment. While its servers are loaded an
/// emulator's plugin counts how often each block of code is executed; the guest's symbols give the blocks their names, BPF
/// programs included. The same programs count the same to the digit, on every machine.
#[derive(Args)]
pub struct Arguments {
    /// The scene of programs (see `quell-lab run --list`)
    scene: String,
    /// The treatments; of two the difference is shown
    #[arg(
        long,
        visible_alias = "policies",
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "fifo-grouped,caladan"
    )]
    against: Vec<String>,
    /// Length of a round of lock-step time: the finer, the fewer instructions CPUs spin for each other's locks
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = round_ns)]
    rounds: u32,
    /// CPUs of the scene; the load generators have their own
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=62))]
    cpus: u32,
    /// CPUs and load this many times as fast as 125 million instructions a second
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    speed: u32,
    /// Length of the counted load, in whole seconds
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = seconds)]
    duration: u32,
    /// The seed of the load's schedule
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Functions that are shown
    #[arg(long, default_value_t = 25, value_name = "N")]
    top: usize,
    /// Kernel version, as in 6.18.15 [default: the best available]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Print all counts as JSON
    #[arg(long)]
    json: bool,
}

fn round_ns(text: &str) -> Result<u32, String> {
    let ns = units::positive_duration(text).ok().and_then(|time| u32::try_from(time.0).ok());
    ns.ok_or_else(|| "expected a time above zero, at most 4s, such as 1us".into())
}

fn seconds(text: &str) -> Result<u32, String> {
    match units::whole_seconds(text)? {
        0 => Err("expected at least a second".into()),
        seconds => Ok(seconds),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let scene = peers::scene(&arguments.scene)?;
    let treatments = peers::chosen(&arguments.against)?;
    let lab = Lab::new(&ToStderr)?;
    let bench = Bench::new(&lab, arguments.kernel.as_deref(), arguments.speed, arguments.duration)?;
    // A guest is one thread here, and its clock counts its own instructions: what runs beside it does not affect it.
    let counted = treatments.par_iter().map(|treatment| arguments.counted(&bench, scene, treatment));
    let counted = counted.collect::<Result<Vec<_>>>()?;
    let conditions = arguments.conditions(scene, bench.kernel_release());
    if arguments.json {
        output::json(conditions.with(counted))?;
    } else {
        writeln!(io::stdout().lock(), "{}", table::text(&conditions, &counted, arguments.top, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// What one boot counts.
    fn counted(&self, bench: &Bench, scene: &'static Shipped, treatment: &'static Treatment) -> Result<Count> {
        eprintln!("lab: counting {} in {}", treatment.name, scene.name);
        let boot = Boot { scene, treatment, cpus: self.cpus, seed: self.seed, shared: false };
        let (counts, found) = bench.counted(boot, self.rounds)?;
        if found.requests == 0 {
            bail!("{}: no request was answered while instructions were counted", treatment.name);
        }
        let functions = by_function(&counts, &Symbols::parse(&found.kallsyms));
        Ok(Count::new(treatment, self.cpus as usize, counts.cpus, found.requests, functions))
    }

    fn conditions(&self, scene: &Shipped, kernel: &str) -> Conditions {
        Conditions {
            scene: scene.name.to_owned(),
            kernel: kernel.to_owned(),
            cpus: self.cpus,
            million_instructions_per_s: MIPS * self.speed,
            round_ns: self.rounds,
            duration_s: self.duration,
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(words: &[&str]) -> Result<Arguments, clap::Error> {
        Cli::try_parse_from([&["count", "spin"], words].concat()).map(|cli| cli.arguments)
    }

    #[test]
    fn two_treatments_are_compared_in_rounds_of_a_microsecond() {
        let usual = parsed(&[]).unwrap();
        assert_eq!((usual.rounds, usual.duration), (1000, 2));
        let names: Vec<_> = peers::chosen(&usual.against).unwrap().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["fifo-grouped", "caladan"]);
        let asked = parsed(&["--policies", "fifo,caladan", "--rounds", "5us"]).unwrap();
        assert_eq!((asked.against, asked.rounds), (vec!["fifo".to_owned(), "caladan".to_owned()], 5000));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [["--rounds", "0"], ["--rounds", "1h"], ["--cpus", "0"], ["--speed", "0"], ["--duration", "0s"]] {
            assert!(parsed(&words).is_err(), "{words:?}");
        }
        assert!(parsed(&["--duration", "1500ms"]).is_err());
    }
}
