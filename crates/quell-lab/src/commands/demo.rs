//! `quell-lab demo`: the phases of `quell demo` in a guest, in lock-step time.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_report::screen::Screen;

use crate::in_guest::peers::{self, Comparison};

/// The phases of `quell demo`, and Quell's own scheduler; names of treatments.
const PHASES: [&str; 7] = ["alone", "equal", "idle", "fifo", "guard", "rkube", "caladan"];
/// The scene: as in `quell demo`, two spinning threads a CPU beside memcached.
const SCENE: &str = "spin";
/// Length of each phase's load.
const SECONDS: u32 = 4;
/// The last line: what comes next.
const YOURS: &str = "on this machine: `quell demo`; your own service: `quell protect NAME`";

/// Show what Quell does, equally on every machine: the phases of `quell demo` and caladan on a real kernel in a guest.
///
/// Time there counts the guest's own instructions: what else this machine does changes nothing, and the same program finds the same
/// figures again. Each phase is a boot. What was measured is kept: an interrupted demo goes on where it was. It is `run spin --on
/// programs --in lab` with some of its treatments.
#[derive(Args)]
pub struct Arguments {
    /// CPUs of the guest
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=64))]
    cpus: u32,
    /// How often each phase is measured, each with another schedule of requests
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Show what was measured before, and measure nothing
    #[arg(long)]
    cached: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let status = peers::run(&arguments.comparison()?)?;
    if !arguments.json {
        writeln!(io::stdout().lock(), "{}", Screen::here().wrap(YOURS))?;
    }
    Ok(status)
}

impl Arguments {
    fn comparison(&self) -> Result<Comparison> {
        Ok(Comparison {
            scene: peers::scene(SCENE)?,
            against: PHASES.map(str::to_owned).to_vec(),
            cpus: vec![self.cpus],
            seeds: self.seeds,
            seconds: SECONDS,
            speed: 1,
            shared: false,
            kernel: None,
            cached: self.cached,
            bars: !self.json,
            json: self.json,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs;

    #[test]
    fn each_phase_is_a_treatment_in_the_tables_order() {
        let arguments = Arguments { cpus: 2, seeds: 1, cached: true, json: false };
        let asked = arguments.comparison().unwrap().against;
        let known = programs::TREATMENTS.iter().map(|treatment| &treatment.name);
        assert_eq!(known.filter(|name| asked.contains(name)).collect::<Vec<_>>(), asked.iter().collect::<Vec<_>>());
    }
}
