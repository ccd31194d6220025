//! A measured run over all services: reads the machine's processes, traces or samples their threads, and ranks the losses.

use std::collections::HashMap;
use std::time::Duration;

use quell_linux::procfs::ProcFs;
use quell_linux::target::{Kind, Processes, Service, services};
use quell_model::{Nanos, foreign};
use quell_thread::clock::now;
use quell_trace::{Losses as Missed, MAX_SLOTS, Slot};
use serde::Serialize;

use super::limits::Limits;
use super::ranking::{Cause, Losses, Row, rank};
use super::sampled::Sampled;
use super::traced::Traced;
use super::waits::{Holder, Lost};
use crate::report::{name_of, without_number};
use crate::sample::MachineTimes;
use crate::{GapError, Machine, Method};

/// Interval of reading the ring.
const DRAIN_EVERY: Nanos = Nanos::from_millis(20);
/// Less says nothing.
const SHORTEST: Nanos = Nanos::from_millis(100);

/// What the services lost.
#[derive(Clone, Debug, Serialize)]
pub struct Services {
    /// Length of the window, in nanoseconds.
    pub window: Nanos,
    /// CPUs of the machine.
    pub cpus: u32,
    /// All services, the one that lost most first.
    pub services: Vec<Row>,
    /// The reason for the estimate, if it is one.
    pub inexact: Option<String>,
    /// Losses of tracing.
    pub losses: Missed,
    /// Scheduling events that were accounted for.
    pub events: u64,
    /// CPU time of interrupts, in nanoseconds, where the kernel counts it: the threads that they interrupted had the CPU.
    pub interrupts: Nanos,
    /// Steal time, in nanoseconds of CPU time; it counts as run time.
    pub steal: Nanos,
    /// The window was ended before its time.
    pub interrupted: bool,
}

/// How to measure the threads are watched.
enum Means {
    Traced(Box<Traced>),
    Sampled(Sampled),
}

/// The services that have a slot, and what all threads are.
pub(super) struct Cast {
    /// By slot; the last may stand for all that found no slot.
    pub services: Vec<Service>,
    /// By process: its slot; none if it is the kernel's or Quell's.
    pub slots: HashMap<i32, Option<Slot>>,
}

impl Cast {
    /// Gives services their slots: those with the most processes first, and the last slot to all that are left.
    pub fn new(processes: &Processes, most: usize) -> Cast {
        let (mut users, others): (Vec<_>, Vec<_>) = services(processes).into_iter().partition(Service::is_users);
        if users.len() > most {
            users.sort_by_key(|service| std::cmp::Reverse(service.pids.len()));
            let rest = users.split_off(most - 1);
            let name = format!("{} others", rest.len());
            let pids: Vec<i32> = rest.into_iter().flat_map(|service| service.pids).collect();
            users.push(Service { kind: Kind::Command(0), name, pids, user: None });
        }
        let of = |(slot, service): (usize, &Service)| {
            service.pids.iter().map(move |pid| (*pid, Some(slot as Slot))).collect::<Vec<_>>()
        };
        let mut slots: HashMap<i32, Option<Slot>> = users.iter().enumerate().flat_map(of).collect();
        slots.extend(others.iter().flat_map(|service| &service.pids).map(|pid| (*pid, None)));
        Cast { services: users, slots }
    }

    /// The slot of a process; one that was not there before belongs to the service of its parent. None if it vanished.
    pub fn slot_of(&mut self, proc: &mut ProcFs, pid: i32) -> Result<Option<Option<Slot>>, GapError> {
        if let Some(slot) = self.slots.get(&pid) {
            return Ok(Some(*slot));
        }
        let Some(stat) = proc.stat(pid, pid)? else { return Ok(None) };
        let slot = self.slots.get(&stat.parent).copied().flatten().filter(|_| !stat.is_kernels);
        self.slots.insert(pid, slot);
        Ok(Some(slot))
    }
}

/// Watches all services of the machine for this time. `progress` gets the elapsed part; if it returns `false`, the window ends
/// there and the report is of the time so far. `processes` is a reading of a moment ago.
///
/// # Errors
/// [`GapError::Interrupted`] if less than 100 ms were over then; if procfs cannot be read, or exact accounts are demanded and
/// the kernel does not allow tracing.
pub fn watch(
    length: Nanos,
    method: Method,
    machine: &Machine,
    processes: &Processes,
    progress: &mut dyn FnMut(Nanos) -> bool,
) -> Result<Services, GapError> {
    let mut proc = ProcFs::open(&machine.proc)?;
    let mut cast = Cast::new(processes, MAX_SLOTS);
    let limits = Limits::of(&machine.proc);
    let groups: Vec<_> = cast.services.iter().map(|service| limits.group_of(*service.pids.first()?)).collect();
    let held_back = || groups.iter().map(|group| group.as_ref().map(|group| limits.held_back(group)));
    let (mut means, inexact) = match method {
        Method::Estimate => (None, Some("an estimate was asked for".to_owned())),
        Method::Exact | Method::Both => (Some(Means::Traced(Box::new(Traced::begin(&mut proc, &mut cast)?))), None),
        Method::Auto => match Traced::begin(&mut proc, &mut cast) {
            Ok(traced) => (Some(Means::Traced(Box::new(traced))), None),
            Err(error) => (None, Some(error.to_string())),
        },
    };
    let means = means.get_or_insert_with(|| Means::Sampled(Sampled::new(cast.services.len())));
    let before = (MachineTimes::read(&machine.proc, &machine.cpus)?, held_back().collect::<Vec<_>>());
    let begin = now();
    let mut end = begin + length;
    match means {
        Means::Traced(traced) => traced.begin_window(cast.services.len(), machine.cpus, begin)?,
        Means::Sampled(sampled) => sampled.take(&mut proc, &mut cast)?,
    }
    while now() < end {
        std::thread::sleep(Duration::from(DRAIN_EVERY.min(end.since(now()))));
        match means {
            Means::Traced(traced) => traced.feed(end)?,
            Means::Sampled(sampled) if sampled.is_due() => sampled.take(&mut proc, &mut cast)?,
            Means::Sampled(_) => {}
        }
        if !progress(now().since(begin).min(length)) {
            end = end.min(now());
            if end.since(begin) < SHORTEST {
                return Err(GapError::Interrupted);
            }
        }
    }
    let (lost, losses, events): (Vec<Lost>, Missed, u64) = match means {
        Means::Traced(traced) => {
            traced.feed(end)?;
            (traced.close(end), traced.losses(), traced.events())
        }
        Means::Sampled(sampled) => {
            sampled.take(&mut proc, &mut cast)?;
            (sampled.close(), Missed::default(), 0)
        }
    };
    let after = MachineTimes::read(&machine.proc, &machine.cpus)?;
    let limited: Vec<Nanos> = before.1.iter().zip(held_back()).map(|(before, after)| span(*before, after)).collect();
    let means = &*means;
    let ended = |tid| match means {
        Means::Traced(traced) => traced.name_of_ended(tid),
        Means::Sampled(_) => None,
    };
    let named = |holder| named(holder, &cast, processes, machine, &ended);
    let row = |((service, lost), limited): ((&Service, &Lost), &Nanos)| Row {
        name: service.name.clone(),
        kind: kind(&service.kind),
        target: target(&service.kind),
        user: service.user,
        pids: service.pids.clone(),
        processes: service.pids.len(),
        losses: Losses::of(lost, *limited, &named),
    };
    let mut rows: Vec<Row> = cast.services.iter().zip(&lost).zip(&limited).map(row).collect();
    rank(&mut rows);
    let window = end.since(begin);
    Ok(Services {
        window,
        cpus: machine.cpus.len() as u32,
        services: rows,
        inexact,
        losses,
        events,
        interrupts: after.interrupts - before.0.interrupts,
        steal: after.steal - before.0.steal,
        interrupted: window < length,
    })
}

fn span(before: Option<Nanos>, after: Option<Nanos>) -> Nanos {
    before.zip(after).map_or(Nanos::ZERO, |(before, after)| after.since(before))
}

fn kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Unit(_) => "unit",
        Kind::Container(_) => "container",
        Kind::Command(_) | Kind::Kernel | Kind::Quell => "command",
    }
}

/// The word that means exactly this service; empty for several together.
fn target(kind: &Kind) -> String {
    match kind {
        Kind::Unit(unit) => unit.clone(),
        Kind::Container(id) => format!("container:{}", id.get(..12).unwrap_or(id)),
        // Services that found no slot of their own.
        Kind::Command(0) | Kind::Kernel | Kind::Quell => String::new(),
        Kind::Command(root) => root.to_string(),
    }
}

/// What had a CPU, by its name.
fn named(
    holder: Holder,
    cast: &Cast,
    processes: &Processes,
    machine: &Machine,
    ended: &dyn Fn(i32) -> Option<String>,
) -> (Cause, String) {
    let tid = match holder {
        Holder::Service(slot) => {
            let name = cast.services.get(usize::from(slot)).map_or("", |service| &service.name);
            return (Cause::Service, name.to_owned());
        }
        Holder::Idle | Holder::Own => return (Cause::Idle, "CPUs out of idle".to_owned()),
        Holder::Thread(tid) => tid,
    };
    if let Some(process) = processes.get(tid).filter(|process| process.is_kernels) {
        return (Cause::Kernel, foreign::text(without_number(&process.comm)).into_owned());
    }
    let is_kernels = || ProcFs::open(&machine.proc).ok()?.stat(tid, tid).ok()?.map(|stat| stat.is_kernels);
    match name_of(&machine.proc, tid) {
        Some(name) if is_kernels() == Some(true) => (Cause::Kernel, without_number(&name).to_owned()),
        Some(name) if processes.get(tid).is_some_and(|process| process.is_quells) => (Cause::Quell, name),
        Some(name) => (Cause::Thread, name),
        None => ended(tid)
            .map_or((Cause::Thread, "(ended)".to_owned()), |name| (Cause::Thread, without_number(&name).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use quell_linux::target::Process;

    use super::*;

    #[test]
    fn services_without_a_slot_share_the_last_one_and_the_kernel_has_none() {
        let process = |pid: i32, parent: i32| Process {
            pid,
            parent,
            start: u64::from(pid.cast_unsigned()),
            comm: format!("p{pid}"),
            is_kernels: pid == 2,
            ..Process::default()
        };
        let lines = [(2, 0), (10, 1), (11, 10), (12, 10), (20, 1), (21, 20), (30, 1), (40, 1)];
        let processes: Processes = lines.map(|(pid, parent)| process(pid, parent)).into_iter().collect();
        let cast = Cast::new(&processes, 3);
        let names: Vec<&str> = cast.services.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["p10", "p20", "2 others"]);
        assert_eq!([2, 12, 21, 30, 40].map(|pid| cast.slots[&pid]), [None, Some(0), Some(1), Some(2), Some(2)]);
        assert_eq!(cast.services.iter().map(|service| target(&service.kind)).collect::<Vec<_>>(), ["10", "20", ""]);
        assert_eq!(Cast::new(&processes, 4).services.len(), 4);
    }
}
