//! The sources against real processes and sockets of this machine.

mod service;
mod waiting;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use quell_effect::report::Question;
use quell_effect::source::{OwnHistogram, Probe};
use quell_effect::{Effect, EffectError, Finding, Measure, Phase, Source, compare, watch};
use quell_scrape::Unit;
use service::Service;

/// Longer than any phase here takes.
const LONG: Duration = Duration::from_secs(60);

/// Measures until there is enough for a comparison.
fn until_enough(source: &mut dyn Source, values: u64) -> Phase {
    let busy = |phase: &Phase| phase.slices.iter().filter(|slice| slice.count() > 0).count();
    watch(source, LONG, |phase| phase.count() < values || busy(phase) < 20).unwrap()
}

#[test]
fn a_probe_finds_the_delay_of_a_service() {
    let service = Service::start();
    let mut probe = Probe::start(&format!("http://{}/", service.address), 25.0).unwrap();
    let before = until_enough(&mut probe, 40);
    service.delay_ms.store(60, Relaxed);
    let after = until_enough(&mut probe, 60);
    let question = Question { target: "web", changed: "slowed", quantile: 0.5, settling: Duration::from_millis(500) };
    let effect = Effect::of(&question, &before, &after);
    let found = effect.comparison.unwrap();
    assert_eq!((effect.measure, found.finding), (Measure::Probe, Finding::Higher), "{}", effect.headline);
    assert!(found.after_ns > 55_000_000, "{}", effect.headline);
    assert!(effect.headline.starts_with("web: p50 "), "{}", effect.headline);
}

#[test]
fn a_service_that_answers_nothing_is_slow_and_not_without_values() {
    let service = Service::start();
    let mut probe = Probe::start(&format!("http://{}/", service.address), 50.0).unwrap();
    watch(&mut probe, LONG, |phase| phase.count() < 5).unwrap();
    service.delay_ms.store(120_000, Relaxed);
    let begun = std::time::Instant::now();
    let waits = |phase: &Phase| phase.at(0.5) < 500_000_000;
    let phase = watch(&mut probe, LONG, waits).unwrap();
    assert!(!waits(&phase), "half of its requests have waited for half a second");
    let sent = 2.0 * 50.0 * begun.elapsed().as_secs_f64();
    assert!(phase.count() > 20 && (phase.count() as f64) < sent, "{} of {sent}: each counts once", phase.count());
}

#[test]
fn a_probe_stores_nothing_and_ends_with_its_source() {
    let service = Service::memcached();
    let mut probe = Probe::start(&format!("memcached://{}", service.address), 200.0).unwrap();
    let phase = watch(&mut probe, LONG, |phase| phase.count() < 30).unwrap();
    assert!(phase.count() >= 30);
    drop(probe);
    let asked = service.asked.lock().unwrap().clone();
    let other: Vec<_> = asked.iter().filter(|line| !line.starts_with("get ") && *line != "version").collect();
    assert!(other.is_empty() && asked.len() >= 30, "{other:?}");
}

#[test]
fn a_probe_of_no_service_is_refused_and_one_that_goes_is_an_error() {
    let service = Service::start();
    let url = format!("http://{}/", service.address);
    let mut probe = Probe::start(&url, 50.0).unwrap();
    service.stop();
    // Its connections close; it connects again at its next run, of which there is none.
    let ended = watch(&mut probe, LONG, |_| true).unwrap_err();
    assert!(matches!(ended, EffectError::Probe(_)), "{ended}");
    let refused = Probe::start(&url, 50.0).unwrap_err().to_string();
    assert!(refused.contains(&service.address) && refused.lines().count() == 1, "{refused}");
}

fn page(service: &Service, metric: &str) -> quell_scrape::Source {
    quell_scrape::Source {
        workload: "web".into(),
        selectors: Vec::new(),
        address: service.address.parse().unwrap(),
        path: "/metrics".into(),
        metric: metric.into(),
        unit: Unit::Seconds,
    }
}

#[test]
fn a_services_own_histogram_is_compared_by_its_buckets() {
    let service = Service::start();
    let mut source = OwnHistogram::new(page(&service, "took_seconds")).unwrap();
    let counting = service.counts_up();
    let before = until_enough(&mut source, 1_000);
    service.delay_ms.store(60, Relaxed);
    let after = until_enough(&mut source, 1_000).after(Duration::from_millis(500));
    drop(counting);
    assert_eq!(before.edges, [1_000_000, 10_000_000, 100_000_000]);
    let found = compare(&before, &after, 0.9).unwrap();
    assert_eq!((before.measure, found.finding), (Measure::Histogram, Finding::Higher), "{found:?}");
    assert!((1..=1_000_000).contains(&found.before_ns), "{found:?}");
    assert!((10_000_001..=100_000_000).contains(&found.after_ns), "{found:?}");
}

#[test]
fn a_page_without_the_histogram_is_an_error_at_the_end_and_a_service_that_comes_later_none() {
    let service = Service::start();
    let mut none = OwnHistogram::new(page(&service, "other_seconds")).unwrap();
    let error = watch(&mut none, Duration::from_millis(600), |_| true).unwrap_err();
    assert!(!error.is_final() && error.to_string().contains("no histogram other_seconds"), "{error}");

    let mut source = OwnHistogram::new(page(&service, "took_seconds")).unwrap();
    let _counting = service.counts_up();
    service.is_silent.store(true, Relaxed);
    let mut asked = 0;
    let phase = watch(&mut source, LONG, |phase| {
        asked += 1;
        if asked == 3 {
            service.is_silent.store(false, Relaxed);
        }
        phase.count() == 0
    });
    assert!(phase.unwrap().count() > 0);
}
