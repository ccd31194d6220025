//! Units onto cores: dedicated ones, those of memory-intensive work, and the rest.

use std::ops::Range;

use quell_model::view::at;
use quell_model::{ThreadId, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::Pins;
use super::classify::{Classes, Kind};

/// What is placed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Its workload.
    pub workload: WorkloadId,
    /// Its thread, where threads are bound.
    pub thread: Option<ThreadId>,
    /// Its class.
    pub kind: Kind,
    /// Its memory intensity, of the threshold.
    pub intensity: f64,
    /// Its core, by number among those of the pool.
    pub core: usize,
}

impl Unit {
    /// The same unit on the same core.
    pub fn is_placed_as(&self, other: &Unit) -> bool {
        (self.workload, self.thread, self.core) == (other.workload, other.thread, other.core)
    }
}

/// A workload has at most this many units.
const MOST: u32 = 1024;

/// All units, by workload; the buffer's memory is kept.
pub fn units(units: &mut Vec<Unit>, view: &View, classes: &Classes, pins: Pins) {
    units.clear();
    for (id, workload) in view.owned() {
        let (kind, intensity) = (classes.kind(view, id), classes.intensity(id));
        let unit = |thread| Unit { workload: id, thread, kind, intensity, core: 0 };
        if pins == Pins::Threads {
            let first = units.len();
            let own = view.threads.id.iter().zip(&view.threads.workload).filter(|(_, of)| **of == id);
            units.extend(own.map(|(thread, _)| unit(Some(*thread))));
            units[first..].sort_unstable_by_key(|unit| unit.thread);
            if units.len() > first {
                continue;
            }
        }
        let of_threads = || at(&view.workloads.thread_count, id.index()).usable().unwrap_or(1);
        let count = match workload.cpus.ceil() {
            0 => of_threads(),
            requested => requested,
        };
        units.extend((0..count.clamp(1, MOST)).map(|_| unit(None)));
    }
}

/// Numbers of cores of each kind: dedicated ones first, memory-intensive work's last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// `get_dedicated_cores`: one for each unit of a service; two of its units share a core of two hyperthreads.
    pub dedicated: usize,
    /// Cores that services lack: then they share the dedicated ones among themselves.
    pub short: usize,
    /// `get_mem_cores`: half as many as there are memory-intensive units, rounded up.
    pub memory: usize,
    cores: usize,
    /// CPUs of a core.
    threads: usize,
}

impl Division {
    /// Of this many cores of this many CPUs each, of which some are kept for others than services. Units are by workload.
    pub fn of(units: &[Unit], cores: usize, threads: usize, kept: usize) -> Division {
        let count = |kind: Kind| units.iter().filter(|unit| unit.kind == kind).count();
        let services = units.chunk_by(|a, b| a.workload == b.workload).filter(|own| own[0].kind == Kind::Service);
        let asked: usize = services.map(|own| own.len().div_ceil(threads)).sum();
        let (memory, others) = (count(Kind::Memory), count(Kind::Other));
        let most = if memory + others == 0 { cores } else { cores - kept.clamp(1, cores) };
        // Where there is one core, it is everybody's.
        let dedicated = asked.min(most);
        let shared = cores - dedicated;
        let room = if others > 0 { shared.saturating_sub(1) } else { shared };
        Division { dedicated, short: asked - dedicated, memory: memory.div_ceil(2).min(room), cores, threads }
    }

    /// Cores that are no service's.
    pub fn shared(&self) -> usize {
        self.cores - self.dedicated
    }

    /// The cores of a kind. Where one is left, it is everybody's.
    fn of_kind(&self, kind: Kind) -> Range<usize> {
        let first_memory = self.cores - self.memory;
        match kind {
            Kind::Service if self.dedicated > 0 => 0..self.dedicated,
            Kind::Memory if self.memory > 0 => first_memory..self.cores,
            Kind::Service | Kind::Memory | Kind::Other if self.dedicated < first_memory => self.dedicated..first_memory,
            Kind::Service | Kind::Memory | Kind::Other => self.dedicated..self.cores,
        }
    }
}

/// Buffers of [`assign`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buffers {
    /// Number of units and their intensity, by core.
    load: Vec<(usize, f64)>,
    /// Units of the last look that are not met again yet.
    left: Vec<Unit>,
}

impl Buffers {
    /// Nothing is in them.
    pub fn clear(&mut self) {
        self.load.clear();
        self.left.clear();
    }
}

/// Intensities this close are alike.
const ALIKE: f64 = 0.9;

/// The loop of Algorithm 5.2, in the order of line 4: each unit goes to the core of its kind with the fewest units, among
/// equals to the one of higher intensity ("get_min_vcpu_core"); among those alike (ours) it stays where it was.
pub fn assign(units: &mut [Unit], division: &Division, before: &[Unit], buffers: &mut Buffers) {
    let Buffers { load, left } = buffers;
    load.clear();
    load.resize(division.cores, (0, 0.0));
    left.clear();
    left.extend_from_slice(before);
    let mut free = 0;
    for kind in [Kind::Memory, Kind::Other, Kind::Service] {
        for own in units.chunk_by_mut(|a, b| a.workload == b.workload).filter(|own| own[0].kind == kind) {
            let mut cores = division.of_kind(kind);
            if kind == Kind::Service && division.short == 0 {
                cores = free..free + own.len().div_ceil(division.threads);
                free = cores.end;
            }
            for unit in own {
                let is_same = |old: &Unit| (old.workload, old.thread) == (unit.workload, unit.thread);
                let was = left.iter().position(is_same).map(|at| left.swap_remove(at).core);
                unit.core = get_min_vcpu_core(load, cores.clone(), was);
                load[unit.core].0 += 1;
                load[unit.core].1 += unit.intensity;
            }
        }
    }
}

fn get_min_vcpu_core(load: &[(usize, f64)], cores: Range<usize>, was: Option<usize>) -> usize {
    let fewest = cores.clone().map(|core| load[core].0).min().unwrap_or(0);
    let least = || cores.clone().filter(|&core| load[core].0 == fewest);
    let highest = least().map(|core| load[core].1).fold(0.0, f64::max);
    let mut alike = least().filter(|&core| load[core].1 >= ALIKE * highest);
    let first = alike.clone().next().unwrap_or(cores.start);
    alike.find(|&core| Some(core) == was).unwrap_or(first)
}
