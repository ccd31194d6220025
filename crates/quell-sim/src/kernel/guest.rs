//! A guest's kernel: its CPUs are threads of a host, which takes them away and gives them back.
//!
//! While a CPU is away its thread stays the current one and makes no progress, and its time is not accounted: the fair
//! clock leaves stolen time out, as with paravirtual steal accounting. What would interrupt it waits until it is back:
//! one tick, and wake-ups by interrupts and timers that come to this CPU.

use super::Kernel;
use super::state::TaskId;

/// For what joins two levels: what happened on CPUs, and what waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    /// Is this kernel a guest, or a host with guests?
    pub is_on: bool,
    /// CPUs whose thread or speed changed, or who are wanted although they are away.
    pub changed: Vec<usize>,
    /// The CPU that woke a thread last; None: something outside.
    pub waker: Option<usize>,
    /// By CPU: what waits until it is back.
    missed: Vec<Vec<Missed>>,
}

/// What came while the CPU was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missed {
    Tick,
    FairServer,
    WakeUp(TaskId, u64),
}

impl Kernel {
    /// From now on changes on CPUs are noted.
    pub(crate) fn note_changes(&mut self) {
        self.levels.is_on = true;
        self.levels.missed = vec![Vec::new(); self.cpus.len()];
    }

    /// As [`Kernel::note_changes`], and no CPU is there yet.
    pub(crate) fn become_guest(&mut self) {
        self.note_changes();
        self.cpus.iter_mut().for_each(|cpu| cpu.away = true);
    }

    pub(crate) fn note(&mut self, cpu: usize) {
        if self.levels.is_on {
            self.levels.changed.push(cpu);
        }
    }

    /// Would the CPU do something if it were there?
    pub(crate) fn is_wanted(&self, cpu: usize) -> bool {
        self.cpus[cpu].current.is_some() || self.cpus[cpu].pending || !self.levels.missed[cpu].is_empty()
    }

    /// The host takes the CPU away.
    pub(crate) fn take_away(&mut self, cpu: usize) {
        self.account(cpu);
        let seen = &mut self.cpus[cpu];
        seen.away = true;
        // What is left of a switch's cost is paid later.
        seen.work_from = seen.work_from.saturating_sub(self.now);
        self.timers.cancel(seen.stop);
    }

    /// The host gives the CPU back, at this speed; it is in the guest from this time on.
    pub(crate) fn bring_back(&mut self, cpu: usize, speed: u64, enters_at: u64) {
        let seen = &mut self.cpus[cpu];
        (seen.away, seen.accounted, seen.speed, seen.enters_at) = (false, self.now, speed, enters_at);
        seen.work_from += enters_at;
        if seen.pending {
            self.masks.pending.push(cpu);
        }
        self.set_stop(cpu);
        for missed in std::mem::take(&mut self.levels.missed[cpu]) {
            match missed {
                Missed::Tick => self.tick(cpu),
                Missed::FairServer => self.serve_fair(cpu),
                Missed::WakeUp(task, work) => self.wake(task, work, Some(cpu)),
            }
        }
    }

    /// The CPU makes no progress for this long: it is in the host.
    pub(crate) fn hold(&mut self, cpu: usize, delay: u64) {
        self.account(cpu);
        let now = self.now;
        let seen = &mut self.cpus[cpu];
        seen.enters_at = seen.enters_at.max(now) + delay;
        seen.work_from = seen.work_from.max(now) + delay;
        self.set_stop(cpu);
    }

    pub(crate) fn miss_tick(&mut self, cpu: usize) {
        self.levels.missed[cpu].push(Missed::Tick);
    }

    pub(crate) fn miss_fair_server(&mut self, cpu: usize) {
        self.levels.missed[cpu].push(Missed::FairServer);
    }

    /// An interrupt that wakes this thread waits for its CPU.
    pub(crate) fn wake_later(&mut self, cpu: usize, task: TaskId, work: u64) {
        self.levels.missed[cpu].push(Missed::WakeUp(task, work));
        self.levels.waker = Some(cpu);
        self.levels.changed.push(cpu);
    }

    /// The thread is not to be woken any more.
    pub(crate) fn forget_missed(&mut self, task: TaskId) {
        for missed in &mut self.levels.missed {
            missed.retain(|missed| !matches!(missed, Missed::WakeUp(other, _) if *other == task));
        }
    }
}
