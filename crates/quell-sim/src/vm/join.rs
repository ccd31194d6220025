//! Host and guests are brought in line after everything that happened: who runs where, who halts, who is called.

use quell_model::Nanos;

use super::{State, Vm};
use crate::kernel::{ENDLESS, Kernel, Timer};
use crate::sim::{Owner, Sim, handle};

/// Which vCPU runs on a CPU of the host: VM and number.
pub(crate) type Guest = (usize, usize);

impl Sim {
    /// The next thing that is due on any level. At the same time guests come first: work that ends when its vCPU is
    /// taken away has ended.
    pub(crate) fn step_levels(&mut self, until: Nanos) -> bool {
        let due = |kernel: &mut Kernel| kernel.timers.next().unwrap_or(u64::MAX);
        let guests = self.vms.iter_mut().map(|vm| due(&mut vm.guest)).enumerate();
        let guest = guests.min_by_key(|&(_, at)| at).filter(|&(_, at)| at <= due(&mut self.kernel)).map(|(vm, _)| vm);
        let level = match guest {
            None => &mut self.kernel,
            Some(vm) => &mut self.vms[vm].guest,
        };
        let Some((at, timer)) = level.timers.pop(until.0) else { return false };
        self.kernel.now = at;
        match guest {
            Some(vm) => {
                let vm = &mut self.vms[vm];
                (vm.guest.now, vm.guest.levels.waker) = (at, None);
                handle(&mut vm.guest, &mut self.loads, &mut self.graphs, &vm.owners, timer);
            }
            None if matches!(timer, Timer::Cache(_) | Timer::Settings) => self.expire_contention(timer),
            None => {
                if let Some((vm, vcpu)) =
                    handle(&mut self.kernel, &mut self.loads, &mut self.graphs, &self.owners, timer)
                {
                    let vm = &mut self.vms[vm];
                    match timer {
                        Timer::Stop(_) => vm.halt(vcpu, &mut self.kernel),
                        _ => vm.arrive(vcpu, &mut self.kernel),
                    }
                }
            }
        }
        self.settle();
        true
    }

    /// Lets every CPU of the host and of all guests pick that has to.
    pub(crate) fn settle_levels(&mut self) {
        loop {
            self.follow_host();
            let mut acted = false;
            for vm in &mut self.vms {
                vm.guest.now = self.kernel.now;
                vm.guest.settle();
                acted |= vm.follow_guest(&mut self.kernel);
                acted |= vm.end_polls(&mut self.kernel);
            }
            self.settle_host();
            if !acted && self.kernel.levels.changed.is_empty() {
                return;
            }
        }
    }

    /// vCPUs whose threads the host stopped leave their guests; those that it began to run enter.
    fn follow_host(&mut self) {
        let mut changed = std::mem::take(&mut self.kernel.levels.changed);
        for &cpu in &changed {
            let now_on = self.vcpu_on(cpu);
            if let Some((vm, vcpu)) = self.guests[cpu].filter(|_| self.guests[cpu] != now_on) {
                self.guests[cpu] = None;
                self.vms[vm].leave(vcpu, self.kernel.now);
            }
        }
        for cpu in changed.drain(..) {
            let Some((vm, vcpu)) = self.vcpu_on(cpu) else { continue };
            if self.guests[cpu].is_none() {
                self.guests[cpu] = Some((vm, vcpu));
                self.vms[vm].enter(vcpu, cpu, &self.kernel);
            } else {
                self.vms[vm].stay(vcpu, cpu, &self.kernel);
            }
        }
        self.kernel.levels.changed = changed;
    }

    fn vcpu_on(&self, cpu: usize) -> Option<Guest> {
        match self.owners[self.kernel.cpus[cpu].current?.0 as usize] {
            Owner::Vcpu { vm, cpu } => Some((vm as usize, cpu as usize)),
            Owner::Thread { .. } => None,
        }
    }
}

impl Vm {
    fn leave(&mut self, vcpu: usize, now: u64) {
        self.guest.now = now;
        self.cpus[vcpu].on = None;
        self.guest.take_away(vcpu);
    }

    fn enter(&mut self, vcpu: usize, cpu: usize, host: &Kernel) {
        self.guest.now = host.now;
        let seen = &host.cpus[cpu];
        let in_host_until = seen.work_from.max(host.now);
        (self.cpus[vcpu].on, self.cpus[vcpu].in_host_until) = (Some(cpu), in_host_until);
        self.guest.bring_back(vcpu, seen.speed, in_host_until + host.config.costs.vm_entry.0);
        self.guest.note(vcpu);
    }

    /// It runs on where it ran: at another speed, or after a tick of the host.
    fn stay(&mut self, vcpu: usize, cpu: usize, host: &Kernel) {
        self.guest.now = host.now;
        let seen = &host.cpus[cpu];
        let before = self.cpus[vcpu].in_host_until.max(host.now);
        if seen.work_from > before {
            self.cpus[vcpu].in_host_until = seen.work_from;
            self.guest.hold(vcpu, seen.work_from - before);
        }
        self.guest.set_pace(vcpu, seen.speed);
    }

    /// vCPUs that have nothing to do halt; those that are wanted are called. Says whether something was reported to the host.
    fn follow_guest(&mut self, host: &mut Kernel) -> bool {
        let mut acted = false;
        let mut changed = std::mem::take(&mut self.guest.levels.changed);
        for vcpu in changed.drain(..) {
            let is_wanted = self.guest.is_wanted(vcpu);
            let seen = &mut self.cpus[vcpu];
            match seen.state {
                State::Guest if !is_wanted && seen.on.is_some() => {
                    self.exits.halts += 1;
                    self.leave_guest(vcpu, host);
                }
                State::Polling if is_wanted => self.find_work(vcpu, host),
                State::Halting(until) if is_wanted => {
                    seen.state = State::Guest;
                    let task = seen.task;
                    host.continue_with(task, ENDLESS);
                    if self.cpus[vcpu].on.is_some() {
                        let delay = until.saturating_sub(host.now) + host.config.costs.vm_entry.0;
                        self.guest.hold(vcpu, delay);
                    }
                }
                State::Halted if is_wanted && seen.called.is_none() => self.call(vcpu, host),
                _ => continue,
            }
            acted = true;
        }
        self.guest.levels.changed = changed;
        acted
    }

    /// An interrupt is sent to a halted vCPU. A vCPU that sends one is in the host meanwhile.
    fn call(&mut self, vcpu: usize, host: &mut Kernel) {
        let (task, cost) = (self.cpus[vcpu].task, host.config.costs.ipi.0);
        let from = match self.guest.levels.waker {
            None => None,
            Some(waker) => match self.cpus[waker].on {
                Some(cpu) => {
                    self.guest.hold(waker, cost);
                    Some(cpu)
                }
                None => host.interrupted(task, &mut self.interrupts),
            },
        };
        self.cpus[vcpu].called = Some(from);
        self.exits.interrupts += 1;
        host.timers.set(host.task(task).timer, host.now + cost);
    }

    /// The interrupt arrives: the vCPU's thread wakes up.
    pub fn arrive(&mut self, vcpu: usize, host: &mut Kernel) {
        let seen = &mut self.cpus[vcpu];
        let from = seen.called.take().flatten();
        if seen.state == State::Halted {
            seen.state = State::Guest;
            seen.poll.learn(host.now, host.config.halt_poll.0);
            host.wake(seen.task, ENDLESS, from);
        }
    }

    /// The vCPU's thread has left the guest and goes to sleep, or has looked for work in vain.
    pub fn halt(&mut self, vcpu: usize, host: &mut Kernel) {
        if self.cpus[vcpu].state == State::Polling {
            return self.go_to_sleep(vcpu, host);
        }
        self.cpus[vcpu].state = State::Halted;
        host.block(self.cpus[vcpu].task);
    }
}
