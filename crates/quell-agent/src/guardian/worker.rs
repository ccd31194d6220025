//! The worker's side: it notices when it is to stop, and when its guardian is gone.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quell_linux::Roots;
use quell_model::Nanos;

use super::pulse::Pulse;
use super::restore::{Site, pods_journal, put_back_journal};
use super::store::Store;
use crate::AgentError;
use crate::journal::FileJournal;
use crate::journal::file::Gate;
use crate::realtime::run_before_others;

/// Time in which the work must end by itself after its guardian has died.
const TIME_TO_END: Duration = Duration::from_millis(500);

/// The watching thread's real-time priority, where the system allows one.
const PRIORITY: u8 = 97;

const WORKING: u8 = 0;
const ENDED: u8 = 1;
const TAKEN_OVER: u8 = 2;

/// The work's view of its guardian, and its signs of life.
#[derive(Debug)]
pub struct Worker {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    state: Arc<AtomicU8>,
    pulse: Pulse,
    journal: PathBuf,
    site: Site,
    gate: Gate,
    store: Arc<Store>,
    again: bool,
}

impl Worker {
    /// Begins to watch the guardian, whose end of the pipe closes when it dies.
    pub(super) fn begin(
        pulse: Pulse,
        guardian: OwnedFd,
        journal: PathBuf,
        site: Site,
        gate: Gate,
        (store, again): (Arc<Store>, bool),
    ) -> Result<Worker, AgentError> {
        let worker = Worker {
            stop: Arc::default(),
            reload: Arc::default(),
            gone: Arc::default(),
            state: Arc::default(),
            pulse,
            journal,
            site,
            gate: gate.clone(),
            store,
            again,
        };
        let watch = Watch {
            stop: Arc::clone(&worker.stop),
            gone: Arc::clone(&worker.gone),
            state: Arc::clone(&worker.state),
            journal: worker.journal.clone(),
            site: worker.site.clone(),
            gate,
        };
        thread::Builder::new()
            .name("quell-watch".into())
            .spawn(move || watch.run(&guardian))
            .map_err(|source| AgentError::System { operation: "start a thread", source })?;
        Ok(worker)
    }

    /// Is set when the work shall end: by [`Worker::stop_on_signals`], or because the guardian is gone.
    #[must_use]
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Set when the configuration is to be read again; the reader clears it.
    #[must_use]
    pub fn reload(&self) -> &Arc<AtomicBool> {
        &self.reload
    }

    /// From now on SIGTERM and SIGINT set [`Worker::stop`], and SIGHUP sets [`Worker::reload`].
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub fn stop_on_signals(&self) -> Result<(), AgentError> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let flags = [(SIGTERM, &self.stop), (SIGINT, &self.stop), (SIGHUP, &self.reload)];
        for (signal, flag) in flags {
            signal_hook::flag::register(signal, Arc::clone(flag))
                .map_err(|source| AgentError::System { operation: "catch signals", source })?;
        }
        Ok(())
    }

    /// Was the guardian killed? Then the work is not started again.
    #[must_use]
    pub fn guardian_is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// A sign of life to the guardian; the next one is due within `watchdog_timeout`. Work that never calls this is not
    /// watched for hangs.
    pub fn beat(&self, watchdog_timeout: Nanos) {
        self.pulse.beat(watchdog_timeout);
    }

    /// Another sign of life: a step of what takes longer than a turn is done. Only for work that may not take longer because
    /// it hangs: one workload attached, one stage of loading.
    pub fn step(&self) {
        self.pulse.step();
    }

    /// As [`Worker::step`], before a stage that may take this long.
    pub fn stage(&self, at_most: Nanos) {
        self.pulse.stage(at_most);
    }

    /// A journal beside the work's own, for a thread that writes by itself; the guardian puts both back.
    #[must_use]
    pub fn journal_of_pods(&self) -> Beside {
        Beside { path: pods_journal(&self.journal), roots: self.site.roots.clone(), gate: self.gate.clone() }
    }

    /// Did another worker of this guardian live before?
    #[must_use]
    pub fn is_again(&self) -> bool {
        self.again
    }

    /// What an earlier worker left, and what this one leaves for the next one.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Notifies the guardian when a solo run must be over; None: none is under way.
    pub fn lease(&self, until: Option<Nanos>) {
        self.pulse.lease(until);
    }

    /// The work is done. If the guardian is gone, the rest of the journal is restored here.
    pub(super) fn end(&self) {
        if self.state.compare_exchange(WORKING, ENDED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            // The watching thread puts everything back and ends the process.
            loop {
                thread::park();
            }
        }
        if self.guardian_is_gone()
            && let Err(error) = put_back_journal(&self.journal, &self.site, &mut || {})
        {
            tracing::error!(%error, "not everything could be put back");
        }
    }
}

/// A journal that is begun when it is needed.
#[derive(Clone, Debug)]
pub struct Beside {
    path: PathBuf,
    roots: Roots,
    gate: Gate,
}

impl Beside {
    /// Begins it, empty.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn begin(&self) -> Result<FileJournal, AgentError> {
        let failed = |source| AgentError::Journal { path: self.path.clone(), source };
        Ok(FileJournal::create(&self.path, &self.roots).map_err(failed)?.with_gate(self.gate.clone()))
    }
}

struct Watch {
    stop: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
    state: Arc<AtomicU8>,
    journal: PathBuf,
    site: Site,
    gate: Gate,
}

impl Watch {
    fn run(&self, guardian: &OwnedFd) {
        // It sleeps until it is needed, and then it must run at once, whatever a policy gave to others.
        if let Err(error) = run_before_others(PRIORITY) {
            tracing::debug!(%error, "the watching thread has no real-time priority");
        }
        // The pipe has no writer: the read ends when the other side is closed.
        while let Err(rustix::io::Errno::INTR) = rustix::io::read(guardian, &mut [0u8; 1]) {}
        self.gone.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while begun.elapsed() < TIME_TO_END {
            if self.state.load(Ordering::SeqCst) == ENDED {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        if self.state.compare_exchange(WORKING, TAKEN_OVER, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        self.gate.close();
        if let Err(error) = put_back_journal(&self.journal, &self.site, &mut || {}) {
            tracing::error!(%error, "not everything could be put back");
        }
        // SAFETY: ends the process; nothing of it is used afterwards. Destructors of the hung work must not run.
        unsafe { libc::_exit(1) }
    }
}
