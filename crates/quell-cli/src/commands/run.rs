//! `quell run`: the agent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use quell_agent::AgentError;
use quell_agent::config::{self, Config, Start};
use quell_agent::guardian::{News, Options, REFUSED, RunDir, START_AGAIN, Worker, supervise};
use quell_agent::log::Unwaiting;
use quell_agent::run::{Extras, Outcome, PrintedJournal, privileges};
use quell_linux::LinuxError;
use quell_linux::write::{Journal, NoJournal};
use quell_report::screen::Screen;
use quell_scx::ScxError;
use sd_notify::NotifyState;
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

use quell_command::output::WrongCommandLine;
use quell_command::signals;

use super::check;
use quell_daemon::{Asked, run_agent};

/// Run the agent
///
/// Manages the workloads of the configuration until SIGTERM or Ctrl-C, and puts everything back then, whatever ends it. SIGHUP
/// reads the configuration again. Agents with different run directories can run side by side; no two manage the same thread.
#[derive(Args)]
pub struct Arguments {
    /// The configuration, as with --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The configuration; its drop-ins are in the directory of the same name with the suffix .d
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    config: PathBuf,
    /// Print every write that would be made, and make none
    #[arg(long, conflicts_with = "shadow")]
    dry_run: bool,
    /// Decide and log beside any other scheduler or agent, and write nothing
    #[arg(long)]
    shadow: bool,
    /// End after the first turn of the loop (with --dry-run or --shadow)
    #[arg(long)]
    once: bool,
    /// Record every turn in this file, for `quell-lab replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Serve the API on this socket; --dry-run and --shadow serve none without it [default: as configured]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Directory of lock and journal [default: QUELL_RUN_DIR, or /run/quell]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Log only warnings and errors
    #[arg(long, short)]
    quiet: bool,
}

impl Arguments {
    fn configuration(&self) -> &Path {
        self.file.as_ref().unwrap_or(&self.config)
    }
}

/// Runs the agent.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    log_to_stderr(arguments.quiet);
    if arguments.once && !(arguments.dry_run || arguments.shadow) {
        let wrong = "--once would restore immediately what it sets: add --dry-run or --shadow";
        anyhow::bail!(WrongCommandLine(wrong.to_owned()));
    }
    let asked = if arguments.dry_run || arguments.shadow { Asked::Kernel } else { Asked::Files };
    let examined = check::examine(arguments.configuration(), &start_of(arguments), asked)?;
    for problem in &examined.problems.0 {
        eprintln!("{problem}");
    }
    let Some(config) = examined.usable() else {
        anyhow::bail!("the configuration is refused; `quell check --example` prints a valid one");
    };
    if arguments.dry_run || arguments.shadow { watch_only(arguments, config) } else { manage(arguments, config) }
}

fn start_of(arguments: &Arguments) -> Start {
    Start {
        socket: arguments.socket.clone(),
        run_dir: arguments.run_dir.clone(),
        record: arguments.record.clone(),
        only_looks: arguments.dry_run || arguments.shadow,
        only_checks: false,
    }
}

/// Changes nothing: needs no guardian, no lock and no privilege.
fn watch_only(arguments: &Arguments, mut config: Config) -> Result<ExitCode> {
    // The configured address is the agent's that may run beside.
    (config.metrics.listen, config.metrics.socket) = (None, None);
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    let journal: Box<dyn Journal> =
        if arguments.dry_run { Box::new(PrintedJournal::to(std::io::stdout())) } else { Box::new(NoJournal) };
    let extras = Extras {
        shadow: arguments.shadow,
        dry_run: arguments.dry_run,
        once: arguments.once,
        record: arguments.record.clone(),
        socket: arguments.socket.clone(),
        ..Extras::default()
    };
    run_agent(config, extras, journal, None, &stop)?;
    Ok(ExitCode::SUCCESS)
}

fn manage(arguments: &Arguments, config: Config) -> Result<ExitCode> {
    see_the_hosts_cgroups();
    let directory = RunDir::locate(arguments.run_dir.as_deref())?;
    let usual = directory.path().join("api.sock");
    let ends = directory.path().join("scheduler-ends.json");
    let switch = directory.path().join("switched-off.json");
    let departed = directory.path().join("departed.json");
    let claim = directory.claim("agent")?;
    // As it stands in the files, for the workers.
    let read = config::read_all(arguments.configuration()).0;
    for failed in privileges::drop_others(&privileges::needed(&config)) {
        warn!("an unneeded privilege could not be dropped: {failed}");
    }
    let mut options = Options::new(claim);
    options.restart = true;
    options.news = Box::new(report_to(arguments.socket.clone().or(config.api.socket.clone()).unwrap_or(usual.clone())));
    let ending = supervise(options, &mut |worker, journal| {
        work(arguments, (&read, &config), (&usual, &ends, &switch, &departed), worker, journal).unwrap_or_else(
            |failure| {
                error!("{failure:#}");
                if is_refusal(&failure) { REFUSED } else { 1 }
            },
        )
    })?;
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    for left in &ending.report.left {
        warn!("{left}");
    }
    Ok(ExitCode::from(Some(ending.exit_status()).filter(|status| *status != REFUSED).unwrap_or(1)))
}

/// In a container with the host's processes, their cgroups are read as the host has them.
fn see_the_hosts_cgroups() {
    match quell_linux::cgroup::join_that_of_process_1(Path::new("/proc")) {
        Ok(true) => info!("the cgroups are the host's: this container had a cgroup namespace of its own"),
        Ok(false) => {}
        // An ordinary user may not look at process 1, and has no reason to.
        Err(error) if std::fs::read_to_string("/proc/1/cgroup").is_ok_and(|text| text.contains("/../")) => warn!(
            "the cgroups of other containers are hidden from this one ({error}): pods and units are not found by their cgroups; give \
             it SYS_ADMIN and SYS_PTRACE (the chart's `capabilities`)"
        ),
        Err(_) => {}
    }
}

/// Would the same configuration fail again? What the machine refuses, memory or a descriptor, it may give in a moment.
fn is_refusal(failure: &anyhow::Error) -> bool {
    let own = |name: &str| name.starts_with(quell_scx::NAME);
    match (failure.downcast_ref::<AgentError>(), failure.downcast_ref::<ScxError>()) {
        (Some(error), _) => error.is_refusal(),
        // A dead worker's may be there for a moment.
        (_, Some(ScxError::Busy { name })) => !own(name),
        (_, Some(ScxError::Broken { .. } | ScxError::Queues { .. } | ScxError::Wait(_) | ScxError::Linux(_))) => false,
        (_, Some(_)) => true,
        _ => matches!(failure.downcast_ref(), Some(LinuxError::Unsupported { .. } | LinuxError::Model(_))),
    }
}

/// The worker's life.
fn work(
    arguments: &Arguments,
    (read, first): (&Config, &Config),
    (usual_socket, ends, switch, departed): (&Path, &Path, &Path, &Path),
    worker: &Worker,
    journal: Box<dyn Journal>,
) -> Result<u8> {
    worker.stop_on_signals()?;
    let (config, refused) = present(arguments, read, first)?;
    let extras = Extras {
        record: arguments.record.clone(),
        socket: arguments.socket.clone(),
        usual_socket: Some(usual_socket.to_owned()),
        ends: Some(ends.to_owned()),
        switch: Some(switch.to_owned()),
        pods: Some(worker.journal_of_pods()),
        departed: Some(departed.to_owned()),
        refused,
        runtime: usual_socket.parent().map(|directory| directory.join("runtime")),
        ..Extras::default()
    };
    match run_agent(config, extras, journal, Some(worker), worker.stop())? {
        Outcome::Stopped => Ok(0),
        _ => Ok(START_AGAIN),
    }
}

/// What stands in the files now, unless that is wrong. What has been examined at the start is not examined again: that walks
/// over all processes.
fn present(arguments: &Arguments, read: &Config, first: &Config) -> Result<(Config, Option<String>)> {
    // A pipe has been read.
    if config::is_pipe(arguments.configuration()) || config::read_all(arguments.configuration()).0 == *read {
        return Ok((first.clone(), None));
    }
    let examined = check::examine(arguments.configuration(), &start_of(arguments), Asked::Files)?;
    if examined.problems.are_fatal() {
        error!(
            "the configuration on disk is no longer valid, the one from the start remains in force:\n{}",
            examined.problems
        );
    }
    let errors = examined.problems.of(config::Severity::Error).map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let refused = (!errors.is_empty()).then_some(errors);
    Ok((examined.usable().unwrap_or_else(|| first.clone()), refused))
}

/// Passes the guardian's news on: to the log, and to systemd's watchdog.
fn report_to(socket: PathBuf) -> impl FnMut(News<'_>) {
    let mut ready = false;
    move |news| match news {
        News::Leftover(report) => warn!("an earlier agent was killed: {}", report.summary()),
        News::Hung(why) => error!("the worker is considered hung: {why}"),
        News::Removed(path) => error!("{} was removed: everything is put back and set again", path.display()),
        News::Starved(why) => warn!("the worker does not get to run: {why}"),
        News::Died { how, report } => {
            error!("{how}: {}", report.summary());
            // A killed worker leaves its socket behind. What else stands there stays; the next worker says so.
            let _ = quell_agent::api::socket::remove_dead(&socket);
        }
        News::Again(pause) => info!("starting again in {pause}"),
        News::Waiting => {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
        News::Alive => {
            let states: &[NotifyState<'_>] =
                if ready { &[NotifyState::Watchdog] } else { &[NotifyState::Ready, NotifyState::Watchdog] };
            // Without systemd the message has no receiver.
            let _ = sd_notify::notify(states);
            ready = true;
        }
    }
}

/// One line an event. QUELL_LOG chooses more or less: `debug`, `warn`, …
fn log_to_stderr(quiet: bool) {
    let usual = |_| EnvFilter::new("info");
    let filter =
        if quiet { EnvFilter::new("warn") } else { EnvFilter::try_from_env("QUELL_LOG").unwrap_or_else(usual) };
    let log = tracing_subscriber::fmt()
        .with_writer(Arc::new(Unwaiting::new(std::io::stderr())))
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(Screen::of_errors().colour);
    // The journal has times of its own.
    let _ = if is_journal() { log.without_time().try_init() } else { log.try_init() };
}

/// Is standard error systemd's journal? See JOURNAL_STREAM in systemd.exec(5).
fn is_journal() -> bool {
    let journal = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let Ok(found) = rustix::fs::fstat(std::io::stderr()) else { return false };
    journal == format!("{}:{}", found.st_dev, found.st_ino)
}
