//! Pods of Kubernetes: a plug-in of the node's container runtime (NRI), beside the loop.
//!
//! The runtime asks before it creates or resizes a container, and waits for the answer; it is answered by a thread of its own, from
//! [`quell_pods::Node`], and never by the loop. What is to stand in pods' cgroups is written there too ([`files`]), each write through a
//! journal that the guardian puts back as the agent's own. The loop takes the pods as workloads from here, without a lock.

mod convert;
mod files;
mod keeper;
mod plugin;
mod shown;
mod workloads;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nri::{Backoff, Runtime, Stub};
use quell_linux::LinuxError;
use quell_linux::Roots;
use quell_linux::procfs::ProcFs;
use quell_linux::sched::Kernel;
use quell_linux::write::{Journal, Machine, Medium};
use quell_model::{CpuSet, Topology};

use self::keeper::{Keeper, Shared};
use self::plugin::{PluginOf, registration};
use crate::AgentError;
use crate::api::ShownPods;
use crate::config::{Kubernetes, PodWorkload};

/// Files are read back, and reservations of containers that never started end, at this pace.
const TICK: Duration = Duration::from_secs(1);
/// Longest wait for the threads' ends.
const TIME_TO_END: Duration = Duration::from_millis(200);

/// What the node's pods are kept with.
#[derive(Debug)]
pub struct Site {
    /// The machine's pseudo-filesystems.
    pub roots: Roots,
    /// Its CPUs.
    pub topology: Topology,
    /// Those that are online.
    pub online: CpuSet,
    /// Those, online or not, that are not Quell's to give away.
    pub not_managed: CpuSet,
    /// Every write goes through it.
    pub journal: Box<dyn Journal>,
    /// Nothing is written, whatever the configuration asks for.
    pub only_looks: bool,
}

/// The loop's end. Everything in pods' cgroups is put back when it is dropped.
#[derive(Debug)]
pub struct Pods {
    keeper: Shared,
    news: Receiver<Vec<PodWorkload>>,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

/// How the threads are asked to end.
#[derive(Debug, Default)]
struct Stop {
    is_asked: AtomicBool,
    runtime: Mutex<Option<Runtime>>,
}

impl Pods {
    /// Connects to the runtime, again and again where it is not there, and shows what happens there.
    ///
    /// # Errors
    /// If no thread can be created, or the machine cannot be written to.
    pub fn start(settings: &Kubernetes, site: Site, shown: ShownPods) -> Result<Pods, AgentError> {
        let (sender, news) = channel();
        let medium = medium(&site.roots).map_err(|error| AgentError::Host(error.to_string()))?;
        let keeper = Arc::new(Mutex::new(Keeper::new(settings, site, medium, shown, sender)));
        let stop = Arc::new(Stop::default());
        let (socket, connecting, ending) = (settings.socket.clone(), Arc::clone(&keeper), Arc::clone(&stop));
        let connected = spawn("quell-nri", move || connect(&socket, &connecting, &ending))?;
        let (ticking, ending) = (Arc::clone(&keeper), Arc::clone(&stop));
        let ticks = spawn("quell-pods", move || {
            while !ending.is_asked.load(Ordering::Acquire) {
                std::thread::park_timeout(TICK);
                if !ending.is_asked.load(Ordering::Acquire) {
                    keeper::locked(&ticking).tick();
                }
            }
        })?;
        Ok(Pods { keeper, news, stop, threads: vec![connected, ticks] })
    }

    /// Puts everything in pods' cgroups back, and sets nothing; or sets it again.
    pub fn suspend(&self, is_suspended: bool) {
        keeper::locked(&self.keeper).suspend(is_suspended);
    }

    /// The node's pods as workloads, if they have changed.
    pub fn news(&self) -> Option<Vec<PodWorkload>> {
        self.news.try_iter().last()
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.stop.is_asked.store(true, Ordering::Release);
        // First: the threads may be waiting for the runtime, and set nothing any more.
        self.suspend(true);
        if let Some(runtime) = self.stop.runtime().as_ref() {
            runtime.close();
        }
        let begun = Instant::now();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            while !thread.is_finished() && begun.elapsed() < TIME_TO_END {
                std::thread::sleep(Duration::from_millis(1));
            }
            // One that is connecting to a runtime that does not answer ends by itself, after that.
            if thread.is_finished() {
                // It has nothing to say beyond what it logged.
                let _ = thread.join();
            }
        }
    }
}

impl Stop {
    fn runtime(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn medium(roots: &Roots) -> Result<Box<dyn Medium + Send>, LinuxError> {
    Ok(Box::new(Machine::new(ProcFs::open(&roots.proc)?, Box::new(Kernel::new()?))))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, AgentError> {
    let started = std::thread::Builder::new().name(name.into()).spawn(work);
    started.map_err(|source| AgentError::System { operation: "start a thread for pods", source })
}

/// Serves the runtime until asked to end; connects again where it has gone.
fn connect(socket: &Path, keeper: &Shared, stop: &Stop) {
    let mut backoff = Backoff::default();
    while !stop.is_asked.load(Ordering::Acquire) {
        let began = Instant::now();
        let connected = registration().and_then(|registration| Stub::connect(socket, registration));
        let ended = connected.and_then(|stub| {
            *stop.runtime() = Some(stub.runtime());
            // Asked between the look above and now, nothing would end the connection.
            if stop.is_asked.load(Ordering::Acquire) {
                stub.runtime().close();
            }
            stub.run(&mut PluginOf::new(Arc::clone(keeper)))
        });
        *stop.runtime() = None;
        if stop.is_asked.load(Ordering::Acquire) {
            return;
        }
        let why = match ended {
            Ok(ended) => ended.to_string(),
            Err(error) => error.to_string(),
        };
        keeper::locked(keeper).disconnected(&why);
        std::thread::park_timeout(backoff.after(began.elapsed()));
    }
}
