//! Requests of programs that export when they begin. The BPF program ends a ban by its own clock of requests; here a ban for an
//! exported request is kept up by that clock for as long as the program says that the request runs, and ended when it does not.
//! The BPF program knows nothing of it: a ban of a program that lies or dies ends with its thread's turn on the CPU, as all do.

use std::sync::atomic::Ordering::Acquire;

use quell_linux::scheduler::Working;
use quell_model::{CpuId, CpuSet, Nanos, Rule, Topology};

use crate::Grant;
use crate::layout::{CpuState, MAX_SLOTS};

/// The slot of all that is no workload's; that of an idle CPU is larger.
const SYSTEM: u32 = MAX_SLOTS as u32;
/// How long all latency-critical workloads have to export before system calls are not traced any more: to attach costs more.
const SETTLED: Nanos = Nanos::from_secs(10);

/// What programs say.
#[derive(Debug, Default)]
pub(super) struct Exported {
    /// Ascending by thread.
    workers: Vec<Working>,
    /// Since when each latency-critical workload exports; None: not each does.
    covered_since: Option<Nanos>,
    /// By CPU: for which exported request its siblings are banned.
    bans: Vec<Option<Nanos>>,
}

/// The request on a CPU, as an observation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The thread there is no worker: by the BPF program's clock.
    Guessed,
    /// The thread there is a worker: when its request began; None: it runs none.
    Exported(Option<Nanos>),
}

impl Exported {
    pub fn take(&mut self, workers: &[Working], covered: bool, now: Nanos) {
        self.workers.clear();
        self.workers.extend_from_slice(workers);
        self.covered_since = covered.then(|| self.covered_since.unwrap_or(now));
    }

    /// Do programs say all that the tracepoint of system calls would find out?
    pub fn covers_all(&self, now: Nanos) -> bool {
        self.covered_since.is_some_and(|since| now >= since + SETTLED)
    }

    /// What runs on a CPU in that state.
    pub fn on(&self, state: &CpuState) -> Request {
        if self.workers.is_empty() || state.runs.load(Acquire) >= SYSTEM {
            return Request::Guessed;
        }
        let tid = state.tid.load(Acquire).cast_signed();
        let found = self.workers.binary_search_by_key(&tid, |worker| worker.tid);
        found.map_or(Request::Guessed, |at| Request::Exported(self.workers[at].request))
    }

    /// The siblings of a CPU are banned for this request. Returns the start by which the BPF program knows it.
    pub fn ban(&mut self, cpu: CpuId, state: &CpuState, request: Nanos) -> Nanos {
        let is_exported = self.on(state) == Request::Exported(Some(request));
        if self.bans.len() <= cpu.index() {
            self.bans.resize(cpu.index() + 1, None);
        }
        self.bans[cpu.index()] = is_exported.then_some(request);
        match (is_exported, state.request_start.load(Acquire)) {
            (false, _) => request,
            // It stopped at this moment: the next observation finds out.
            (true, 0) => Rule::NO_REQUEST,
            (true, own) => Nanos(own),
        }
    }

    /// Is the CPU's ban to change, now that this runs there? Returns what is to be banned for, by the BPF program's clock.
    pub fn follow(&mut self, cpu: CpuId, state: &CpuState, found: Request) -> Option<Nanos> {
        let place = self.bans.get_mut(cpu.index())?;
        let banned = (*place)?;
        let own = state.request_start.load(Acquire);
        if found != Request::Exported(Some(banned)) || own == 0 {
            *place = None;
            return Some(Rule::NO_REQUEST);
        }
        (state.banned_for.load(Acquire) != own).then_some(Nanos(own))
    }

    /// Keeps bans for exported requests up, or ends them.
    pub fn follow_all(&mut self, grant: &Grant, topology: &Topology) {
        let mut kicks = CpuSet::EMPTY;
        for at in 0..self.bans.len() {
            let cpu = CpuId(at as u32);
            let state = grant.cpu(cpu);
            if let Some(start) = self.follow(cpu, state, self.on(state)) {
                grant.ban(cpu, start);
                kicks = kicks.union(&topology.siblings_of(cpu));
            }
        }
        // A scheduler that does not work any more is found out by the next look.
        let _ = grant.kick(&kicks);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Release;

    use super::*;

    const CPU: CpuId = CpuId(1);

    fn running(tid: u32, own: u64) -> CpuState {
        // SAFETY: it is plain integers.
        let state: CpuState = unsafe { std::mem::zeroed() };
        state.runs.store(0, Release);
        state.tid.store(tid, Release);
        state.request_start.store(own, Release);
        state
    }

    fn of(workers: &[(i32, Option<u64>)]) -> Exported {
        let workers: Vec<Working> = workers.iter().map(|&(tid, at)| Working { tid, request: at.map(Nanos) }).collect();
        let mut exported = Exported::default();
        exported.take(&workers, true, Nanos(1));
        exported
    }

    #[test]
    fn a_request_is_that_of_the_thread_on_the_cpu() {
        let exported = of(&[(7, Some(100)), (9, None)]);
        let on = |tid| exported.on(&running(tid, 5));
        assert_eq!(
            [on(7), on(9), on(8)],
            [Request::Exported(Some(Nanos(100))), Request::Exported(None), Request::Guessed]
        );
        let state = running(7, 5);
        state.runs.store(SYSTEM, Release);
        assert_eq!(exported.on(&state), Request::Guessed, "it does not run any more");
    }

    #[test]
    fn a_ban_lasts_as_long_as_the_exported_request_whatever_the_threads_own_clock() {
        let mut exported = of(&[(7, Some(100))]);
        let state = running(7, 500);
        assert_eq!(exported.ban(CPU, &state, Nanos(100)), Nanos(500), "the BPF program knows it by its own start");
        state.banned_for.store(500, Release);
        let on = exported.on(&state);
        assert_eq!(exported.follow(CPU, &state, on), None);
        // The thread reads from a socket within its request: its own clock begins again.
        state.request_start.store(800, Release);
        assert_eq!(exported.follow(CPU, &state, on), Some(Nanos(800)));
        // The next request, without a sleep: its own clock says nothing.
        exported.take(&[Working { tid: 7, request: Some(Nanos(900)) }], true, Nanos(2));
        let on = exported.on(&state);
        assert_eq!(exported.follow(CPU, &state, on), Some(Rule::NO_REQUEST));
        assert_eq!(exported.follow(CPU, &state, on), None, "once");
    }

    #[test]
    fn a_guessed_request_is_banned_for_by_its_own_start() {
        let mut exported = of(&[(7, Some(100))]);
        let state = running(8, 500);
        assert_eq!(exported.ban(CPU, &state, Nanos(500)), Nanos(500));
        assert_eq!(exported.follow(CPU, &state, Request::Guessed), None, "the BPF program ends it");
    }

    #[test]
    fn system_calls_are_traced_until_all_have_exported_for_a_while() {
        let mut exported = of(&[]);
        assert!(!exported.covers_all(Nanos(2)) && exported.covers_all(Nanos(1) + SETTLED));
        exported.take(&[], false, Nanos(1) + SETTLED);
        assert!(!exported.covers_all(Nanos(1) + SETTLED + SETTLED));
    }
}
