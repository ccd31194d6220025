//! What was sampled of a window, as shares of each workload's wait.

use std::collections::{BTreeMap, HashMap};

use quell_model::{CpuSet, Nanos};
use quell_trace::{Found, Instants, Member, Sampled, Slot, Task};

use super::limited::hold_back;
use super::names::{IDLE, INTERRUPTS, Names, OWN, STEAL, UNKNOWN};
use super::{Key, Shares};
use crate::services::Holder;

/// The part of a CPU's busy time in which not the thread that had it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interrupted {
    /// By interrupts.
    pub interrupts: f64,
    /// By the hypervisor.
    pub steal: f64,
}

/// Slices of a burst: they show how a cause's share varies.
pub(super) const SLICES: usize = 10;
/// A workload's time by slice.
pub(super) type Row = [f64; SLICES];

/// What is known of a burst beside its samples.
pub struct Around<'a> {
    /// When it began, and the number of instants up to then.
    pub begin: (Nanos, u32),
    /// When it ended, and the number of instants up to then.
    pub end: (Nanos, u32),
    /// What had a CPU beside the thread that ran there.
    pub interrupted: &'a dyn Fn(u32) -> Interrupted,
    /// For how long CPUs were kept from a workload by its limit.
    pub limited: &'a dyn Fn(Slot) -> Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    slot: Slot,
    cpu: u32,
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    from: u32,
    to: u32,
    holder: Holder,
}

/// A burst under way.
#[derive(Clone, Debug)]
pub struct Burst {
    workloads: usize,
    ours: CpuSet,
    waits: Vec<Wait>,
    runs: Vec<Vec<Run>>,
    names: HashMap<i32, String>,
}

impl Burst {
    /// Of this number of workloads on these CPUs.
    #[must_use]
    pub fn new(workloads: usize, cpus: CpuSet) -> Burst {
        let numbers = cpus.iter().last().map_or(0, |cpu| cpu.index() + 1);
        Burst { workloads, ours: cpus, waits: Vec::new(), runs: vec![Vec::new(); numbers], names: HashMap::new() }
    }

    /// Takes what was found next.
    pub fn add(&mut self, sampled: Sampled) {
        let Sampled { from, to, cpu, what } = sampled;
        if !self.ours.contains(cpu) || from >= to {
            return;
        }
        match what {
            Found::Waits(Member { slot, .. }) if usize::from(slot) < self.workloads => {
                self.waits.push(Wait { slot, cpu: cpu.0, from, to });
            }
            Found::Waits(_) => {}
            Found::Runs(task, name) => {
                let holder = match task {
                    Task::Idle => Holder::Idle,
                    Task::Member(member) => Holder::Service(member.slot),
                    Task::Other(tid) => Holder::Thread(tid),
                };
                if let (Holder::Thread(tid), false) = (holder, name.is_empty()) {
                    self.names.insert(tid, name);
                }
                self.runs[cpu.index()].push(Run { from, to, holder });
            }
        }
    }

    /// The names of the processes whose threads ran and are no workload's, by thread.
    #[must_use]
    pub fn processes(&mut self) -> HashMap<i32, String> {
        std::mem::take(&mut self.names)
    }

    /// Ends the burst. `name` says what has a CPU.
    #[must_use]
    pub fn close(mut self, around: &Around<'_>, name: &mut dyn FnMut(Holder) -> Key) -> Vec<Shares> {
        for runs in &mut self.runs {
            runs.sort_unstable_by_key(|run| run.from);
        }
        self.waits.sort_unstable();
        let (begin, end) = (around.begin.1, around.end.1.max(around.begin.1 + 1));
        let mut sums = Sums { names: Names::new(name), rows: Vec::new(), touched: Vec::new(), begin, end };
        let mut waits = self.waits.chunk_by(|one, other| one.slot == other.slot).peekable();
        let mut shares = |slot: usize| {
            let none = Shares { begin: around.begin.0, end: around.end.0, ..Shares::default() };
            let Some(own) = waits.next_if(|waits| usize::from(waits[0].slot) == slot) else { return none };
            let mut looks = Looks::default();
            for waits in own.chunk_by(|one, other| one.cpu == other.cpu) {
                let cpu = waits[0].cpu;
                let interrupted = (around.interrupted)(cpu);
                for piece in pieces(waits, begin, end) {
                    looks.all += piece.to - piece.from;
                    self.runs_in(cpu, piece, &mut |from, to, holder| {
                        let holder = holder.map(|holder| match holder {
                            Holder::Service(of) if usize::from(of) == slot => Holder::Own,
                            holder => holder,
                        });
                        if holder != Some(Holder::Own) {
                            looks.others += u64::from(to - from);
                            looks.threads += u64::from(to - from) * u64::from(piece.threads);
                        }
                        sums.add(from, to, piece.threads, holder, interrupted);
                    });
                }
            }
            sums.shares(around, (around.limited)(slot as Slot), &looks)
        };
        (0..self.workloads).map(&mut shares).collect()
    }

    /// What ran on a CPU within a piece; None: that is not known.
    fn runs_in(&self, cpu: u32, piece: Piece, take: &mut dyn FnMut(u32, u32, Option<Holder>)) {
        let runs = &self.runs[cpu as usize];
        let mut at = piece.from;
        for run in &runs[runs.partition_point(|run| run.to <= at)..] {
            if run.from >= piece.to {
                break;
            }
            if run.from > at {
                take(at, run.from, None);
                at = run.from;
            }
            let to = run.to.min(piece.to);
            if to > at {
                take(at, to, Some(run.holder));
                at = to;
            }
        }
        if at < piece.to {
            take(at, piece.to, None);
        }
    }
}

/// At how many instants a workload waited.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    /// CPU by CPU.
    all: u32,
    /// Of them, those at which not its own threads had the CPU …
    others: u64,
    /// … times the threads that waited.
    threads: u64,
}

/// Instants at which as many threads of a workload waited on a CPU.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u32,
    to: u32,
    threads: u32,
}

/// The waits of one workload on one CPU, as pieces within these bounds.
fn pieces(waits: &[Wait], begin: u32, end: u32) -> Vec<Piece> {
    let mut edges: Vec<(u32, bool)> = waits
        .iter()
        .map(|wait| (wait.from.max(begin), wait.to.min(end)))
        .filter(|(from, to)| from < to)
        .flat_map(|(from, to)| [(from, true), (to, false)])
        .collect();
    edges.sort_unstable();
    let (mut pieces, mut at, mut threads) = (Vec::new(), begin, 0u32);
    for (edge, begins) in edges {
        if threads > 0 && edge > at {
            pieces.push(Piece { from: at, to: edge, threads });
        }
        at = edge;
        threads = if begins { threads + 1 } else { threads - 1 };
    }
    pieces
}

/// Times of one workload at a time, by cause and slice.
struct Sums<'a> {
    names: Names<'a>,
    rows: Vec<Row>,
    /// Causes of the workload in hand.
    touched: Vec<usize>,
    begin: u32,
    end: u32,
}

impl Sums<'_> {
    /// Some threads waited at these instants; what had the CPU meanwhile.
    fn add(&mut self, from: u32, to: u32, threads: u32, holder: Option<Holder>, interrupted: Interrupted) {
        let key = match holder {
            None => UNKNOWN,
            Some(Holder::Idle) => IDLE,
            Some(Holder::Own) => OWN,
            Some(holder) => self.names.of(holder),
        };
        let (length, slices) = (u64::from(self.end - self.begin), SLICES as u64);
        let mut at = from;
        while at < to {
            let slice = u64::from(at - self.begin) * slices / length;
            let until = (self.begin + ((slice + 1) * length).div_ceil(slices) as u32).min(to);
            let time = Instants::STRETCH.0 as f64 * f64::from(until - at) * f64::from(threads);
            self.lay(slice as usize, key, time, interrupted);
            at = until;
        }
    }

    /// Lays a time to a cause, and to what interrupted it.
    fn lay(&mut self, slice: usize, key: usize, all: f64, interrupted: Interrupted) {
        let mut left = all;
        if key != IDLE {
            for (cause, part) in [(INTERRUPTS, interrupted.interrupts), (STEAL, interrupted.steal)] {
                let time = (all * part).min(left);
                if time > 0.0 {
                    self.row(cause)[slice] += time;
                    left -= time;
                }
            }
        }
        if left > 0.0 {
            self.row(key)[slice] += left;
        }
    }

    fn row(&mut self, key: usize) -> &mut Row {
        if self.rows.len() <= key {
            self.rows.resize(key + 1, [0.0; SLICES]);
        }
        if self.rows[key] == [0.0; SLICES] {
            self.touched.push(key);
        }
        &mut self.rows[key]
    }

    /// The workload's shares; then the next one's turn has come.
    fn shares(&mut self, around: &Around<'_>, limited: Nanos, looks: &Looks) -> Shares {
        let touched: Vec<(usize, Row)> =
            self.touched.drain(..).map(|key| (key, std::mem::replace(&mut self.rows[key], [0.0; SLICES]))).collect();
        let by_slice: BTreeMap<&Key, &Row> = touched.iter().map(|(key, row)| (self.names.key(*key), row)).collect();
        let mut times: BTreeMap<Key, f64> =
            by_slice.iter().map(|(key, row)| ((*key).clone(), row.iter().sum())).collect();
        if looks.others > 0 {
            hold_back(&mut times, limited.0 as f64 * looks.threads as f64 / looks.others as f64);
        }
        Shares::new(around.begin.0, around.end.0, &times, &by_slice, looks.all)
    }
}
