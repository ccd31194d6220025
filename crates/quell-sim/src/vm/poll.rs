//! Polling before a halt: after KVM's `kvm_vcpu_block` and `halt_poll_ns` (Linux 5.3, `virt/kvm/kvm_main.c`).
//!
//! A vCPU that its guest has nothing for first looks for work for a while, as long as its thread is the only one that can run
//! on its CPU. To the host it is busy meanwhile. The while doubles when the vCPU was wanted again soon, and is none after a
//! long time asleep.

use super::{State, Vm};
use crate::kernel::{ENDLESS, Kernel};

/// The first while, ns (`halt_poll_ns_grow_start`).
const FIRST: u64 = 10_000;

/// How long a vCPU polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    length: u64,
    /// When it was last found that there is nothing to do.
    began: u64,
}

impl Window {
    /// The vCPU is wanted again. `most`: the longest while, ns.
    pub fn learn(&mut self, now: u64, most: u64) {
        let idle = now - self.began;
        if idle <= self.length {
            return;
        }
        if idle > most {
            self.length = 0;
        } else if self.length < most {
            self.length = (self.length * 2).max(FIRST).min(most);
        }
    }
}

impl Vm {
    /// The guest has nothing for a vCPU that runs.
    pub(super) fn leave_guest(&mut self, vcpu: usize, host: &mut Kernel) {
        let seen = &mut self.cpus[vcpu];
        seen.poll.began = host.now;
        let length = seen.poll.length.min(host.config.halt_poll.0);
        if length == 0 {
            return self.go_to_sleep(vcpu, host);
        }
        seen.state = State::Polling;
        self.polling.push(vcpu);
        host.continue_with(seen.task, length);
    }

    pub(super) fn go_to_sleep(&mut self, vcpu: usize, host: &mut Kernel) {
        let (cost, seen) = (host.config.costs.halt.0, &mut self.cpus[vcpu]);
        seen.state = State::Halting(host.now + cost);
        host.continue_with(seen.task, cost);
    }

    /// A vCPU that polls is wanted again: it enters its guest.
    pub(super) fn find_work(&mut self, vcpu: usize, host: &mut Kernel) {
        let seen = &mut self.cpus[vcpu];
        seen.state = State::Guest;
        seen.poll.learn(host.now, host.config.halt_poll.0);
        host.continue_with(seen.task, ENDLESS);
        if seen.on.is_some() {
            self.guest.hold(vcpu, host.config.costs.vm_entry.0);
        }
    }

    /// Nothing polls where another thread could run. Says whether something was reported to the host.
    pub(super) fn end_polls(&mut self, host: &mut Kernel) -> bool {
        let mut ended = false;
        for at in (0..self.polling.len()).rev() {
            let vcpu = self.polling[at];
            if self.cpus[vcpu].state != State::Polling {
                self.polling.swap_remove(at);
                continue;
            }
            if host.runnable(host.task(self.cpus[vcpu].task).cpu) > 1 {
                self.polling.swap_remove(at);
                self.go_to_sleep(vcpu, host);
                ended = true;
            }
        }
        ended
    }
}
