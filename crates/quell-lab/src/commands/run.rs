//! `quell-lab run`: a scene, simulated, as real threads or as programs, here or in a guest.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quell_command::{output, units};
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
    /// [default: those of the file; of programs all treatments]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    against: Vec<String>,
    /// Change the scene: a dotted key and its value, such as workload.server.weight=300
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The first seed [default: the scene's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs with seeds from the first on [default: as often as the scene says; of a figure and of programs in the lab 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Length of the measured part [default: the scene's; of programs in the lab 4s]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Nanos>,
    /// Give the results as JSON; to standard output without a file, which on sim alone can be given
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Run it with each of these values, and with all combinations if given several times
    #[arg(long, value_name = "KEY=VALUE,VALUE,…", help_heading = "On sim")]
    sweep: Vec<String>,
    /// Give the results as CSV, one line for each workload under each policy; to standard output without a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "On sim")]
    csv: Option<PathBuf>,
    /// Write a page with table, latency distributions and the course of time
    #[arg(long, value_name = "FILE", help_heading = "On sim")]
    html: Option<PathBuf>,
    /// Have the course of time (of the first repetition) in the JSON as well
    #[arg(long, requires = "json", help_heading = "On sim")]
    series: bool,
    /// Record the only run, for `quell-lab replay`: of one stack, once, without a sweep
    #[arg(long, value_name = "FILE", help_heading = "On sim")]
    record: Option<PathBuf>,
    /// A figure's shortened run of one seed: no intervals, and so no verdicts
    #[arg(long, help_heading = "Of a figure")]
    quick: bool,
    /// Keep what each part of a figure finds in this directory, and do not run again what is kept there
    #[arg(long, value_name = "DIR", help_heading = "Of a figure")]
    keep: Option<PathBuf>,
    /// CPUs of the load generators alone, as in 4 or 4-5, one each in turn; all else runs on the others
    #[arg(long, value_name = "CPUS", help_heading = "On threads and programs")]
    generators: Option<CpuSet>,
    /// Treat the scene in the ways of this file, which has `[[treatment]]`s as a figure has
    #[arg(long, value_name = "FILE", help_heading = "On threads and programs")]
    treatments: Option<PathBuf>,
    /// Numbers of CPUs of the guests; each, with each treatment and seed, is a boot, and kept
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "In lab")]
    cpus: Vec<u32>,
    /// CPUs and load so many times as fast: nearer to a real CPU, and so many times as dear
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "In lab")]
    speed: u32,
    /// Load generators run among the programs, on the same CPUs, not on CPUs of their own
    #[arg(long, help_heading = "In lab")]
    shared: bool,
    /// Kernel version, as in 6.18.15 [default: the best that can be had]
    #[arg(long, value_name = "VERSION", help_heading = "In lab")]
    kernel: Option<String>,
    /// Show what was measured before, and measure nothing
    #[arg(long, help_heading = "In lab")]
    cached: bool,
    /// Name the scenarios, scenes and treatments that come with Quell
    #[arg(long)]
    list: bool,
    /// Print the scene as it is, and run nothing
    #[arg(long)]
    print: bool,
    /// Print an annotated scenario, to begin one's own with
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
            bail!("'{}' is a scene of programs: add --on programs", file.display())
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
            ("--in lab", lab && sim, "threads and programs alone run in a guest: add --on threads or --on programs"),
            ("--sweep", !self.sweep.is_empty() && (!sim || is_figure), "on sim alone a scenario is swept"),
            ("--csv", self.csv.is_some() && (!sim || is_figure), "it is of scenarios on sim"),
            ("--html", self.html.is_some() && (!sim || is_figure), "it is of scenarios on sim"),
            ("--series", self.series && (!sim || is_figure), "it is of scenarios on sim"),
            ("--record", self.record.is_some() && (!sim || is_figure), "it is of scenarios on sim"),
            ("--quick", self.quick && !is_figure, "it is of figures"),
            ("--keep", self.keep.is_some() && !is_figure, "it is of figures"),
            (
                "--set",
                !self.set.is_empty() && (is_figure || compared),
                "it is a figure or a comparison, which stays as it is",
            ),
            ("--against", !self.against.is_empty() && is_figure, "a figure's claims are of all its treatments"),
            ("--generators", self.generators.is_some() && (self.on != On::Programs || lab), "it is of programs here"),
            (
                "--treatments",
                self.treatments.is_some() && (sim || lab || is_figure),
                "it is of threads and programs here",
            ),
            ("--cpus", !self.cpus.is_empty() && !compared, "it is of programs in the lab"),
            ("--speed", self.speed != 1 && !compared, "it is of programs in the lab"),
            ("--shared", self.shared && !compared, "it is of programs in the lab"),
            ("--cached", self.cached && !compared, "it is of programs in the lab"),
            ("--kernel", self.kernel.is_some() && !lab, "this machine has the kernel that it has: add --in lab"),
            ("--kernel", self.kernel.is_some() && is_figure, "a figure's claims are of the lab's first choice"),
            ("--duration", self.duration.is_some() && is_figure, "a figure is as long as it says"),
            (
                "--json=FILE",
                self.json_file().is_some() && (!sim || is_figure),
                "to a file on sim alone; use the shell's >",
            ),
            (
                "--seed",
                self.seed.is_some() && (is_figure || compared),
                "a figure or comparison has the seeds from 1 on",
            ),
        ];
        match rules.into_iter().find(|(_, is_useless, _)| *is_useless) {
            Some((option, _, why)) => bail!("{option}: {why}"),
            None => Ok(()),
        }
    }

    /// What a figure cannot be asked.
    fn refuse_of_figure(&self, figure: &Figure, judged: Option<Runner>) -> Result<()> {
        let has_programs = figure.programs || figure.scene.contains_key("program");
        match (self.on, self.place) {
            (On::Threads, Place::Lab) if has_programs => bail!("--on threads: this figure's scene is of programs"),
            (On::Programs, Place::Lab) if !has_programs => bail!("--on programs: this figure's scene is of threads"),
            (On::Programs, Place::Lab) if judged.is_none() => {
                bail!(
                    "--against, --set, --duration: in the lab a figure of programs is judged as it is; here it is played"
                )
            }
            _ => Ok(()),
        }
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
            bail!("--duration {seconds}: give whole seconds");
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
