//! `quell-lab run`: a scene, simulated, as real threads or as programs, here or in a guest.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quell_command::output::{self, WrongCommandLine};
use quell_command::units;
use quell_evidence::Figure;
use quell_guest::Machine;
use quell_model::{CpuSet, Nanos};
use quell_report::screen::Screen;
use quell_sim::scenario::{SHIPPED, Scenario};

use super::paper::{self, Kept, Runner};
use crate::in_guest::peers::{self, Comparison};
use crate::in_guest::scene;
use crate::play::{Play, Report, table};
use crate::simulate::{self, Simulation};

/// Run a scene: simulated, as real threads, or as programs.
///
/// One file, the same random numbers, three ways: the simulator, in which the same file and seed give the same output, byte
/// for byte, on every machine; real threads under the kernel that runs here or in a guest; and programs, memcached or redis
/// under load beside antagonists. A figure's file is run with its treatments, and its claims are judged.
#[derive(Args)]
pub struct Arguments {
    /// A scenario's or a figure's file, or the name of a scenario or scene that comes with Quell (see --list)
    #[arg(required_unless_present_any = ["list", "example"])]
    scene: Option<PathBuf>,
    /// What runs it
    #[arg(long, value_enum, default_value_t = On::Sim)]
    on: On,
    /// Where threads or programs run
    #[arg(long = "in", value_enum, default_value_t = Place::Here)]
    place: Place,
    /// Only these policies, stacks or treatments: stacks by name, or policies joined by +, such as none,rkube+caladan
    /// [default: those of the file; for programs all treatments]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    against: Vec<String>,
    /// Change the scene: a dotted key and its value, such as workload.server.weight=300
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The first seed [default: the scene's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of runs, with seeds from the first on [default: the scene's; for figures and programs in the lab 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Length of the measured part [default: the scene's; for programs in the lab 4s]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Nanos>,
    /// Write the results as JSON, to standard output without a file; only --on sim takes a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Run it with each of these values, and with all combinations if given several times
    #[arg(long, value_name = "KEY=VALUE,VALUE,…", help_heading = "On sim")]
    sweep: Vec<String>,
    /// Write the results as CSV, one line for each workload under each policy; to standard output without a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "On sim")]
    csv: Option<PathBuf>,
    /// Write a page with table, latency distributions and time series
    #[arg(long, value_name = "FILE", help_heading = "On sim")]
    html: Option<PathBuf>,
    /// Include the time series (of the first repetition) in the JSON
    #[arg(long, requires = "json", help_heading = "On sim")]
    series: bool,
    /// Record the only run, for `quell-lab replay`: of one stack, once, without a sweep
    #[arg(long, value_name = "FILE", help_heading = "On sim")]
    record: Option<PathBuf>,
    /// A figure's shortened run of one seed: no intervals, and so no verdicts
    #[arg(long, help_heading = "For a figure")]
    quick: bool,
    /// Keep the results of each part of a figure in this directory, and do not run again what is kept there
    #[arg(long, value_name = "DIR", help_heading = "For a figure")]
    keep: Option<PathBuf>,
    /// CPUs reserved for the load generators, as in 4 or 4-5, one each in turn; all else runs on the others
    #[arg(long, value_name = "CPUS", help_heading = "On threads and programs")]
    generators: Option<CpuSet>,
    /// Run the scene under the `[[treatment]]`s of this file, in a figure's format
    #[arg(long, value_name = "FILE", help_heading = "On threads and programs")]
    treatments: Option<PathBuf>,
    /// CPU counts of the guests; each, with each treatment and seed, is a boot whose result is kept
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "In lab")]
    cpus: Vec<u32>,
    /// Run CPUs and load this many times as fast: nearer to a real CPU, and as many times as expensive
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "In lab")]
    speed: u32,
    /// Run load generators on the programs' CPUs, not on CPUs of their own
    #[arg(long, help_heading = "In lab")]
    shared: bool,
    /// Kernel version, as in 6.18.15 [default: the best available]
    #[arg(long, value_name = "VERSION", help_heading = "In lab")]
    kernel: Option<String>,
    /// Show earlier results and measure nothing
    #[arg(long, help_heading = "In lab")]
    cached: bool,
    /// List the scenarios, scenes and treatments that come with Quell
    #[arg(long)]
    list: bool,
    /// Print the scene and run nothing
    #[arg(long)]
    print: bool,
    /// Print an annotated scenario to start from
    #[arg(long)]
    example: bool,
}

/// What runs a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// The simulated machine
    Sim,
    /// Real threads, which do the scene's work
    Threads,
    /// Programs: a server is a memcached or redis under load, work without end an antagonist
    Programs,
}

/// Where threads and programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// This machine
    Here,
    /// A guest with a real kernel that has sched_ext, in lock-step time
    Lab,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if arguments.example {
        write!(out, "{}", SHIPPED[0].text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = arguments.scene.clone().filter(|_| !arguments.list) else {
        simulate::list(&mut out)?;
        writeln!(out)?;
        peers::list(&mut out)?;
        return Ok(ExitCode::SUCCESS);
    };
    if arguments.print {
        let text = crate::play::scenes::text(&file)?.0;
        Scenario::parse(&file, &text, &arguments.set)?;
        write!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    drop(out);
    let judged = arguments.judged(&file);
    arguments.refuse_what_does_nothing(judged.is_some())?;
    if let Some(figure) = paper::figure_in(&file)? {
        arguments.refuse_of_figure(&figure, judged)?;
    }
    if let Some(runner) = judged {
        return arguments.figure(&file, runner);
    }
    match (arguments.on, arguments.place) {
        (On::Sim, _) if crate::programs::scene(&file.to_string_lossy()).is_some() && !file.exists() => {
            let name = file.display();
            bail!(WrongCommandLine(format!("'{name}' is a scene of programs: add --on programs")))
        }
        (On::Sim, _) => simulate::run(&arguments.simulation(file)),
        (On::Threads | On::Programs, Place::Here) => arguments.show(&arguments.play(file).reports()?),
        (On::Threads, Place::Lab) => arguments.in_guest(arguments.play(file)),
        (On::Programs, Place::Lab) => peers::run(&arguments.comparison(&file.to_string_lossy())?),
    }
}

impl Arguments {
    /// Who runs a figure whose claims are judged. One that is changed, or whose programs run here, is played, and not judged.
    fn judged(&self, file: &Path) -> Option<Runner> {
        let is_changed = !self.against.is_empty() || !self.set.is_empty() || self.duration.is_some();
        let runner = match (self.on, self.place) {
            (On::Sim, _) => Runner::Sim,
            (On::Programs, Place::Here) => return None,
            (On::Threads, Place::Here) => Runner::Here,
            (_, Place::Lab) => Runner::Lab,
        };
        Some(runner).filter(|runner| (!is_changed || *runner == Runner::Sim) && paper::is_figure(file))
    }

    /// Options that would have no effect.
    fn refuse_what_does_nothing(&self, is_figure: bool) -> Result<()> {
        let (sim, lab) = (self.on == On::Sim, self.place == Place::Lab);
        let compared = self.on == On::Programs && lab && !is_figure;
        let rules = [
            ("--in lab", lab && sim, "only threads and programs run in a guest: add --on threads or --on programs"),
            ("--sweep", !self.sweep.is_empty() && (!sim || is_figure), "it applies only to scenarios on sim"),
            ("--csv", self.csv.is_some() && (!sim || is_figure), "it applies only to scenarios on sim"),
            ("--html", self.html.is_some() && (!sim || is_figure), "it applies only to scenarios on sim"),
            ("--series", self.series && (!sim || is_figure), "it applies only to scenarios on sim"),
            ("--record", self.record.is_some() && (!sim || is_figure), "it applies only to scenarios on sim"),
            ("--quick", self.quick && !is_figure, "it applies only to figures"),
            ("--keep", self.keep.is_some() && !is_figure, "it applies only to figures"),
            ("--set", !self.set.is_empty() && (is_figure || compared), "a figure or a comparison cannot be changed"),
            ("--against", !self.against.is_empty() && is_figure, "a figure's claims compare all its treatments"),
            (
                "--generators",
                self.generators.is_some() && (self.on != On::Programs || lab),
                "it applies only to programs on this machine",
            ),
            (
                "--treatments",
                self.treatments.is_some() && (sim || lab || is_figure),
                "it applies only to threads and programs on this machine",
            ),
            ("--cpus", !self.cpus.is_empty() && !compared, "it applies only to programs in the lab"),
            ("--speed", self.speed != 1 && !compared, "it applies only to programs in the lab"),
            ("--shared", self.shared && !compared, "it applies only to programs in the lab"),
            ("--cached", self.cached && !compared, "it applies only to programs in the lab"),
            ("--kernel", self.kernel.is_some() && !lab, "the kernel of this machine cannot be chosen: add --in lab"),
            ("--kernel", self.kernel.is_some() && is_figure, "a figure runs on the lab's default kernel"),
            ("--duration", self.duration.is_some() && is_figure, "a figure's length is fixed in its file"),
            (
                "--json=FILE",
                self.json_file().is_some() && (!sim || is_figure),
                "only --on sim writes a file; redirect the output with >",
            ),
            (
                "--seed",
                self.seed.is_some() && (is_figure || compared),
                "a figure or comparison uses the seeds from 1 on",
            ),
        ];
        match rules.into_iter().find(|(_, is_useless, _)| *is_useless) {
            Some((option, _, why)) => bail!(WrongCommandLine(format!("{option}: {why}"))),
            None => Ok(()),
        }
    }

    /// What a figure cannot be asked.
    fn refuse_of_figure(&self, figure: &Figure, judged: Option<Runner>) -> Result<()> {
        let has_programs = figure.programs || figure.scene.contains_key("program");
        let wrong = match (self.on, self.place) {
            (On::Threads, Place::Lab) if has_programs => {
                "--on threads: this figure's scene runs programs: give --on programs"
            }
            (On::Programs, Place::Lab) if !has_programs => {
                "--on programs: this figure's scene runs threads: give --on threads"
            }
            (On::Programs, Place::Lab) if judged.is_none() => {
                "--against, --set, --duration: --in lab judges a figure of programs as it is; --in here runs a changed one"
            }
            _ => return Ok(()),
        };
        bail!(WrongCommandLine(wrong.to_owned()))
    }

    fn figure(&self, file: &Path, runner: Runner) -> Result<ExitCode> {
        let kept = Kept::new(self.keep.as_deref(), self.seeds.unwrap_or(paper::SEEDS))?;
        paper::run_figure(file, runner, self.quick, &kept, self.json.is_some())
    }

    fn simulation(self, scenario: PathBuf) -> Simulation {
        Simulation {
            set: self.changes(),
            scenario,
            against: self.against,
            sweep: self.sweep,
            json: self.json,
            csv: self.csv,
            html: self.html,
            series: self.series,
            record: self.record,
        }
    }

    /// The changes of the command line, seeds and duration included.
    fn changes(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        let seeds = self.seeds.map(|seeds| format!("repetitions={seeds}"));
        let duration = self.duration.map(|time| format!("duration={}ns", time.0));
        self.set.iter().cloned().chain(seed).chain(seeds).chain(duration).collect()
    }

    fn play(&self, scene: PathBuf) -> Play {
        Play {
            scene,
            policies: self.against.clone(),
            set: self.changes(),
            programs: self.on == On::Programs,
            generators: self.generators,
            treatments: self.treatments.clone(),
            ..Play::default()
        }
    }

    /// One boot that plays it.
    fn in_guest(&self, play: Play) -> Result<ExitCode> {
        let machine = Machine { cpus: play.cpus()?, kernel: self.kernel.clone(), ..Machine::default() };
        let treatments = play.treatments()?;
        self.show(&scene::played(machine, play, &treatments)?)
    }

    fn comparison(&self, scene: &str) -> Result<Comparison> {
        let seconds = self.duration.unwrap_or(Nanos::from_secs(4));
        if !seconds.0.is_multiple_of(1_000_000_000) {
            bail!(WrongCommandLine(format!("--duration {seconds}: give whole seconds")));
        }
        Ok(Comparison {
            scene: peers::scene(scene)?,
            against: self.against.clone(),
            cpus: if self.cpus.is_empty() { vec![2, 4] } else { self.cpus.clone() },
            seeds: self.seeds.unwrap_or(5),
            seconds: u32::try_from(seconds.0 / 1_000_000_000).context("--duration: that is too long")?,
            speed: self.speed,
            shared: self.shared,
            kernel: self.kernel.clone(),
            cached: self.cached,
            bars: false,
            json: self.json.is_some(),
        })
    }

    /// The file for JSON, where it does not go to standard output.
    fn json_file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|path| path.as_os_str() != "-")
    }

    fn show(&self, rows: &[Report]) -> Result<ExitCode> {
        let mut out = io::stdout().lock();
        if self.json.is_some() {
            writeln!(out, "{}", serde_json::to_string_pretty(&output::stamped(serde_json::json!({ "rows": rows })))?)?;
        } else {
            writeln!(out, "{}", table::of(rows).fit(&Screen::here()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
