//! A scene as real threads (`quell play`): in the lab, or on this machine.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use quell_evidence::{Cell, Switching, Treatment};
use quell_guest::schedulers;
use quell_guest::{Clock, Job, Lab, Lockstep, Machine, Root, ToStderr};
use quell_model::{CpuId, CpuSet};
use quell_play::Counted;
use serde::Deserialize;

use crate::commands::play::scenes;
use crate::commands::programs::servers;
use crate::commands::reproduce::trial::Trial;

/// A request takes about a quarter of a millisecond at this speed; the quantum is a fifteenth of that.
const PROGRAMS: Lockstep = Lockstep { serial: true, mips: 125, quantum_ns: 20_000 };

/// What `quell play --json` prints.
#[derive(Deserialize)]
struct Printed {
    rows: Vec<Played>,
}

#[derive(Deserialize)]
struct Played {
    stack: String,
    workload: String,
    done: u64,
    measured_ns: u64,
    cpus: f64,
    waiting: f64,
    mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    latencies: Vec<(u64, u64)>,
    late_p99_ns: Option<u64>,
    pause_ns: Option<u64>,
    #[serde(default)]
    counted: Option<Counted>,
}

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
    // The guest has a /tmp of its own: the file goes into its memory.
    let file = file.canonicalize().with_context(|| format!("find {}", file.display()))?;
    let quell = std::env::current_exe().context("find this program")?;
    let words = [quell.as_os_str(), "play".as_ref(), file.as_os_str(), "--json".as_ref(), "--seed".as_ref()];
    let seed = seed.to_string();
    let changes = changes(set);
    let changes = changes.iter().map(AsRef::as_ref);
    let job = Job::new(words.into_iter().chain([seed.as_ref()]).chain(changes).map(ToOwned::to_owned));
    let lab = Lab::new(&ToStderr)?;
    let programs = treatments.iter().filter_map(|treatment| treatment.sched_ext.first());
    let programs = programs.map(|name| schedulers::program(&lab.cache, name, lab.progress));
    let files = programs.chain([Ok(file.clone())]).collect::<Result<_, _>>()?;
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
    cells(&out)
}

/// The same with programs; a quick run is half a second of load after as much warm-up. Load generators have CPUs of their own
/// beside the scene's, `generator_cpus` of them, which nothing else runs on; or none.
pub fn programs_in_guest(file: &Path, cpus: u32, generator_cpus: u32, trial: Trial) -> Result<Vec<Cell>> {
    let file = file.canonicalize().with_context(|| format!("find {}", file.display()))?;
    let quell = std::env::current_exe().context("find this program")?;
    let words = [quell.as_os_str(), "play".as_ref(), file.as_os_str(), "--programs".as_ref(), "--json".as_ref()];
    let mut options = vec!["--seed".to_owned(), trial.seed.to_string()];
    if trial.quick {
        options.extend(["--duration", "500ms", "--set", "warm_up=\"500ms\""].map(str::to_owned));
    }
    let mut machine = Machine::measuring(cpus + generator_cpus, PROGRAMS, Vec::new());
    if generator_cpus > 0 {
        let own: CpuSet = (cpus..cpus + generator_cpus).map(CpuId).collect();
        options.push(format!("--generators={own}"));
        machine.kernel_arguments = vec![format!("isolcpus=domain,{own}")];
    }
    let mut job = Job::new(words.into_iter().map(ToOwned::to_owned).chain(options.into_iter().map(Into::into)));
    job.directory = "/".into();
    let programs = servers(&scenes::text(&file)?.0)?;
    machine.root = Root::Packed([file].into_iter().chain(programs).collect());
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
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.arg("play").arg(file).args(["--json", "--seed", &seed.to_string()]).args(changes(set)).stdin(Stdio::null());
    let done = command.stderr(Stdio::inherit()).output().context("play the scene")?;
    if !done.status.success() {
        bail!("the scene was not played: {}", done.status);
    }
    cells(&done.stdout)
}

fn switching(counted: Counted) -> Switching {
    let rate = |count: u64| count as f64 / counted.at.as_secs_f64().max(1e-9);
    Switching {
        sleeps: rate(counted.sleeps),
        preemptions: rate(counted.preemptions),
        migrations: rate(counted.migrations),
    }
}

fn changes(set: &[String]) -> Vec<String> {
    set.iter().map(|change| format!("--set={change}")).collect()
}

/// The results in what `quell play --json` printed.
pub fn cells(printed: &[u8]) -> Result<Vec<Cell>> {
    let Printed { rows } = serde_json::from_slice(printed).context("read what was played")?;
    let micros = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let cell = |row: Played| Cell {
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
    };
    Ok(rows.into_iter().map(cell).collect())
}
