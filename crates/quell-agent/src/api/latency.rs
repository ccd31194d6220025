//! Latency histograms that clients post become samples for the host.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use quell_model::{Nanos, Sample, View, WorkloadId};
use quell_scrape::Reading;

use crate::wire::{Accepted, Histogram};

/// Buckets that one histogram may have.
pub const MAX_BUCKETS: usize = 4096;
/// Samples that wait for the loop at most.
const QUEUE: usize = 256;
/// A histogram that ended longer ago says nothing about now.
const OLDEST: Nanos = Nanos::from_secs(60);
/// The quantile of a workload without an SLO.
const USUAL_QUANTILE: f64 = 0.99;

/// A workload's latency at its SLO's quantile, for [`Feed`]'s reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posted {
    /// The workload.
    pub workload: WorkloadId,
    /// The latency; its window and time are the histogram's.
    pub sample: Sample<Nanos>,
    /// Requests a second in it.
    pub rate: f64,
}

/// The loop's end: the histograms posted since the last call.
pub struct Feed(Receiver<Posted>);

/// The API's end.
pub(super) struct Inbox(SyncSender<Posted>);

/// Both ends.
pub(super) fn inbox() -> (Inbox, Feed) {
    let (sender, receiver) = sync_channel(QUEUE);
    (Inbox(sender), Feed(receiver))
}

impl Feed {
    /// Histograms posted since the last call; never waits.
    pub fn drain(&self) -> impl Iterator<Item = Posted> + '_ {
        self.0.try_iter().take(QUEUE)
    }
}

/// The reason why a histogram was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// No such workload is attached.
    Unknown,
    /// It makes no sense; the text is the fix.
    Senseless(String),
    /// The loop has not taken the ones before.
    Busy,
}

impl Inbox {
    /// Takes a histogram for a workload of this view; `now` is CLOCK_MONOTONIC.
    pub(super) fn post(&self, view: &View, now: Nanos, histogram: &Histogram) -> Result<Accepted, Rejected> {
        let (id, quantile) = wanted(view, &histogram.workload)?;
        let (latency, requests) = quantile_of(&histogram.buckets, quantile)?;
        if histogram.window_ns == 0 {
            let text = "its window is empty; set window_ns to the length of the measurement".to_owned();
            return Err(Rejected::Senseless(text));
        }
        let at = Nanos(histogram.ended_ns.unwrap_or(now.0));
        if at > now + Nanos::from_secs(1) || now - at > OLDEST {
            return Err(Rejected::Senseless(format!(
                "it ended at {} ns, and CLOCK_MONOTONIC is {} ns now; post it within {OLDEST}, or leave ended_ns out",
                at.0, now.0
            )));
        }
        self.send(id, Sample::over(latency, at.min(now), Nanos(histogram.window_ns)), requests)?;
        Ok(Accepted { quantile, latency_ns: latency.0, requests })
    }

    /// Takes what was read of a service's histogram.
    pub(super) fn take(&self, view: &View, reading: &Reading) -> Result<(), Rejected> {
        let (id, quantile) = wanted(view, &reading.workload)?;
        let Some(latency) = reading.counts.quantile(quantile) else { return Ok(()) };
        self.send(id, Sample::over(latency, reading.ended, reading.window), reading.counts.requests())
    }

    fn send(&self, workload: WorkloadId, sample: Sample<Nanos>, requests: u64) -> Result<(), Rejected> {
        let rate = requests as f64 / sample.window.as_secs_f64();
        self.0.try_send(Posted { workload, sample, rate }).map_err(|_| Rejected::Busy)
    }
}

/// A workload by its name, and the quantile that is wanted of its latency.
fn wanted(view: &View, name: &str) -> Result<(WorkloadId, f64), Rejected> {
    let named = |spec: &quell_model::Workload| spec.name == name;
    let slot = view.workloads.spec.iter().position(|spec| spec.as_deref().is_some_and(named));
    let slot = slot.ok_or(Rejected::Unknown)?;
    let slo = view.workloads.spec[slot].as_ref().and_then(|spec| spec.slo);
    Ok((WorkloadId(slot as u32), slo.map_or(USUAL_QUANTILE, |slo| slo.quantile)))
}

/// The smallest latency that at least this part of the requests did not exceed, and the number of requests.
fn quantile_of(buckets: &[(u64, u64)], quantile: f64) -> Result<(Nanos, u64), Rejected> {
    if buckets.len() > MAX_BUCKETS {
        let text = format!("it has {} buckets; merge them to {MAX_BUCKETS} or fewer", buckets.len());
        return Err(Rejected::Senseless(text));
    }
    let total = buckets.iter().fold(0u64, |sum, &(_, count)| sum.saturating_add(count));
    if total == 0 {
        return Err(Rejected::Senseless("it contains no requests; post only windows with at least one".to_owned()));
    }
    let mut sorted = buckets.to_vec();
    sorted.sort_unstable();
    let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total);
    let mut below = 0u64;
    let reaches = |&&(_, count): &&(u64, u64)| {
        below = below.saturating_add(count);
        below >= rank
    };
    let latency = sorted.iter().find(reaches).or(sorted.last()).map_or(0, |&(latency, _)| latency);
    Ok((Nanos(latency), total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quell_model::{Class, CpuCount, Slo, Topology, Workload};

    fn view() -> View {
        let mut view = View::new(Topology::synthetic(1, 1, 1, 1).into());
        let mut db = Workload::new("db", Class::LatencyCritical, CpuCount::whole(1));
        db.slo = Some(Slo { quantile: 0.5, bound: Nanos(1) });
        view.workloads.spec = vec![None, Some(db.into())];
        view
    }

    fn histogram(buckets: &[(u64, u64)]) -> Histogram {
        Histogram { workload: "db".into(), window_ns: 10, ended_ns: Some(95), buckets: buckets.to_vec() }
    }

    #[test]
    fn a_histogram_becomes_a_sample_at_the_slos_quantile() {
        let (inbox, feed) = inbox();
        let accepted = inbox.post(&view(), Nanos(100), &histogram(&[(900, 1), (5, 2), (7, 1)])).unwrap();
        assert_eq!(accepted, Accepted { quantile: 0.5, latency_ns: 5, requests: 4 });
        let sample = Sample::over(Nanos(5), Nanos(95), Nanos(10));
        assert_eq!(feed.drain().collect::<Vec<_>>(), [Posted { workload: WorkloadId(1), sample, rate: 4e8 }]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (inbox, feed) = inbox();
        let post = |histogram: &Histogram| inbox.post(&view(), Nanos(Nanos::from_secs(100).0), histogram);
        let now = Some(Nanos::from_secs(100).0);
        let good = Histogram { ended_ns: now, ..histogram(&[(1, 1)]) };
        assert!(post(&good).is_ok());
        let unknown = Histogram { workload: "x".into(), ..good.clone() };
        assert_eq!(post(&unknown), Err(Rejected::Unknown));
        let bad = [
            Histogram { buckets: vec![], ..good.clone() },
            Histogram { buckets: vec![(3, 0)], ..good.clone() },
            Histogram { buckets: vec![(1, 1); MAX_BUCKETS + 1], ..good.clone() },
            Histogram { ended_ns: Some(0), ..good.clone() },
            Histogram { ended_ns: Some(u64::MAX), ..good },
        ];
        for histogram in bad {
            assert!(matches!(post(&histogram), Err(Rejected::Senseless(_))), "{histogram:?}");
        }
        assert_eq!(feed.drain().count(), 1);
    }

    #[test]
    fn a_loop_that_does_not_read_makes_the_poster_wait() {
        let (inbox, feed) = inbox();
        let results: Vec<_> = (0..QUEUE + 1).map(|_| inbox.post(&view(), Nanos(100), &histogram(&[(1, 1)]))).collect();
        assert_eq!(results[QUEUE], Err(Rejected::Busy));
        assert_eq!(feed.drain().count(), QUEUE);
    }

    proptest! {
        #[test]
        fn the_quantile_is_the_sorted_lists_element(
            latencies in proptest::collection::vec(0u64..50, 1..200),
            quantile in 0.01f64..0.999,
        ) {
            let buckets: Vec<_> = latencies.iter().map(|&latency| (latency, 1)).collect();
            let (found, total) = quantile_of(&buckets, quantile).unwrap();
            let mut sorted = latencies.clone();
            sorted.sort_unstable();
            let rank = ((sorted.len() as f64 * quantile).ceil() as usize).max(1);
            prop_assert_eq!((found.0, total), (sorted[rank - 1], sorted.len() as u64));
        }

        #[test]
        fn no_histogram_makes_it_panic(buckets in proptest::collection::vec(any::<(u64, u64)>(), 0..20)) {
            let _ = quantile_of(&buckets, 0.99);
        }
    }
}
