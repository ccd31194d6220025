//! What the simulated kernel is set to, and what its actions cost.

use quell_model::{Nanos, PreemptionMode};
use serde::{Deserialize, Serialize};

use crate::mechanisms::{Like, Mechanism, Mechanisms};

/// The scheduler of ordinary threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FairScheduler {
    /// Earliest eligible virtual deadline first (Linux from 6.6 on; modelled after 6.18).
    #[default]
    Eevdf,
    /// The completely fair scheduler (Linux up to 6.5), which the papers ran on.
    Cfs,
    /// Borrowed virtual time (Duda and Cheriton, SOSP 1999) over the same tree of groups; the wake-up granularity is its
    /// context-switch allowance.
    Bvt,
}

/// On which CPU the interrupt comes that brings a request. A thread that wakes up there is looked at when the interrupt
/// returns, even if preemption is lazy; on another CPU it waits for the tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// On any, all equally likely (receive-side scaling as it is by default).
    #[default]
    Spread,
    /// Where the thread ran last (accelerated flow steering).
    LastCpu,
    /// On none of these: a device, or a core of its own, puts requests into memory and wakes threads from afar.
    Elsewhere,
}

/// What keeps real-time threads from starving ordinary ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RealTimeLimit {
    /// Nothing.
    None,
    /// A deadline server gives starved ordinary threads 50 ms a second (Linux from 6.12 on).
    #[default]
    FairServer,
    /// Real-time threads have 950 ms of each CPU every second, whether or not others want the rest (Linux before 6.12).
    Throttling,
}

/// By which loads a group's weight is spread over the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loads {
    /// What is queued at the moment: a group's part on a CPU follows at once.
    Present,
    /// What was queued lately, as in the kernel: the past counts half after 34 ms.
    #[default]
    Decaying,
}

/// How the kernel looks for an idle CPU for a thread that woke up, and what a CPU that goes idle does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleSearch {
    /// All CPUs that share the cache; a CPU that goes idle pulls unless its idle times are shorter than the look.
    #[default]
    Whole,
    /// Linux 5.3's `select_idle_cpu` (`SIS_PROP`): as many CPUs as the waking CPU's idle times pay for, at least three; a CPU
    /// that goes idle pulls only if its idle times are longer than `migration_cost` (`newidle_balance`).
    Proportional,
}

/// The kernel's settings. Sizes that depend on the number of CPUs are worked out as the kernel does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelConfig {
    /// The real kernel that it is set like, where a scene sets nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<Like>,
    /// Which fair scheduler.
    pub fair: FairScheduler,
    /// When a running ordinary thread gives way to one that woke up.
    pub preemption: PreemptionMode,
    /// Where requests' interrupts come.
    pub interrupts: Interrupts,
    /// Distance of the ticks (4 ms: HZ 250).
    pub tick: Nanos,
    /// EEVDF's slice; None: the kernel's, 0.7 ms × (1 + log2(CPUs up to 8)).
    pub base_slice: Option<Nanos>,
    /// CFS's `sched_latency`; None: the kernel's, 6 ms × (1 + log2(CPUs up to 8)).
    pub latency: Option<Nanos>,
    /// CFS's `sched_min_granularity`; None: 0.75 ms × the same factor.
    pub min_granularity: Option<Nanos>,
    /// CFS's `sched_wakeup_granularity`; None: 1 ms × the same factor.
    pub wakeup_granularity: Option<Nanos>,
    /// What a CPU takes of a group's quota at once (`sched_cfs_bandwidth_slice_us`).
    pub bandwidth_slice: Nanos,
    /// A thread that ran this recently is not moved by the load balancer (`sched_migration_cost_ns`).
    pub migration_cost: Nanos,
    /// Where threads that wake up look for idle CPUs.
    pub idle_search: IdleSearch,
    /// A vCPU that has nothing to do looks for work for at most this long before it sleeps, as the only thread of its CPU (KVM's
    /// `halt_poll_ns`, 200 µs on x86); how long exactly, its last times show.
    pub halt_poll: Nanos,
    /// Real-time threads' limit.
    pub real_time_limit: RealTimeLimit,
    /// By which loads groups are weighed.
    pub loads: Loads,
    /// Does the load balancer run? Wake-up placement always does.
    pub balance: bool,
    /// What is simulated beside the rest; None: what Linux has where it has this scheduler ([`KernelConfig::mechanisms`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanisms: Option<Mechanisms>,
    /// What of that is left out all the same, so that its effect can be seen.
    #[serde(skip_serializing_if = "Mechanisms::is_empty")]
    pub without: Mechanisms,
    /// What the kernel's actions cost.
    pub costs: Costs,
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig {
            like: None,
            fair: FairScheduler::Eevdf,
            preemption: PreemptionMode::Lazy,
            interrupts: Interrupts::Spread,
            tick: Nanos::from_millis(4),
            base_slice: None,
            latency: None,
            min_granularity: None,
            wakeup_granularity: None,
            bandwidth_slice: Nanos::from_millis(5),
            migration_cost: Nanos::from_micros(500),
            idle_search: IdleSearch::Whole,
            halt_poll: Nanos::ZERO,
            real_time_limit: RealTimeLimit::FairServer,
            loads: Loads::Decaying,
            balance: true,
            mechanisms: None,
            without: Mechanisms::NONE,
            costs: Costs::default(),
        }
    }
}

impl KernelConfig {
    /// A kernel that does nothing beside what its classes' rules say, at no cost: for comparisons with theory, whose threads
    /// run by order of arrival, priority or deadline alone.
    #[must_use]
    pub fn plain() -> KernelConfig {
        KernelConfig {
            loads: Loads::Present,
            mechanisms: Some(Mechanisms::NONE),
            costs: Costs::FREE,
            ..KernelConfig::default()
        }
    }

    /// What is simulated beside the rest. Of EEVDF's kernel all that 6.18 has; of those before only that ticks have a phase: whom
    /// lag and slices belong to is EEVDF's own, `random-newidle-balance` came with 6.18, and `sis-util` with 5.19, after the papers' kernels.
    #[must_use]
    pub fn mechanisms(&self) -> Mechanisms {
        let usual = || match self.fair {
            FairScheduler::Eevdf => Mechanisms::from(Mechanism::ALL.to_vec()),
            FairScheduler::Cfs | FairScheduler::Bvt => Mechanisms::from(vec![Mechanism::TickPhase]),
        };
        self.mechanisms.unwrap_or_else(usual).less(self.without)
    }

    /// The same with its mechanisms in `mechanisms`, so that its runner need not ask for them again.
    pub(crate) fn written_out(self) -> KernelConfig {
        KernelConfig { mechanisms: Some(self.mechanisms()), without: Mechanisms::NONE, ..self }
    }

    /// What cannot be simulated, and the fix.
    ///
    /// # Errors
    /// The end of a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.tick < Nanos::from_micros(1) {
            return Err(format!("a tick of {}: give at least 1us", self.tick));
        }
        Ok(())
    }

    pub(crate) fn base_slice_of(&self, cpus: usize) -> u64 {
        self.base_slice.map_or(700_000 * factor(cpus), |slice| slice.0)
    }

    pub(crate) fn latency_of(&self, cpus: usize) -> u64 {
        self.latency.map_or(6_000_000 * factor(cpus), |latency| latency.0)
    }

    pub(crate) fn min_granularity_of(&self, cpus: usize) -> u64 {
        self.min_granularity.map_or(750_000 * factor(cpus), |granularity| granularity.0)
    }

    pub(crate) fn wakeup_granularity_of(&self, cpus: usize) -> u64 {
        self.wakeup_granularity.map_or(1_000_000 * factor(cpus), |granularity| granularity.0)
    }
}

/// Is it no time? Such keys are left out of what is written.
pub(crate) fn is_zero(time: &Nanos) -> bool {
    *time == Nanos(0)
}

/// The kernel's `get_update_sysctl_factor` with logarithmic scaling.
fn factor(cpus: usize) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}

/// What actions cost, as CPU time in which the thread makes no progress. Constants of a model, never measured while the
/// simulation runs. The defaults are round numbers of the order that is usual on today's servers; they are assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// One thread gives way to another.
    pub context_switch: Nanos,
    /// A thread that was woken comes back from its system call, before it does anything.
    pub wake_up: Nanos,
    /// The same beside that if another thread woke it, and not an interrupt.
    pub wake_up_by_thread: Nanos,
    /// An idle CPU begins to work: interrupt and exit from its idle state.
    pub idle_exit: Nanos,
    /// The thread ran last on another core that shares the last-level cache.
    pub migration_near: Nanos,
    /// It ran last beyond that cache.
    pub migration_far: Nanos,
    /// A tick.
    pub tick: Nanos,
    /// A policy's step on a host: what passes between the look and the first command.
    pub decision: Nanos,
    /// Writing one knob.
    pub knob: Nanos,
    /// Granting or revoking CPUs, all of one plan together.
    pub grant: Nanos,
    /// Each single grant or revocation beside that, where they cannot be done all at once.
    pub grant_each: Nanos,
    /// Reading counters on request.
    pub sample: Nanos,
    /// Starting a thread, for the thread that does.
    #[serde(skip_serializing_if = "is_zero")]
    pub fork: Nanos,
    /// A new thread begins, before it does anything.
    #[serde(skip_serializing_if = "is_zero")]
    pub begin: Nanos,
    /// A thread ends, after all that it did.
    #[serde(skip_serializing_if = "is_zero")]
    pub end: Nanos,
    /// A vCPU leaves its guest and goes to sleep, because the guest has nothing for it.
    pub halt: Nanos,
    /// A vCPU's thread begins to run: it is loaded and enters its guest.
    pub vm_entry: Nanos,
    /// An interrupt is sent to a halted vCPU: from the sender's exit until the vCPU's thread is woken.
    pub ipi: Nanos,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            context_switch: Nanos(1_000),
            wake_up: Nanos::ZERO,
            wake_up_by_thread: Nanos::ZERO,
            idle_exit: Nanos(2_000),
            migration_near: Nanos(2_000),
            migration_far: Nanos(10_000),
            tick: Nanos(1_000),
            decision: Nanos(1_000),
            knob: Nanos(10_000),
            grant: Nanos(5_000),
            grant_each: Nanos::ZERO,
            sample: Nanos(1_000),
            fork: Nanos::ZERO,
            begin: Nanos::ZERO,
            end: Nanos::ZERO,
            halt: Nanos(1_500),
            vm_entry: Nanos(1_000),
            ipi: Nanos(1_500),
        }
    }
}

impl Costs {
    /// Nothing costs anything: for comparisons with theory.
    pub const FREE: Costs = Costs {
        context_switch: Nanos::ZERO,
        wake_up: Nanos::ZERO,
        wake_up_by_thread: Nanos::ZERO,
        idle_exit: Nanos::ZERO,
        migration_near: Nanos::ZERO,
        migration_far: Nanos::ZERO,
        tick: Nanos::ZERO,
        decision: Nanos::ZERO,
        knob: Nanos::ZERO,
        grant: Nanos::ZERO,
        grant_each: Nanos::ZERO,
        sample: Nanos::ZERO,
        fork: Nanos::ZERO,
        begin: Nanos::ZERO,
        end: Nanos::ZERO,
        halt: Nanos::ZERO,
        vm_entry: Nanos::ZERO,
        ipi: Nanos::ZERO,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_with_the_cpus_as_in_the_kernel() {
        let config = KernelConfig::default();
        assert_eq!(
            (config.base_slice_of(1), config.base_slice_of(8), config.base_slice_of(80)),
            (700_000, 2_800_000, 2_800_000)
        );
        assert_eq!((config.latency_of(24), config.min_granularity_of(24)), (24_000_000, 3_000_000));
        assert_eq!(config.wakeup_granularity_of(2), 2_000_000);
    }

    #[test]
    fn a_kernel_has_what_linux_has_with_its_scheduler_unless_it_is_left_out() {
        let eevdf = KernelConfig::default();
        assert!(Mechanism::ALL.iter().all(|&one| eevdf.mechanisms().has(one)));
        let without = Mechanisms::from(vec![Mechanism::RandomNewidleBalance]);
        let some = KernelConfig { without, ..KernelConfig::default() }.mechanisms();
        assert!(!some.has(Mechanism::RandomNewidleBalance) && some.has(Mechanism::SisUtil));
        let cfs = KernelConfig { fair: FairScheduler::Cfs, ..KernelConfig::default() };
        assert_eq!(Vec::from(cfs.mechanisms()), [Mechanism::TickPhase]);
        assert!(KernelConfig::plain().mechanisms().is_empty());
    }
}
