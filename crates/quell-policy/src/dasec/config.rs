//! Parameters. The paper gives three numbers (§4.2): 10 % of weight and latency, 10 % between cores, twice the conflicts;
//! its period is an example. All that it leaves open is marked *ours*.

use quell_model::Nanos;

use crate::parameter::{choices, parameters};

parameters! {
    /// The parameters of `dasec`.
    pub struct DasecConfig {
        /// How often slices, latencies and cores are decided (§4.2's example, L203: 80 ms).
        period: Nanos = Nanos::from_millis(80), in Nanos::from_millis(1)..=Nanos::from_secs(10);
        /// Does the time-slice allocator run (TSA)?
        tsa: bool = true;
        /// Does the rescheduling latency adjuster run (RLA)?
        rla: bool = true;
        /// Does the resource conflict resolver run (RCR)?
        rcr: bool = true;
        /// By this part grows the weight of a thread that used its slice up (L195).
        weight_step: f64 = 0.1, in 0.001..=1.0;
        /// A thread that ran for this part of its slice used it up. Ours: the kernel switches at ticks.
        used_up: f64 = 0.95, in 0.1..=1.0;
        /// The least weight of a thread; 100 is where it begins. Ours.
        least_weight: f64 = 1.0, in 1.0..=100.0;
        /// By this part a latency is shortened (L197).
        latency_step: f64 = 0.1, in 0.001..=0.9;
        /// By this part it grows ("the component increases their rescheduling latencies", L197). Ours.
        latency_growth: f64 = 0.1, in 0.001..=10.0;
        /// Where latencies begin. Ours: Linux's `sched_wakeup_granularity_ns` on 8 CPUs and more.
        start_latency: Nanos = Nanos::from_millis(4), in Nanos::from_micros(100)..=Nanos::from_millis(100);
        /// "A minimal value allowed by the system" (L199). Ours: Linux's shortest slice.
        floor: Nanos = Nanos::from_micros(100), in Nanos::from_micros(100)..=Nanos::from_millis(100);
        /// The longest latency. Ours: Linux's `sched_latency_ns` on 8 CPUs and more.
        ceiling: Nanos = Nanos::from_millis(24), in Nanos::from_micros(100)..=Nanos::from_millis(100);
        /// What becomes of the latency of a thread that used its slice up and is still ready. Ours.
        ready_and_used: Unsaid = Unsaid::Keep;
        /// What becomes of the latency of a thread that sleeps and did not use its slice up: nothing delays it. Where it grows,
        /// then up to where it began. Ours: otherwise latencies of threads that never use their slices up only fall.
        idle_and_unused: Unsaid = Unsaid::Lengthen;
        /// Slices on two cores may differ by this part (L205).
        slice_gap: f64 = 0.1, in 0.0..=10.0;
        /// Conflicts on two cores may differ by this factor (L207).
        conflict_gap: f64 = 2.0, in 1.0..=100.0;
        /// The fewest conflicts of a core count as at least this many: twice of none. Ours.
        fewest_conflicts: u32 = 1, in 1..=1000;
        /// How long a swapped thread is bound to its core; a moment is 4 ms. Ours.
        bound: Bound = Bound::Moment;
        /// Order of the services' threads in Quell's scheduler; elsewhere it is as printed. Ours: the paper has that form alone.
        order: Order = Order::Progress;
    }
    check(config) {
        let DasecConfig { floor, ceiling, start_latency, .. } = config;
        if floor > start_latency || start_latency > ceiling {
            return Err(format!(
                "start_latency ({start_latency}) is not between floor ({floor}) and ceiling ({ceiling}): choose one between"
            ));
        }
        Ok(())
    }
}

/// Order of the services' threads where they hold CPUs as one; elsewhere the printed form runs, whatever this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As the paper has it: by weights and wake-up latencies, decided once a period.
    Printed,
    /// First come, first served among services within their share ([`quell_model::rule::next_by_progress`]), without a period.
    Progress,
}

/// What becomes of a latency in a case of which the text says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unsaid {
    /// It stays.
    Keep,
    /// It is shortened.
    Shorten,
    /// It grows.
    Lengthen,
}

/// In this time a ready thread has moved, and most sleeping ones woke. Ours: a tick at 250 Hz.
pub(super) const MOMENT: Nanos = Nanos::from_millis(4);

/// How long a swapped thread is bound to its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// For 4 ms: it changes the core, and Linux may move it on from there.
    Moment,
    /// Until the next decision: then it may use idle CPUs again.
    UntilNext,
    /// Until another swap.
    ForEver,
}

choices! {
    Order {
        Order::Printed = "printed",
        Order::Progress = "progress",
    }
}

choices! {
    Unsaid {
        Unsaid::Keep = "keep",
        Unsaid::Shorten = "shorten",
        Unsaid::Lengthen = "lengthen",
    }
}

choices! {
    Bound {
        Bound::Moment = "moment",
        Bound::UntilNext = "until-next",
        Bound::ForEver = "for-ever",
    }
}
