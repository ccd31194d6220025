//! When a report is worth a write to the API server.

use quell_model::Nanos;
use quell_model::cluster::Measure;

use super::{Report, Service};

/// A change of this part of a number.
const CHANGE: f64 = 0.1;
/// Shortest time between two writes.
pub const SHORTEST: Nanos = Nanos::from_secs(10);
/// Longest time without one.
pub const LONGEST: Nanos = Nanos::from_secs(300);

/// The last report that was written.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    last: Option<(Nanos, Report)>,
}

impl Pace {
    /// Is this report to be written now? `now` is a clock's that only goes forward.
    #[must_use]
    pub fn is_due(&self, now: Nanos, report: &Report) -> bool {
        let Some((at, last)) = &self.last else { return true };
        let since = Nanos(now.0.saturating_sub(at.0));
        since >= LONGEST || since >= SHORTEST && differs(last, report)
    }

    /// It was written.
    pub fn wrote(&mut self, now: Nanos, report: Report) {
        self.last = Some((now, report));
    }
}

/// Has anything changed by [`CHANGE`], or a service crossed its bound, or a workload come or gone?
fn differs(last: &Report, new: &Report) -> bool {
    let reading = |report: &Report, measure| report.reading(measure).map(|reading| reading.value);
    let measured = Measure::ALL.iter().any(|&measure| moved(reading(last, measure), reading(new, measure)));
    let services = |report: &Report| report.services.iter().map(|it| it.pod.clone()).collect::<Vec<_>>();
    let heaviest = |report: &Report| report.heaviest.first().map(|heavy| heavy.pod.clone());
    let is_other = |service: &Service| {
        let Some(before) = last.service(&service.pod) else { return true };
        let time = |time: Option<Nanos>| time.map(|time| time.0 as f64);
        moved(time(before.measured), time(service.measured))
            || moved(time(before.predicted), time(service.predicted))
            || before.bound != service.bound
            || beyond(before) != beyond(service)
    };
    measured
        || heaviest(last) != heaviest(new)
        || services(last).len() != services(new).len()
        || new.services.iter().any(is_other)
}

/// Is the service beyond its bound?
fn beyond(service: &Service) -> bool {
    service.measured.or(service.predicted).zip(service.bound).is_some_and(|(latency, bound)| latency > bound)
}

fn moved(before: Option<f64>, after: Option<f64>) -> bool {
    match (before, after) {
        (None, None) => false,
        (Some(before), Some(after)) => (after - before).abs() > CHANGE * before.abs().max(after.abs()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::*;

    fn report(value: f64, latency: u64) -> Report {
        let service = Service {
            pod: "a/b".into(),
            measured: Some(Nanos(latency)),
            bound: Some(Nanos(1000)),
            ..Default::default()
        };
        let by = vec![Reading { measure: Measure::Counters, value, exact: true }];
        Report { by, services: vec![service], ..Report::default() }
    }

    #[test]
    fn a_tenth_is_written_after_ten_seconds_and_anything_after_five_minutes() {
        let at = |secs| Nanos::from_secs(secs);
        let mut pace = Pace::default();
        assert!(pace.is_due(at(0), &report(100.0, 500)));
        pace.wrote(at(0), report(100.0, 500));
        assert!(!pace.is_due(at(9), &report(900.0, 500)));
        assert!(pace.is_due(at(10), &report(900.0, 500)));
        assert!(!pace.is_due(at(299), &report(105.0, 510)));
        assert!(pace.is_due(at(300), &report(100.0, 500)));
        assert!(pace.is_due(at(10), &report(100.0, 600)));
    }

    #[test]
    fn a_crossed_bound_or_another_set_of_workloads_is_a_change() {
        let mut pace = Pace::default();
        pace.wrote(Nanos::ZERO, report(100.0, 990));
        assert!(pace.is_due(Nanos::from_secs(10), &report(100.0, 1010)));
        assert!(pace.is_due(Nanos::from_secs(10), &Report { services: Vec::new(), ..report(100.0, 990) }));
        assert!(pace.is_due(Nanos::from_secs(10), &Report { by: Vec::new(), ..report(100.0, 990) }));
    }
}
