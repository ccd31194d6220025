//! A victim's measures, window by window, since the last change of a knob.

use quell_model::trial::{Judge, Resource, Windows};
use quell_model::view::at;
use quell_model::{Nanos, View, WorkloadId};
use serde::{Deserialize, Serialize};

/// No verdict on fewer windows.
pub const LEAST: u8 = 3;
/// Windows kept of a measure.
const KEPT: usize = 8;
/// A latency older than this is not fresh.
const FRESH: Nanos = Nanos::from_secs(2);

/// The last windows of a measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ring {
    values: [f32; KEPT],
    len: u8,
    next: u8,
}

impl Ring {
    fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.values[usize::from(self.next)] = value as f32;
            self.next = (self.next + 1) % KEPT as u8;
            self.len = (self.len + 1).min(KEPT as u8);
        }
    }

    /// The value before this many others.
    fn back(&self, by: usize) -> Option<f32> {
        (usize::from(self.len) > by).then(|| self.values[(usize::from(self.next) + 2 * KEPT - 1 - by) % KEPT])
    }

    /// Only the last value is kept.
    fn keep_last(&mut self) {
        if let Some(last) = self.last() {
            *self = Ring::default();
            self.push(f64::from(last));
        }
    }

    /// Does it fall from window to window, to less than half: a queue that drains?
    fn drains(&self) -> bool {
        let last = (self.back(0), self.back(1), self.back(2));
        matches!(last, (Some(now), Some(before), Some(first)) if now < before && before < first && now < first / 2.0)
    }

    fn last(&self) -> Option<f32> {
        self.back(0)
    }

    fn windows(&self) -> Windows {
        let mut values = self.values;
        let values = &mut values[..usize::from(self.len)];
        values.sort_unstable_by(f32::total_cmp);
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return Windows::default() };
        let spread = (last - first) / 2.0;
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Windows { median, spread, count: self.len }
    }
}

/// A workload's measures since a time. Windows that began before are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    since: Nanos,
    /// Is the workload's latency reported at the moment?
    reported: bool,
    latency_at: Nanos,
    latency: Ring,
    counted_at: Nanos,
    cycles: Ring,
    contention: Ring,
    load_at: Nanos,
    load: Ring,
    work: Ring,
}

impl Gauge {
    /// Begins anew: a knob was turned, and shows from this time on.
    pub fn begin(&mut self, since: Nanos) {
        *self = Gauge { since, ..Gauge::default() };
    }

    /// Takes in a look. `contention`: that of the resource in question; `work`: the rate of all best-effort work.
    pub fn read(&mut self, view: &View, id: WorkloadId, contention: Option<f64>, work: Option<f64>) {
        let (columns, slot, since) = (&view.workloads, id.index(), self.since);
        let is_new = |at: Nanos, window: Nanos, last: Nanos| at > last && at <= view.now && at - window >= since;
        let latency = at(&columns.latency, slot);
        let usable = latency.usable().filter(|_| latency.at <= view.now && view.now - latency.at <= FRESH);
        self.reported = usable.is_some();
        if let Some(value) = usable.filter(|_| is_new(latency.at, latency.window, self.latency_at)) {
            self.latency_at = latency.at;
            self.latency.push(value.0 as f64 / 1e6);
            // What waited before the knob was turned says nothing about it.
            if self.latency.drains() {
                self.latency.keep_last();
            }
        }
        let (cycles, instructions) = (at(&columns.cycle_rate, slot), at(&columns.instruction_rate, slot));
        let counted = cycles.usable().zip(instructions.usable()).filter(|(_, instructions)| *instructions > 0.0);
        if let Some((spent, retired)) = counted.filter(|_| is_new(cycles.at, cycles.window, self.counted_at)) {
            self.counted_at = cycles.at;
            self.cycles.push(spent / retired);
        }
        let requests = at(&columns.request_rate, slot);
        let load = if requests.usable().is_some() { requests } else { instructions };
        if let Some(rate) = load.usable().filter(|_| is_new(load.at, load.window, self.load_at)) {
            self.load_at = load.at;
            self.load.push(rate);
        }
        if view.now > since {
            contention.into_iter().for_each(|diff| self.contention.push(-diff));
            work.into_iter().for_each(|rate| self.work.push(rate));
        }
    }

    /// What a trial against this resource is judged by: latency where it is reported, else cycles an instruction — which
    /// say nothing of waiting for a CPU —, else the contention. None: not enough windows yet.
    pub fn judge(&self, resource: Resource) -> Option<Judge> {
        let has = |judge| self.windows(judge).count >= LEAST;
        if self.reported || self.latency.len > 0 {
            return has(Judge::Latency).then_some(Judge::Latency);
        }
        let counted = resource != Resource::Cpu && has(Judge::CyclesPerInstruction);
        if counted {
            return Some(Judge::CyclesPerInstruction);
        }
        has(Judge::Contention).then_some(Judge::Contention)
    }

    fn ring(&self, judge: Judge) -> &Ring {
        match judge {
            Judge::Latency => &self.latency,
            Judge::CyclesPerInstruction => &self.cycles,
            Judge::Contention => &self.contention,
        }
    }

    /// The windows so far.
    pub fn windows(&self, judge: Judge) -> Windows {
        self.ring(judge).windows()
    }

    /// The last window, and how many there were.
    pub fn last(&self, judge: Judge) -> Option<(f32, u8)> {
        Some((self.ring(judge).last()?, self.ring(judge).len))
    }

    /// The load: requests, else instructions, a second.
    pub fn load(&self) -> Windows {
        self.load.windows()
    }

    /// The rate of best-effort work.
    pub fn work(&self) -> Windows {
        self.work.windows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Sample, Topology};

    fn view_at(now: u64) -> View {
        let mut view = View::new(Topology::synthetic(1, 1, 1, 1).into());
        view.now = Nanos(now);
        view
    }

    #[test]
    fn windows_that_began_before_the_knob_showed_are_left_out() {
        let mut view = view_at(1000);
        let id = WorkloadId(0);
        let mut gauge = Gauge::default();
        gauge.begin(Nanos(500));
        let mut look = |gauge: &mut Gauge, at: u64, window: u64, latency: u64| {
            view.now = view.now.max(Nanos(at));
            view.workloads.latency = vec![Sample::over(Nanos(latency), Nanos(at), Nanos(window))];
            gauge.read(&view, id, None, None);
        };
        look(&mut gauge, 900, 500, 7_000_000);
        assert_eq!(gauge.windows(Judge::Latency).count, 0, "it began at 400");
        for (at, latency) in [(1000, 3_000_000), (1000, 3_000_000), (1500, 5_000_000), (2000, 4_000_000)] {
            look(&mut gauge, at, 500, latency);
        }
        assert_eq!(gauge.windows(Judge::Latency), Windows { median: 4.0, spread: 1.0, count: 3 });
        assert_eq!(gauge.judge(Resource::Llc), Some(Judge::Latency));
        gauge.begin(Nanos(3000));
        assert_eq!(gauge.judge(Resource::Llc), None);
    }

    #[test]
    fn a_queue_that_drains_is_not_of_the_knob() {
        let mut ring = Ring::default();
        [900.0, 700.0, 300.0].into_iter().for_each(|value| ring.push(value));
        assert!(ring.drains());
        ring.keep_last();
        assert_eq!((ring.len, ring.last()), (1, Some(300.0)));
        [10.0, 11.0, 9.0].into_iter().for_each(|value| ring.push(value));
        assert!(!ring.drains(), "it is over");
    }

    #[test]
    fn reports_from_the_future_are_no_windows() {
        let mut view = view_at(1000);
        view.workloads.latency = vec![Sample::over(Nanos(5), Nanos(5000), Nanos(100))];
        let mut gauge = Gauge::default();
        gauge.read(&view, WorkloadId(0), Some(-0.2), None);
        assert_eq!(gauge.windows(Judge::Latency).count, 0);
        for _ in 0..3 {
            gauge.read(&view, WorkloadId(0), Some(-0.2), None);
        }
        assert_eq!(gauge.judge(Resource::MemoryBandwidth), Some(Judge::Contention), "the next best measure");
    }
}
