//! The time before anything is set: latency or waiting, demand, and how long threads run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use quell_command::progress;
use quell_effect::source::{OwnHistogram, Probe, Waiting};
use quell_effect::{EffectError, Phase, Source, watch};
use quell_linux::{Census, mounted_hierarchies};
use quell_model::{Nanos, ThreadId};
use quell_policy::recommend::{Looks, Watch};
use quell_scrape::{Source as Page, Unit};
use quell_thread::clock;

use super::Arguments;
use super::target::Subject;

/// Requests of a probe per second: few beside those of a service, and more than a thousand within five seconds.
const PROBED: f64 = 250.0;
/// Time between two looks at the threads.
const LOOK: Duration = Duration::from_millis(20);
/// The demand is measured for this long at least.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// What was found.
pub struct Before {
    /// What was measured; None: it was not to be.
    pub phase: Option<Phase>,
    /// What its threads did.
    pub looks: Looks,
}

/// Measures. None: it was interrupted.
///
/// # Errors
/// If there is nothing to measure.
pub fn measure(arguments: &Arguments, subject: &Subject, stop: &AtomicBool) -> Result<Option<Before>> {
    let length = arguments.measure.max(SHORTEST);
    let bar = progress::of_time(length, format!("{}: measuring before", subject.name));
    if arguments.measure > Nanos::from_secs(2) && !arguments.asked.say().quiet && bar.is_hidden() {
        eprintln!("quell: {}: measuring for {length} before anything is set", subject.name);
    }
    let mut threads = Threads::of(subject)?;
    let begun = Instant::now();
    let mut goes_on = || {
        bar.set_position(begun.elapsed().as_millis() as u64);
        threads.look();
        !stop.load(Ordering::Acquire)
    };
    let phase = match source(arguments, subject)? {
        Some(mut source) => Some(watched(source.as_mut(), length, subject, &mut |_| goes_on())?),
        None => {
            while begun.elapsed() < length.into() && goes_on() {
                std::thread::sleep(LOOK);
            }
            None
        }
    };
    bar.finish_and_clear();
    if stop.load(Ordering::Acquire) {
        return Ok(None);
    }
    let Some(looks) = threads.watch.found() else { bail!("{}", subject.ended()) };
    Ok(Some(Before { phase, looks }))
}

/// Measures by a source; a subject that has ended meanwhile is said with the command to run.
///
/// # Errors
/// As [`watch`].
pub fn watched(
    source: &mut dyn Source,
    length: Nanos,
    subject: &Subject,
    goes_on: &mut dyn FnMut(&Phase) -> bool,
) -> Result<Phase> {
    match watch(source, length.into(), goes_on) {
        Ok(phase) => Ok(phase),
        Err(EffectError::Ended) => bail!("{}", subject.ended()),
        Err(error) => Err(error.into()),
    }
}

/// What is measured by; None: nothing is to be, or can be.
///
/// # Errors
/// If what was asked for cannot be.
pub fn source(arguments: &Arguments, subject: &Subject) -> Result<Option<Box<dyn Source>>> {
    if arguments.measure == Nanos::ZERO {
        return Ok(None);
    }
    if let Some(url) = &arguments.url {
        return Ok(Some(Box::new(Probe::start(url, PROBED)?)));
    }
    if let Some(page) = &arguments.histogram {
        return Ok(Some(Box::new(OwnHistogram::new(page_of(page, subject)?)?)));
    }
    match Waiting::of(subject.selectors.clone()) {
        Ok(waiting) => Ok(Some(Box::new(waiting))),
        Err(EffectError::Ended) => bail!("{}", subject.ended()),
        Err(error) => {
            eprintln!("quell: {}: nothing is measured: {error}", subject.name);
            Ok(None)
        }
    }
}

/// `127.0.0.1:9102/metrics#http_request_duration_seconds`
fn page_of(text: &str, subject: &Subject) -> Result<Page> {
    let example = "127.0.0.1:9102/metrics#http_request_duration_seconds";
    let text = text.strip_prefix("http://").unwrap_or(text);
    let parts = text.split_once('#').and_then(|(page, metric)| {
        let (address, path) = page.split_once('/').map_or((page, "metrics"), |(address, path)| (address, path));
        Some((address.parse().ok()?, format!("/{path}"), metric.to_owned()))
    });
    let Some((address, path, metric)) = parts else {
        bail!("--histogram {text}: expected an address in numbers, a path and the histogram's name, such as {example}")
    };
    let Some(unit) = Unit::of_metric(&metric) else {
        bail!("--histogram {text}: the name {metric} does not say its unit, as {example} does with _seconds")
    };
    Ok(Page { workload: subject.name.clone(), selectors: subject.selectors.clone(), address, path, metric, unit })
}

/// The threads' times.
struct Threads {
    census: Census,
    watch: Watch,
    last: Option<Instant>,
}

impl Threads {
    fn of(subject: &Subject) -> Result<Threads> {
        let census = Census::open("/proc".as_ref(), mounted_hierarchies(), vec![subject.selectors.clone()])?;
        Ok(Threads { census, watch: Watch::default(), last: None })
    }

    /// Looks, if it is time. What cannot be read for a moment is looked at next time.
    fn look(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() < LOOK) {
            return;
        }
        self.last = Some(Instant::now());
        let Ok(found) = self.census.scan() else { return };
        let now = clock::now();
        let times = found.iter().filter_map(|thread| {
            let proc = self.census.proc();
            let start = proc.stat(thread.pid, thread.tid).ok()??.start;
            let stat = proc.schedstat(thread.pid, thread.tid).ok()??;
            Some((ThreadId { tid: thread.tid, start }, stat.run_time, stat.run_delay))
        });
        let times: Vec<_> = times.collect();
        if !times.is_empty() {
            self.watch.look(now, times);
        }
    }
}
