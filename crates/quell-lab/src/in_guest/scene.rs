//! A scene as real threads (`quell-lab run --on threads`): in the lab, or on this machine.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use quell_command::request::{self, Asked, Request};
use quell_evidence::{Cell, Switching, Treatment};
use quell_guest::schedulers;
use quell_guest::{Clock, Job, Lab, Lockstep, Machine, Root, ToStderr};
use quell_model::{CpuId, CpuSet, Nanos};
use quell_play::Counted;

use crate::play::{Play, Report, scenes};
use crate::programs::servers;

/// A request takes about a quarter of a millisecond at this speed; the quantum is a fifteenth of that.
const PROGRAMS: Lockstep = Lockstep { serial: true, mips: 125, quantum_ns: 20_000 };

/// On a real kernel, one boot for all stacks or treatments, after these changes of the scene.
pub fn in_guest(file: &Path, cpus: u32, seed: u64, treatments: &[Treatment], set: &[String]) -> Result<Vec<Cell>> {
    in_guest_of(Machine { cpus, ..Machine::default() }, file, seed, treatments, set)
}

/// The same on a machine of this shape and kernel.
pub fn in_guest_of(
    shape: Machine,
    file: &Path,
    seed: u64,
    treatments: &[Treatment],
    set: &[String],
) -> Result<Vec<Cell>> {
    let play = Play { scene: file.to_owned(), seed: Some(seed), set: set.to_vec(), ..Play::default() };
    Ok(played(shape, play, treatments)?.into_iter().map(cell).collect())
}

/// What came of a scene on a machine of this shape and kernel, where schedulers of these treatments are there.
pub fn played(shape: Machine, mut play: Play, treatments: &[Treatment]) -> Result<Vec<Report>> {
    let lab = Lab::new(&ToStderr)?;
    let programs = treatments.iter().filter_map(|treatment| treatment.sched_ext.first());
    let programs = programs.map(|name| schedulers::program(&lab.cache, name, lab.progress));
    let mut files = programs.collect::<Result<Vec<_>, _>>()?;
    if play.scene.exists() {
        // The guest has a /tmp of its own: the file goes into its memory.
        play.scene = play.scene.canonicalize().with_context(|| format!("find {}", play.scene.display()))?;
        files.push(play.scene.clone());
    }
    let job = job(&play, &mut files)?;
    let machine = Machine {
        clock: Clock::Lockstep(Lockstep::default()),
        root: Root::Packed(files),
        settle_s: Machine::LOCKSTEP_SETTLE_S,
        ..shape
    };
    let mut out = Vec::new();
    let ending = lab.run(&machine, &job, &mut out, &mut io::stderr())?;
    if ending.status != 0 {
        bail!("the scene was not played: exit status {} in the guest", ending.status);
    }
    request::read::<Play>(&out)
}

/// The job that plays a scene in a guest, which has these files and then all that it needs.
pub fn job(play: &Play, files: &mut Vec<PathBuf>) -> Result<Job> {
    job_of(play, play, files)
}

/// The job that answers this request, which plays a scene.
pub fn job_of(request: &impl Request, play: &Play, files: &mut Vec<PathBuf>) -> Result<Job> {
    let (words, request) = request::in_a_shell(request)?;
    files.push(request::own_file()?);
    if play.has_agent()? {
        files.push(crate::product::file()?);
    }
    let mut job = Job::new(words);
    job.environment.push(request);
    Ok(job)
}

/// The same with programs; a quick run is half a second of load after as much warm-up. Load generators have CPUs of their own
/// beside the scene's, `generator_cpus` of them, which nothing else runs on; or none.
pub fn programs_in_guest(file: &Path, cpus: u32, generator_cpus: u32, seed: u64, quick: bool) -> Result<Vec<Cell>> {
    let file = file.canonicalize().with_context(|| format!("find {}", file.display()))?;
    let mut play = Play { scene: file.clone(), programs: true, seed: Some(seed), ..Play::default() };
    if quick {
        play.duration = Some(Nanos::from_millis(500));
        play.set.push("warm_up=\"500ms\"".into());
    }
    let mut machine = Machine::measuring(cpus + generator_cpus, PROGRAMS, Vec::new());
    if generator_cpus > 0 {
        let own: CpuSet = (cpus..cpus + generator_cpus).map(CpuId).collect();
        machine.kernel_arguments = vec![format!("isolcpus=domain,{own}")];
        play.generators = Some(own);
    }
    let mut files = servers(&scenes::text(&file)?.0)?;
    files.push(file);
    let mut job = job(&play, &mut files)?;
    job.directory = "/".into();
    machine.root = Root::Packed(files);
    let output = Lab::new(&ToStderr)?.output(&machine, &job)?;
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("{}", said.trim());
    if output.ending.status != 0 {
        bail!("the scene was not played: exit status {} in the guest: {}", output.ending.status, said.trim());
    }
    cells(&output.stdout)
}

/// On this machine.
pub fn here(file: &Path, seed: u64, set: &[String]) -> Result<Vec<Cell>> {
    let play = Play { scene: file.to_owned(), seed: Some(seed), set: set.to_vec(), ..Play::default() };
    let asked = Asked::start(&play, |command| command.spawn().context("play the scene"))?;
    Ok(asked.answer()?.into_iter().map(cell).collect())
}

fn switching(counted: Counted) -> Switching {
    let rate = |count: u64| count as f64 / counted.at.as_secs_f64().max(1e-9);
    Switching {
        sleeps: rate(counted.sleeps),
        preemptions: rate(counted.preemptions),
        migrations: rate(counted.migrations),
    }
}

/// The results in what a process that played printed.
pub fn cells(printed: &[u8]) -> Result<Vec<Cell>> {
    Ok(request::read::<Play>(printed)?.into_iter().map(cell).collect())
}

fn cell(row: Report) -> Cell {
    let micros = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    Cell {
        policy: row.stack,
        workload: row.workload,
        p50: micros(row.p50_ns),
        p99: micros(row.p99_ns),
        p999: micros(row.p999_ns),
        mean: row.mean_ns.map(|ns| ns / 1e3),
        rate: row.done as f64 * 1e9 / row.measured_ns.max(1) as f64,
        cpus: row.cpus,
        waiting: row.waiting,
        latencies: row.latencies,
        late: micros(row.late_p99_ns),
        pause: micros(row.pause_ns),
        switching: row.counted.map(switching),
    }
}
