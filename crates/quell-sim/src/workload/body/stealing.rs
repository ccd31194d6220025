//! A work-stealing runtime, as Caladan's and Shenango's: requests are green threads, kernel threads run them.
//!
//! Every kernel thread has its own queue. A request is steered to the queue of an active thread, that is one which has
//! a CPU. A thread that has nothing takes half of another's queue, its sibling's first, looks about for a while, and
//! parks, which yields its CPU (caladan-osdi20 §5.1: "Runtimes use work stealing to balance load across the cores that are
//! allocated to them … and yield cores when they run out of work to steal"; half, the sibling and the looking about are
//! from the published source, `runtime/sched.c`).
//! Where CPUs are granted, the policy says how many threads are active: a grant unparks one, and a thread whose CPU is
//! taken puts its green thread back into its queue, for the others to steal, and parks (§5.3). Under the kernel's own
//! scheduler nothing grants CPUs; there a request that finds no thread free unparks one, as long as fewer are active than the
//! runtime has CPUs.
//!
//! With `packet` requests come as packets, each to the queue of an active thread, which makes green threads of them when it has
//! no other; with `storage` every request waits for a device in the middle of its work, and its completion comes to the queue of
//! the thread that it ran on. Both queues are stolen from, and a thread's delay is the sum over its queues (§5.1,
//! `QueueingDelay()`); the runtime's is that of the thread that has the most.

mod queues;
mod runtime;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quell_model::{CpuId, Nanos};

use super::{Request, Source};
use crate::kernel::{FULL_SPEED, Kernel, TaskId, Timer};
use crate::service::Service;
use crate::timers::TimerId;
use crate::workload::load::Common;

use queues::{Queued, Queues, pair};
pub use runtime::Runtime;

/// The time of a look that costs nothing: a running thread has work.
const LOOK: u64 = 1;

/// What a kernel thread does.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Asleep in the kernel.
    Parked,
    /// Unparked; when it runs it looks for work.
    Waking,
    /// Runs a green thread.
    Green(Request),
    /// Found nothing and looks about.
    Spinning,
    /// Has given up, and is about to sleep.
    Parking,
}

/// When a request that waits for the device arrived, what is left of its work, and its client.
type Waiting = (u64, u64, u32);

/// A runtime under way.
#[derive(Clone, Debug)]
pub(crate) struct Stealing {
    pub source: Source,
    service: Service,
    costs: Runtime,
    doing: Vec<Doing>,
    queues: Vec<Queues>,
    /// Requests that wait for the device: until when, their number, the thread, and themselves.
    devices: BinaryHeap<Reverse<(u64, u64, usize, Waiting)>>,
    device_timer: Option<TimerId>,
    devices_used: u64,
    /// Parked threads, the one that parked last at the end.
    parked: Vec<usize>,
    spinning: usize,
    queued: usize,
    /// For steering; reused.
    active: Vec<usize>,
}

impl Stealing {
    pub fn new(source: Source, service: Service, costs: Runtime, threads: usize) -> Stealing {
        Stealing {
            source,
            service,
            costs,
            doing: vec![Doing::Parked; threads],
            queues: vec![Queues::default(); threads],
            devices: BinaryHeap::new(),
            device_timer: None,
            devices_used: 0,
            parked: (0..threads).rev().collect(),
            spinning: 0,
            queued: 0,
            active: Vec::with_capacity(threads),
        }
    }

    /// A request arrives, or the device is done with some.
    pub fn due(&mut self, own: &mut Common, kernel: &mut Kernel) {
        let now = kernel.now();
        while self.devices.peek().is_some_and(|Reverse((until, ..))| *until <= now) {
            let Some(Reverse((.., thread, waiting))) = self.devices.pop() else { break };
            let request = Request { arrived: waiting.0, work: waiting.1, rest: 0, client: waiting.2 };
            self.hand_out(own, kernel, request, Some(thread));
        }
        self.set_device_timer(kernel);
        if self.source.is_due(now) {
            let client = self.source.take(own.timer, kernel);
            self.arrive(own, kernel, client);
        }
    }

    /// A request of a client's arrives.
    pub fn arrive(&mut self, own: &mut Common, kernel: &mut Kernel, client: u32) {
        own.stats.arrived += 1;
        let work = self.service.draw(&mut own.streams.services);
        let rest = if self.costs.storage == Nanos(0) { 0 } else { work / 2 };
        let arrived = self.source.came(kernel.now());
        self.hand_out(own, kernel, Request { arrived, work: work - rest, rest, client }, None);
    }

    /// A request goes to a thread: a packet to an active one, a completion to the one that it ran on, if that is active.
    fn hand_out(&mut self, own: &mut Common, kernel: &mut Kernel, request: Request, ran_on: Option<usize>) {
        let is_active = |thread: &usize| {
            !matches!(self.doing[*thread], Doing::Parked | Doing::Parking)
                && (!kernel.grants_cpus() || kernel.is_running(own.tasks[*thread]))
        };
        let is_completion = ran_on.is_some();
        let steered = ran_on.filter(is_active).or_else(|| self.steer(own, kernel));
        if let Some(thread) = steered {
            self.receive(thread, request, is_completion, kernel.now());
            if !self.rouse(own, kernel, thread) && !kernel.grants_cpus() && self.active() < cpus(own, kernel) {
                self.unpark(own, kernel, None);
            }
            return;
        }
        // None has a CPU. A thread on the way to one, or about to leave it, looks here; if there is none, one comes.
        let on_the_way = self.doing.iter().position(|doing| !matches!(doing, Doing::Parked));
        let thread = on_the_way.or_else(|| self.unpark(own, kernel, None)).unwrap_or(0);
        self.receive(thread, request, is_completion, kernel.now());
    }

    fn receive(&mut self, thread: usize, request: Request, is_completion: bool, since: u64) {
        let queues = &mut self.queues[thread];
        let queue = match (is_completion, self.costs.packet) {
            (true, _) => &mut queues.completions,
            (false, Nanos(0)) => &mut queues.green,
            (false, _) => &mut queues.packets,
        };
        queue.push_back(Queued { request, since });
        self.queued += 1;
    }

    /// The request waits for the device.
    fn wait_for_device(&mut self, own: &Common, kernel: &mut Kernel, thread: usize, request: Request) {
        let until = kernel.now() + self.costs.storage.0;
        let waiting = (request.arrived, request.rest, request.client);
        self.devices_used += 1;
        self.devices.push(Reverse((until, self.devices_used, thread, waiting)));
        if self.device_timer.is_none() {
            let workload = kernel.task(own.tasks[0]).workload;
            self.device_timer = Some(kernel.timers.add(Timer::Workload(workload)));
        }
        self.set_device_timer(kernel);
    }

    fn set_device_timer(&mut self, kernel: &mut Kernel) {
        if let (Some(timer), Some(Reverse((until, ..)))) = (self.device_timer, self.devices.peek()) {
            kernel.timers.set(timer, *until);
        }
    }

    /// The active thread to whose queue the next request goes: any, all equally likely.
    fn steer(&mut self, own: &mut Common, kernel: &Kernel) -> Option<usize> {
        self.active.clear();
        for (thread, doing) in self.doing.iter().enumerate() {
            let is_active = match doing {
                Doing::Parked | Doing::Parking => false,
                _ => !kernel.grants_cpus() || kernel.is_running(own.tasks[thread]),
            };
            if is_active {
                self.active.push(thread);
            }
        }
        let choice = own.streams.choices.below(self.active.len() as u32) as usize;
        self.active.get(choice).copied()
    }

    fn push(&mut self, thread: usize, request: Request, since: u64) {
        self.queues[thread].green.push_back(Queued { request, since });
        self.queued += 1;
    }

    /// A thread that looks about sees that there is work; the one that it was steered to, if that looks about. False:
    /// none does. Those that looked about when they lost their CPU will look as soon as they have one again.
    fn rouse(&mut self, own: &mut Common, kernel: &mut Kernel, steered: usize) -> bool {
        if self.spinning == 0 {
            return false;
        }
        let mut found = None;
        for thread in 0..self.doing.len() {
            if !matches!(self.doing[thread], Doing::Spinning) {
                continue;
            }
            if !kernel.is_running(own.tasks[thread]) {
                self.set(thread, Doing::Waking);
                kernel.continue_with(own.tasks[thread], LOOK);
            } else if found.is_none() || thread == steered {
                found = Some(thread);
            }
        }
        if let Some(thread) = found {
            self.look(own, kernel, thread);
        }
        found.is_some()
    }

    /// Unparks the thread that ran last on this CPU, or else the one that parked last.
    fn unpark(&mut self, own: &mut Common, kernel: &mut Kernel, cpu: Option<usize>) -> Option<usize> {
        let was_here = |&thread: &usize| cpu.is_some() && kernel.last_cpu(own.tasks[thread]) == cpu;
        let place = self.parked.iter().rposition(was_here).or(self.parked.len().checked_sub(1))?;
        let thread = self.parked.remove(place);
        self.doing[thread] = Doing::Waking;
        let task = own.tasks[thread];
        let waker = if cpu.is_some() { None } else { kernel.interrupted(task, &mut own.streams.interrupts) };
        kernel.wake(task, LOOK, waker);
        Some(thread)
    }

    /// A thread has done what it did.
    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        match self.doing[thread] {
            Doing::Green(request) if request.rest > 0 => {
                kernel.set_request(own.tasks[thread], None);
                self.wait_for_device(own, kernel, thread, request);
                if self.is_surplus(own, kernel) {
                    return self.park(own, kernel, thread);
                }
                self.look(own, kernel, thread);
            }
            Doing::Green(request) => {
                own.record(kernel.now() - request.arrived);
                kernel.set_request(own.tasks[thread], None);
                self.source.answer(request.client, &mut own.streams.choices, own.timer, kernel);
                if self.is_surplus(own, kernel) {
                    return self.park(own, kernel, thread);
                }
                self.look(own, kernel, thread);
            }
            Doing::Waking => self.look(own, kernel, thread),
            Doing::Spinning if self.queued == 0 => self.park(own, kernel, thread),
            Doing::Spinning => self.look(own, kernel, thread),
            // What came since then found it gone already.
            Doing::Parking if self.queued == 0 => self.sleep(own, kernel, thread),
            Doing::Parking if self.is_surplus(own, kernel) => {
                self.sleep(own, kernel, thread);
                self.rouse(own, kernel, thread);
            }
            Doing::Parking => self.look(own, kernel, thread),
            Doing::Parked => kernel.block(own.tasks[thread]),
        }
    }

    /// A thread on a CPU takes the next green thread: its own, or another's; if there is none it looks about.
    fn look(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let mut cost = self.costs.switch.0;
        if self.queues[thread].is_empty() && self.steal(own, kernel, thread) {
            cost += self.costs.steal.0;
        }
        if self.queues[thread].green.is_empty() {
            cost += self.costs.packet.0 * self.queues[thread].take_in(kernel.now());
        }
        let Some(Queued { request, .. }) = self.queues[thread].green.pop_front() else {
            if self.costs.spin.0 == 0 {
                return self.park(own, kernel, thread);
            }
            self.set(thread, Doing::Spinning);
            kernel.set_phase(own.tasks[thread], own.phases.spinning);
            return kernel.continue_with(own.tasks[thread], self.costs.spin.0);
        };
        self.queued -= 1;
        self.set(thread, Doing::Green(request));
        kernel.set_phase(own.tasks[thread], own.phases.own);
        kernel.continue_with(own.tasks[thread], cost + request.work);
        kernel.set_request(own.tasks[thread], Some(kernel.now()));
    }

    /// Threads that are not parked.
    fn active(&self) -> usize {
        self.doing.len() - self.parked.len()
    }

    /// Its CPUs became fewer, and one of its threads has to go. Where CPUs are granted the policy sees to that.
    fn is_surplus(&self, own: &Common, kernel: &Kernel) -> bool {
        !kernel.grants_cpus() && self.active() > cpus(own, kernel)
    }

    fn set(&mut self, thread: usize, doing: Doing) {
        self.spinning -= usize::from(matches!(self.doing[thread], Doing::Spinning));
        self.spinning += usize::from(matches!(doing, Doing::Spinning));
        self.doing[thread] = doing;
    }

    /// Takes half of another's queue, rounded up: of the thread on the sibling first, then of any, from a random one on.
    fn steal(&mut self, own: &mut Common, kernel: &Kernel, thief: usize) -> bool {
        if self.queued == 0 {
            return false;
        }
        let threads = self.queues.len();
        let first = own.streams.choices.below(threads as u32) as usize;
        let sibling = sibling_of(own.tasks[thief], kernel, &own.tasks);
        let all = (0..threads).map(|turn| (first + turn) % threads);
        let mut victims = sibling.into_iter().chain(all);
        let Some(victim) = victims.find(|&victim| victim != thief && !self.queues[victim].is_empty()) else {
            return false;
        };
        let (from, to) = pair(&mut self.queues, victim, thief);
        for (from, to) in from.all_mut().into_iter().zip(to.all_mut()) {
            let half = from.len().div_ceil(2);
            to.extend(from.drain(..half));
        }
        true
    }

    fn park(&mut self, own: &Common, kernel: &mut Kernel, thread: usize) {
        if self.costs.park.0 == 0 {
            return self.sleep(own, kernel, thread);
        }
        self.set(thread, Doing::Parking);
        kernel.continue_with(own.tasks[thread], self.costs.park.0);
    }

    fn sleep(&mut self, own: &Common, kernel: &mut Kernel, thread: usize) {
        self.set(thread, Doing::Parked);
        self.parked.push(thread);
        kernel.block(own.tasks[thread]);
    }

    /// A thread's CPU went to somebody else: its green thread goes back into its queue, for others to steal. If no other
    /// can run it waits for the next CPU, so that the kernel knows that there is work; else it parks.
    pub fn preempted(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let task = own.tasks[thread];
        if !kernel.is_runnable(task) || kernel.is_running(task) {
            return;
        }
        if let Doing::Green(request) = self.doing[thread] {
            let work = kernel.task(task).left.div_ceil(FULL_SPEED);
            kernel.set_request(task, None);
            self.push(thread, Request { work, ..request }, kernel.now());
        }
        let others = own.tasks.iter().any(|&other| other != task && kernel.is_runnable(other));
        if others || self.queued == 0 {
            self.sleep(own, kernel, thread);
            self.rouse(own, kernel, thread);
        } else {
            self.set(thread, Doing::Waking);
            kernel.continue_with(task, LOOK);
        }
    }

    /// A CPU was granted: a parked thread comes to it, unless one that can run is already waiting for it.
    pub fn granted(&mut self, own: &mut Common, kernel: &mut Kernel, cpu: usize) {
        let workload = kernel.task(own.tasks[0]).workload as usize;
        if kernel.unused_grants(workload) > 0 {
            self.unpark(own, kernel, Some(cpu));
        }
    }

    /// CPU time of a request on average, ns.
    pub fn mean_service(&self) -> f64 {
        self.service.mean()
    }

    /// Since when something has waited, as if a thread's queues were one after the other; of the thread that has the most.
    pub fn oldest_waiting(&self, now: u64) -> Option<u64> {
        self.queues.iter().filter_map(|queues| queues.delay(now)).max().map(|delay| now.saturating_sub(delay))
    }
}

/// CPUs on which its threads may run; at least one.
fn cpus(own: &Common, kernel: &Kernel) -> usize {
    kernel.task(own.tasks[0]).allowed.len().max(1)
}

/// The thread of these that runs on the sibling of a thread's CPU.
fn sibling_of(task: TaskId, kernel: &Kernel, tasks: &[TaskId]) -> Option<usize> {
    let here = CpuId(kernel.last_cpu(task)? as u32);
    let siblings = kernel.topology.siblings_of(here);
    let running = siblings.iter().filter_map(|cpu| kernel.running_on(cpu));
    // A workload's threads are numbered in a row.
    running.filter_map(|task| task.0.checked_sub(tasks[0].0)).map(|at| at as usize).find(|&at| at < tasks.len())
}
