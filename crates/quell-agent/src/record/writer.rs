//! Recording a running loop: copies on the loop's thread, encoding and the disk on another.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quell_model::{Allowance, Controls, CpuSet, Event, Plan, Topology, View};
use quell_policy::AnyPolicy;

use super::format::{Header, LayerStart, State, Step, Turn, VERSION};
use crate::AgentError;
use crate::stack::{Layer, Witness};
use crate::wire;

/// Turns that wait for the disk at most; their memory is taken once and reused.
const BUFFERS: usize = 64;
/// Longest time until a recorded turn is on the disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// zstd's own default.
const LEVEL: i32 = 3;

/// A copy of one turn.
struct Copied {
    lost: u64,
    states: Option<Vec<AnyPolicy>>,
    view: View,
    steps: Vec<CopiedStep>,
    /// Number of steps of this turn; the others keep their memory.
    used: usize,
}

struct CopiedStep {
    layer: u32,
    pool: CpuSet,
    events: Vec<Event>,
    plan: Plan,
}

#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    lost: AtomicU64,
    failed: OnceLock<String>,
}

/// Records every turn. A turn that finds no free buffer is dropped and counted; the next recorded one then carries the
/// policies' states, so that replay continues exactly after the gap. The record is complete when this is dropped.
pub struct Recorder {
    file: PathBuf,
    free: Receiver<Box<Copied>>,
    full: Option<SyncSender<Box<Copied>>>,
    lost: u64,
    /// Does the loop wait for a free buffer, instead of losing a turn?
    waits: bool,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins a record in this file, which is replaced; to be called before the loop's first turn.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn start(file: &Path, view: &View, layers: &[Layer]) -> Result<Recorder, AgentError> {
        match File::create(file) {
            Ok(created) => Recorder::into(Box::new(created), file, view, layers),
            Err(cause) => Err(failed("create", file)(cause)),
        }
    }

    /// Begins a record that goes to `out`; the name is for messages.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn into(
        out: Box<dyn Write + Send>,
        name: &Path,
        view: &View,
        layers: &[Layer],
    ) -> Result<Recorder, AgentError> {
        let header = Header {
            quell_record: VERSION,
            quell: env!("CARGO_PKG_VERSION").to_owned(),
            topology: Arc::clone(&view.topology),
            layers: layers
                .iter()
                .map(|layer| LayerStart {
                    policy: layer.policy.clone().into(),
                    workloads: layer.workloads.clone(),
                    impossible: layer.impossible.rules.clone(),
                    impossible_knobs: layer.impossible.knobs.clone(),
                })
                .collect(),
        };
        let mut out = Out::new(out).map_err(failed("write", name))?;
        out.put(&header).and_then(|()| out.flush()).map_err(failed("write", name))?;
        let (give, free) = sync_channel(BUFFERS);
        let (full, take) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            let empty = View::new(Arc::clone(&view.topology));
            // The channel's capacity is the number of buffers.
            let _ = give.send(Box::new(Copied { lost: 0, states: None, view: empty, steps: Vec::new(), used: 0 }));
        }
        let progress = Arc::new(Progress::default());
        let seen = Arc::clone(&progress);
        let topology = Arc::clone(&view.topology);
        let thread = std::thread::Builder::new()
            .name("quell-record".into())
            .spawn(move || {
                if let Err(error) = write_all(out, topology, &take, &give, &seen) {
                    let _ = seen.failed.set(error.to_string());
                    tracing::error!("the record ends here: {error}");
                }
            })
            .map_err(failed("start the thread for", name))?;
        let (file, full, thread) = (name.to_owned(), Some(full), Some(thread));
        Ok(Recorder { file, free, full, lost: 0, waits: false, progress, thread })
    }

    /// From now on the loop waits where the disk is slower: for loops whose time is simulated.
    #[must_use]
    pub fn that_waits(mut self) -> Recorder {
        self.waits = true;
        self
    }

    /// Progress of the record, for people.
    pub fn progress(&self) -> impl Fn() -> wire::Recording + Send + use<> {
        let (file, progress) = (self.file.display().to_string(), Arc::clone(&self.progress));
        move || wire::Recording {
            file: file.clone(),
            turns: progress.written.load(Ordering::Relaxed),
            lost: progress.lost.load(Ordering::Relaxed),
            failed: progress.failed.get().cloned(),
        }
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let fix = "name a file in a directory that exists and has room".to_owned();
    let path = path.to_owned();
    move |cause| AgentError::File { operation, path, cause, fix }
}

impl Witness for Recorder {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        let Some(full) = &self.full else { return };
        if !layers.iter().any(Layer::stepped) {
            return;
        }
        let free = if self.waits { self.free.recv().ok() } else { self.free.try_recv().ok() };
        let Some(mut copied) = free else {
            self.lost += 1;
            self.progress.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        copied.take(view, layers);
        copied.lost = std::mem::take(&mut self.lost);
        copied.states = (copied.lost > 0).then(|| layers.iter().map(|layer| layer.policy.clone()).collect());
        // It cannot be full: its capacity is the number of buffers. The thread may have ended.
        let _ = full.try_send(copied);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Copied {
    fn take(&mut self, view: &View, layers: &[Layer]) {
        self.view.copy_from(view);
        self.used = 0;
        for (number, layer) in (0..).zip(layers).filter(|(_, layer)| layer.stepped()) {
            if self.used == self.steps.len() {
                let (events, plan) = (Vec::new(), Plan::default());
                self.steps.push(CopiedStep { layer: number, pool: CpuSet::EMPTY, events, plan });
            }
            let step = &mut self.steps[self.used];
            self.used += 1;
            step.layer = number;
            step.pool = layer.pool;
            step.events.clone_from(&layer.events);
            copy_plan(&mut step.plan, &layer.plan);
        }
    }

    /// The turn; `recorded` is what the turns before it had.
    fn turn(&self, recorded: &Recorded) -> Turn<'_> {
        let view = &self.view;
        Turn {
            lost: self.lost,
            states: self.states.as_ref().map(|states| states.iter().cloned().map(State::from).collect()),
            now: view.now,
            controls: news(&view.controls, &recorded.controls),
            topology: news(&view.topology, &recorded.topology),
            allowances: news(&view.allowances, &recorded.allowances),
            workloads: Cow::Borrowed(&view.workloads),
            cpus: Cow::Borrowed(&view.cpus),
            threads: Cow::Borrowed(&view.threads),
            machine: view.machine,
            bandwidth_1: None,
            slowdown_1: None,
            steps: self.steps[..self.used]
                .iter()
                .map(|step| Step {
                    layer: step.layer,
                    pool: step.pool,
                    events: Cow::Borrowed(&step.events),
                    plan: Cow::Borrowed(&step.plan),
                })
                .collect(),
        }
    }
}

/// What changes seldom, as of the last recorded turn.
struct Recorded {
    controls: Arc<Controls>,
    topology: Arc<Topology>,
    allowances: Arc<Vec<Allowance>>,
}

impl Recorded {
    fn take(&mut self, view: &View) {
        self.controls.clone_from(&view.controls);
        self.topology.clone_from(&view.topology);
        self.allowances.clone_from(&view.allowances);
    }
}

/// The present value if it is another one than before.
fn news<T: PartialEq>(now: &Arc<T>, before: &Arc<T>) -> Option<Arc<T>> {
    (!Arc::ptr_eq(now, before) && now != before).then(|| Arc::clone(now))
}

/// Copies a plan into another's memory.
fn copy_plan(into: &mut Plan, from: &Plan) {
    let Plan { number, knobs, grants, rules, samples, leases, leaves, notes, trials } = from;
    into.number = *number;
    into.knobs.clone_from(knobs);
    into.grants.clone_from(grants);
    into.rules.clone_from(rules);
    into.samples.clone_from(samples);
    into.leases.clone_from(leases);
    into.leaves = *leaves;
    into.notes.clone_from(notes);
    into.trials.clone_from(trials);
}

/// Writes turns as they come until the recorder is gone.
fn write_all(
    mut out: Out,
    topology: Arc<Topology>,
    take: &Receiver<Box<Copied>>,
    give: &SyncSender<Box<Copied>>,
    progress: &Progress,
) -> io::Result<()> {
    let mut flushed = Instant::now();
    let mut recorded = Recorded { controls: Arc::default(), topology, allowances: Arc::default() };
    loop {
        match take.recv_timeout(FLUSH_EVERY) {
            Ok(copied) => {
                out.put(&copied.turn(&recorded))?;
                recorded.take(&copied.view);
                progress.written.fetch_add(1, Ordering::Relaxed);
                let _ = give.try_send(copied);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return out.finish(),
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            out.flush()?;
            flushed = Instant::now();
        }
    }
}

/// The compressed record.
struct Out {
    file: zstd::Encoder<'static, BufWriter<Box<dyn Write + Send>>>,
    line: Vec<u8>,
}

impl Out {
    fn new(out: Box<dyn Write + Send>) -> io::Result<Out> {
        Ok(Out { file: zstd::Encoder::new(BufWriter::new(out), LEVEL)?, line: Vec::new() })
    }

    fn put<T: serde::Serialize>(&mut self, value: &T) -> io::Result<()> {
        self.line.clear();
        rmp_serde::encode::write_named(&mut self.line, value).map_err(io::Error::other)?;
        self.file.write_all(&self.line)
    }

    /// Ends the compressor's block too, so that the file can be read although more follows.
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn finish(self) -> io::Result<()> {
        self.file.finish()?.flush()
    }
}
