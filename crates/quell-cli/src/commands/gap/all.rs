//! `quell gap` without workloads: which services of the machine lost CPU time, to what, and what to do about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use quell_gap::services::{Services, watch};
use quell_gap::{GapError, Machine, Method};
use quell_linux::Roots;
use quell_linux::procfs::ProcFs;
use quell_linux::target::{Asker, Miss, Processes, resolve};
use quell_model::Nanos;
use quell_report::screen::Screen;
use serde::Serialize;

use super::managed;
use super::services::text;
use crate::commands::agent_socket::AgentSocket;
use crate::commands::protect::leased;
use crate::commands::protect::target::Subject;
use quell_command::{output, progress};

/// How long to watch, if nothing else is said.
pub const LENGTH: Nanos = Nanos::from_secs(5);
/// Shorter says nothing.
const SHORTEST: Nanos = Nanos::from_millis(100);
/// A wait without a word is at most this long.
const A_MOMENT: Nanos = Nanos::from_secs(2);

/// What is asked for.
pub struct Question<'a> {
    /// These services alone; all, if there are none.
    pub targets: &'a [String],
    pub length: Nanos,
    pub method: Method,
    pub watch: bool,
    pub json: bool,
    /// Asked for workloads' names.
    pub agent: &'a AgentSocket,
}

/// Runs the command.
pub fn run(question: &Question<'_>, stop: &AtomicBool) -> Result<ExitCode> {
    if question.length < SHORTEST {
        bail!("{} to watch: watch for {SHORTEST} at least, as with --for 5s", question.length);
    }
    if question.method == Method::Both {
        bail!("--method both compares the two for a workload that is named: add --workload NAME=WHERE,cpus=N");
    }
    let machine = Machine::here()?;
    let mut reports = 0;
    loop {
        let processes = Processes::read(&mut ProcFs::open(&machine.proc)?)?;
        let wanted = targets(question, &processes)?;
        let bar = if question.length > A_MOMENT && !(question.watch && reports > 0) {
            progress::of_time(question.length, "watching all services")
        } else {
            indicatif::ProgressBar::hidden()
        };
        let report = watch(question.length, question.method, &machine, &processes, &mut |over| {
            bar.set_position(over.0 / 1_000_000);
            !stop.load(Ordering::Relaxed)
        });
        bar.finish_and_clear();
        match report {
            Ok(mut report) => {
                only(&mut report, &wanted);
                print(&report, question, &processes)?;
            }
            Err(GapError::Interrupted) if reports > 0 => break,
            Err(GapError::Interrupted) => {
                eprintln!("quell: interrupted before the first {SHORTEST} were over");
                return Ok(ExitCode::from(super::INTERRUPTED));
            }
            Err(error) => return Err(error.into()),
        }
        reports += 1;
        if !question.watch || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The processes that each target means.
fn targets(question: &Question<'_>, processes: &Processes) -> Result<Vec<Vec<i32>>> {
    let asker = Asker { users: users(), ..Asker::default() };
    let mut wanted = Vec::new();
    for target in question.targets {
        // What `quell top` calls it; others by their kind, as unit:NAME.
        if let Some(pids) = managed::processes(question.agent, target, processes) {
            wanted.push(pids);
            continue;
        }
        let found = match resolve(processes, target, &asker) {
            // To watch harms nothing: where several have the name, all are shown.
            Err(Miss::Several(found)) => found,
            Ok(found) => vec![found],
            Err(Miss::Nothing(why)) => bail!("{why}"),
        };
        wanted.push(found.iter().flat_map(|found| &found.processes).map(|process| process.tid).collect());
    }
    Ok(wanted)
}

fn users() -> Vec<u32> {
    let before_sudo = std::env::var("SUDO_UID").ok().and_then(|user| user.parse().ok());
    [rustix::process::geteuid().as_raw()].into_iter().chain(before_sudo).collect()
}

/// Leaves the services of these processes alone in the report, if any are wanted.
fn only(report: &mut Services, wanted: &[Vec<i32>]) {
    if !wanted.is_empty() {
        report.services.retain(|service| wanted.iter().any(|pids| service.pids.iter().any(|pid| pids.contains(pid))));
    }
}

/// In what the numbers of the JSON are.
const UNITS: [(&str, &str); 1] = [("window, ran, waited, behind_own, time, interrupts, steal", "ns")];

#[derive(Serialize)]
struct AsJson<'a> {
    units: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    report: &'a Services,
}

fn print(report: &Services, question: &Question<'_>, processes: &Processes) -> Result<()> {
    let mut out = io::stdout().lock();
    if question.json {
        serde_json::to_writer(&mut out, &output::stamped(AsJson { units: UNITS.into(), report }))?;
        writeln!(out)?;
    } else {
        if question.watch && out.is_terminal() {
            // From the top, on an empty screen.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        let mut page = text(report, !question.targets.is_empty(), &offers(question.agent), &Screen::here());
        if rustix::process::geteuid().as_raw() != 0 && hides_others(processes) {
            let _ =
                writeln!(page, "/proc shows this user's processes alone (hidepid): run it as root to see all services");
        }
        write!(out, "{page}")?;
        if question.watch && !out.is_terminal() {
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Would `quell protect` take this target now?
fn offers(agent: &AgentSocket) -> impl Fn(&str) -> bool {
    let agent = leased::agent(agent).ok().flatten();
    let processes = ProcFs::open(&Roots::default().proc).and_then(|mut proc| Processes::read(&mut proc)).ok();
    move |target| {
        let Some(processes) = &processes else { return false };
        let found = Subject::among("protect", &[target.to_owned()], processes);
        found.and_then(|subject| leased::refuse_managed(agent.as_ref(), &subject)).is_ok()
    }
}

/// Is /proc mounted so that other users' processes are not in it? The first process is root's.
fn hides_others(processes: &Processes) -> bool {
    processes.get(1).is_none() && Path::new("/proc").is_dir()
}
