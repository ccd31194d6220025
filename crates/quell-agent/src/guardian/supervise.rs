//! The guardian's side: starts the worker, sleeps, puts back, starts it again.

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use quell_linux::write::Journal;
use quell_model::Nanos;
use quell_thread::clock::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use super::backoff::Backoff;
use super::child::{file_of, handle, hurry, is_doomed, kill, reap, system, waited};
use super::kept::Kept;
use super::patience::{Patience, ROUND, State};
use super::pulse::Pulse;
use super::restore::{Report, Site, put_back_journal, put_back_meanwhile};
use super::rundir::Claim;
use super::signals::Signals;
use super::store::Store;
use super::worker::Worker;
use crate::AgentError;
use crate::journal::{FileJournal, Owners};
use crate::realtime::{Sentry, run_before_others};

/// The guardian's real-time priority, where the system allows one: above everything that a policy may set. It sleeps
/// almost always.
const PRIORITY: u8 = 98;
/// Time from the request to stop until a worker is killed.
const TIME_TO_STOP: Nanos = Nanos::from_secs(10);
/// A worker whose loop has not turned for this long, one and a half times its longest sleep, may have been killed.
const STANDS_STILL: Nanos = Nanos::from_millis(150);
/// While a worker has not turned yet, the guardian's own watcher is informed for this long.
const TIME_TO_BEGIN: Nanos = Nanos::from_secs(300);
/// Exit status of a worker that asks to be restarted at once.
pub const START_AGAIN: u8 = 75;
/// Exit status of a worker that cannot work with its configuration, whatever the machine has to give (EX_CONFIG).
pub const REFUSED: u8 = 78;
/// Exit status of a worker that panicked.
const PANICKED: u8 = 101;

/// Something that people should know of.
#[derive(Debug)]
pub enum News<'a> {
    /// A journal of an earlier run was found and put back.
    Leftover(&'a Report),
    /// The worker has been killed because it hung.
    Hung(&'a str),
    /// The worker is killed because another program removed the run directory, which is made again.
    Removed(&'a Path),
    /// The worker is silent because the machine does not let it run, for this reason.
    Starved(&'a str),
    /// The worker died, and everything was put back.
    Died {
        /// The way that it ended.
        how: &'a str,
        /// The restore's report.
        report: &'a Report,
    },
    /// It is started again after this pause.
    Again(Nanos),
    /// The guardian's own turn: about every second while the worker is alive and turning. For a watchdog.
    Alive,
    /// About every second while the guardian waits before it starts the next worker, while that begins, and while it puts
    /// back.
    Waiting,
}

/// Options of supervision.
pub struct Options {
    claim: Claim,
    /// The machine.
    pub site: Site,
    /// Start the work again when it died other than on purpose?
    pub restart: bool,
    /// Become the parent of orphans below the worker when it dies, so that they are found as its descendants. The guardian
    /// then returns only when they have ended.
    pub keep_orphans: bool,
    /// Gets the news.
    pub news: Box<dyn FnMut(News<'_>)>,
}

impl Options {
    /// Without restarts, and without a listener for the news.
    #[must_use]
    pub fn new(claim: Claim) -> Options {
        Options { claim, site: Site::default(), restart: false, keep_orphans: false, news: Box::new(|_| {}) }
    }
}

/// The end of the last worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// It exited with this status; None: a signal killed it.
    pub code: Option<u8>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Report of the guardian's own restore.
    pub report: Report,
}

impl Ending {
    /// The exit status that says the same in a shell: the worker's, or 128 and the signal.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.code.unwrap_or_else(|| 128u8.saturating_add(self.signal.unwrap_or(0) as u8))
    }

    /// Did it decide to end? One that is started again when it died does so in three ways; the exit status of another is its
    /// work's, and only a panic is no decision.
    fn on_purpose(&self, restart: bool) -> bool {
        self.code.is_some_and(|code| match restart {
            true => matches!(code, 0 | START_AGAIN | REFUSED),
            false => code != PANICKED,
        })
    }

    fn how(&self) -> String {
        match (self.code, self.signal) {
            (Some(PANICKED), _) => "the worker panicked".into(),
            (Some(code), _) => format!("the worker exited with status {code}"),
            (None, signal) => format!("the worker was killed by signal {}", signal.unwrap_or(0)),
        }
    }
}

/// Runs the work in a child process and returns when it has ended and everything has been put back. The work's result
/// is the child's exit status; it gets the journal that every write must go through.
///
/// The calling process must have no second thread: the child would not have it.
///
/// # Errors
/// If the process has other threads, or the system gives no child.
pub fn supervise(
    mut options: Options,
    work: &mut dyn FnMut(&Worker, Box<dyn Journal>) -> u8,
) -> Result<Ending, AgentError> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(AgentError::Threads);
    }
    let journal = options.claim.journal();
    let leftover = put_back_journal(&journal, &options.site, &mut || (options.news)(News::Waiting))?;
    if leftover != Report::default() {
        (options.news)(News::Leftover(&leftover));
    }
    if options.keep_orphans {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|errno| AgentError::System { operation: "adopt orphans", source: errno.into() })?;
    }
    let store = Arc::new(Store::or_none());
    let signals = Signals::catch()?;
    run_before_others(PRIORITY)?;
    let owners = Owners::register(options.claim.directory().path(), options.claim.name());
    let (clock, backoff) = (Nanos::ZERO, Backoff::default());
    let mut guardian = Guardian {
        options,
        signals,
        kept: Kept::default(),
        owners,
        store,
        stopping: None,
        clock,
        backoff,
        killed: false,
        before: 0,
    };
    let result = guardian.run(work);
    guardian.signals.release();
    let claim = guardian.options.claim;
    if result.is_ok() || !claim.journal().exists() {
        claim.clear();
        guardian.owners.into_iter().for_each(Owners::end);
        return result;
    }
    result.map_err(|source| AgentError::NotPutBack { source: Box::new(source) })
}

/// Restores what the journal says; the guardian's own watcher gets signs of life meanwhile.
fn put_back(
    how: impl FnOnce(&Path, &Site, &mut dyn FnMut()) -> Result<Report, AgentError>,
    kept: &mut Kept,
    options: &mut Options,
) -> Result<Report, AgentError> {
    let Options { claim, site, news, .. } = options;
    let mut alive = || news(News::Waiting);
    match kept.make_again(claim) {
        None | Some((_, Ok(()))) => how(&claim.journal(), site, &mut alive),
        Some((unnamed, Err(error))) => {
            let mut report = put_back_meanwhile(&unnamed, site, &mut alive)?;
            let directory = claim.directory().path().display();
            report.remark.get_or_insert(format!("{directory} was removed and could not be made again: {error}"));
            Ok(report)
        }
    }
}

struct Guardian {
    options: Options,
    signals: Signals,
    /// The journal of the worker that lives now.
    kept: Kept,
    owners: Option<Owners>,
    /// What a worker leaves for the next one.
    store: Arc<Store>,
    /// Time at which the worker was asked to stop, by `clock`.
    stopping: Option<Nanos>,
    /// The guardian's time beside a worker, counted by its looks: see [`super::patience`].
    clock: Nanos,
    backoff: Backoff,
    /// Was the worker that lives now killed because it hung?
    killed: bool,
    /// Number of workers before the one that lives now.
    before: u32,
}

impl Guardian {
    fn run(&mut self, work: &mut dyn FnMut(&Worker, Box<dyn Journal>) -> u8) -> Result<Ending, AgentError> {
        loop {
            let begun = now();
            let ending = self.one_life(work)?;
            self.before += 1;
            let on_purpose = ending.on_purpose(self.options.restart);
            // One that ended on purpose has waited for them, or was asked to leave them.
            if self.options.keep_orphans && !on_purpose {
                self.outlive_orphans();
            }
            if !on_purpose {
                (self.options.news)(News::Died { how: &ending.how(), report: &ending.report });
            }
            if ending.code == Some(START_AGAIN) && self.options.restart && self.stopping.is_none() {
                continue;
            }
            if on_purpose || !self.options.restart || self.stopping.is_some() {
                return Ok(ending);
            }
            let pause = self.backoff.died_after(now() - begun);
            (self.options.news)(News::Again(pause));
            if self.pause(pause) {
                return Ok(ending);
            }
        }
    }

    fn one_life(&mut self, work: &mut dyn FnMut(&Worker, Box<dyn Journal>) -> u8) -> Result<Ending, AgentError> {
        let pulse = Pulse::new()?;
        self.killed = false;
        self.options.claim.make_again()?;
        let (child_end, own_end) = pipe_with(PipeFlags::CLOEXEC).map_err(system("make a pipe"))?;
        let _ = std::io::stdout().flush();
        // SAFETY: this process has one thread, so the child's memory is whole: no lock in it is held by another thread.
        match unsafe { libc::fork() } {
            -1 => Err(AgentError::last("start the worker")),
            0 => {
                drop(own_end);
                self.be_the_worker(pulse, child_end, work)
            }
            pid => {
                drop(child_end);
                let pid = Pid::from_raw(pid).expect("fork gives a process number");
                let watched = handle(pid).and_then(|process| self.watch(pid, &process, &pulse));
                if watched.is_err() {
                    // A worker that is watched no more must not go on. It is not reaped yet: the number is its own.
                    let _ = kill_process(pid, Signal::KILL);
                }
                let _sentry = Sentry::beside_or_ordinary();
                hurry(pid);
                // The loop is dead: its settings are restored before its other threads have ended.
                let put_back = put_back(put_back_journal, &mut self.kept, &mut self.options);
                self.kept.forget();
                drop(own_end);
                let ending = reap(pid, &mut || (self.options.news)(News::Waiting))?;
                let mut report = watched?;
                report.add(put_back?);
                let code = ending.exit_status().map(|code| code as u8);
                Ok(Ending { code, signal: ending.terminating_signal(), report })
            }
        }
    }

    fn be_the_worker(
        &self,
        pulse: Pulse,
        guardian: OwnedFd,
        work: &mut dyn FnMut(&Worker, Box<dyn Journal>) -> u8,
    ) -> ! {
        self.signals.release();
        if let Some(guardian) = rustix::process::getppid() {
            self.options.claim.sign_as_worker(guardian.as_raw_pid());
        }
        let path = self.options.claim.journal();
        let code = catch_unwind(AssertUnwindSafe(|| {
            let failed = |source| AgentError::Journal { path: path.clone(), source };
            let owners = self.owners.as_ref().map(Owners::for_worker).transpose().map_err(failed)?;
            let journal = FileJournal::create(&path, &self.options.site.roots).map_err(failed)?.with_owners(owners);
            let gate = journal.gate();
            let (site, left) = (self.options.site.clone(), (Arc::clone(&self.store), self.before > 0));
            let worker = Worker::begin(pulse, guardian, path.clone(), site, gate, left)?;
            let code = work(&worker, Box::new(journal));
            worker.end();
            Ok::<u8, AgentError>(code)
        }));
        let code = match code {
            Ok(Ok(code)) => code,
            Ok(Err(error)) => {
                eprintln!("quell: {error}");
                1
            }
            Err(_) => PANICKED,
        };
        std::process::exit(code.into())
    }

    /// Sleeps until the worker has ended; meanwhile forwards signals and checks for hangs.
    ///
    /// A worker that was killed inside a system call that cannot be interrupted ends only when that call does, and that
    /// may depend on its own settings (see [`super::restore::put_back`]): then everything is restored before.
    fn watch(&mut self, pid: Pid, process: &OwnedFd, pulse: &Pulse) -> Result<Report, AgentError> {
        const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let (status, times) = (file_of(pid, "status"), file_of(pid, "schedstat"));
        let (mut reported_at, mut early, mut was_doomed) = (Nanos::ZERO, Report::default(), false);
        let (mut patience, mut was_starved, begun) = (Patience::default(), false, now());
        let mut looked = begun;
        loop {
            let mut waiting = [
                PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN),
            ];
            match poll(&mut waiting, Some(&LOOK)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("wait for the worker")(errno)),
            }
            if waiting[0].revents().contains(PollFlags::IN) {
                return Ok(early);
            }
            let time = now();
            self.clock += (time - std::mem::replace(&mut looked, time)).min(ROUND);
            // Its status costs more than all the rest here. A worker whose loop turns is alive.
            let turns = pulse.turned_within(STANDS_STILL, time);
            if !turns && status.as_ref().is_some_and(is_doomed) {
                let _sentry = Sentry::beside_or_ordinary();
                hurry(pid);
                // Twice in a row: most die in less time than that.
                if std::mem::replace(&mut was_doomed, true) {
                    early.add(put_back(put_back_meanwhile, &mut self.kept, &mut self.options)?);
                }
                continue;
            }
            if self.kept.is_lost(&self.options.claim) && self.options.restart {
                kill(process, Signal::KILL);
                if !std::mem::replace(&mut self.killed, true) {
                    (self.options.news)(News::Removed(self.options.claim.directory().path()));
                }
            }
            self.hand_signals_on(process);
            let waited = times.as_ref().filter(|_| !turns).and_then(waited);
            let state = patience.look(&pulse.signs(waited), time);
            let began_to_starve = matches!(state, State::Starved(_)) && !was_starved;
            was_starved = matches!(state, State::Starved(_));
            match &state {
                State::Hung(why) => {
                    // First: the listener for the news may be slow, or hang as the worker does.
                    kill(process, Signal::KILL);
                    if !std::mem::replace(&mut self.killed, true) {
                        (self.options.news)(News::Hung(why));
                    }
                }
                State::Starved(why) if began_to_starve => (self.options.news)(News::Starved(why)),
                _ if time - reported_at < Nanos::from_secs(1) => {}
                _ if pulse.has_begun() => {
                    reported_at = time;
                    (self.options.news)(News::Alive);
                }
                _ if time - begun < TIME_TO_BEGIN => {
                    reported_at = time;
                    (self.options.news)(News::Waiting);
                }
                _ => {}
            }
            if self.stopping.is_some_and(|since| self.clock - since > TIME_TO_STOP) {
                kill(process, Signal::KILL);
            }
        }
    }

    fn hand_signals_on(&mut self, process: &OwnedFd) {
        while let Some(came) = self.signals.next() {
            if matches!(came.number, libc::SIGTERM | libc::SIGINT) && self.options.restart {
                self.stopping.get_or_insert(self.clock);
            }
            if !came.from_terminal
                && let Some(signal) = Signal::from_named_raw(came.number)
            {
                kill(process, signal);
            }
        }
    }

    /// Sleeps; true if it was asked to stop meanwhile.
    fn pause(&mut self, pause: Nanos) -> bool {
        let end = now() + pause;
        while now() < end {
            (self.options.news)(News::Waiting);
            let left = (end - now()).min(Nanos::from_secs(1));
            let left = Timespec { tv_sec: (left.0 / 1_000_000_000) as i64, tv_nsec: (left.0 % 1_000_000_000) as i64 };
            let mut waiting = [PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
            let _ = poll(&mut waiting, Some(&left));
            while let Some(came) = self.signals.next() {
                if came.number != libc::SIGHUP {
                    return true;
                }
            }
        }
        false
    }

    /// Waits for the orphans that came to the guardian, and hands signals on to them.
    fn outlive_orphans(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(_) => return,
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let mut waiting = [PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
            let _ = poll(&mut waiting, Some(&pause));
            while let Some(came) = self.signals.next() {
                if came.number != libc::SIGHUP && !came.from_terminal {
                    return;
                }
            }
        }
    }
}
