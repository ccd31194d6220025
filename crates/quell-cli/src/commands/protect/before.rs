//! The time before anything is set: latency or waiting, demand, and how long threads run.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use quell_command::progress;
use quell_effect::source::{OwnHistogram, Probe, Waiting};
use quell_effect::{EffectError, Phase, Source, watch};
use quell_linux::Roots;
use quell_linux::procfs::ProcFs;
use quell_model::{Nanos, Selector};
use quell_policy::recommend::Looks;
use quell_scrape::Source as Page;

use super::target::Subject;
use super::{Sources, Wanted};
use crate::commands::facts;

/// Requests of a probe per second: few beside those of a service, and more than a thousand within five seconds.
const PROBED: f64 = 250.0;
/// The demand is looked at for this long at least.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// What was found.
pub struct Before {
    /// What was measured; None: it was not to be.
    pub phase: Option<Phase>,
    /// What its threads did.
    pub looks: Looks,
}

/// Looks at the threads, and measures after that: nothing else runs then, as when it is measured again. None: it was interrupted.
///
/// # Errors
/// If there is nothing to measure.
pub fn measure(wanted: &Wanted, measured: Nanos, subject: &Subject, stop: &AtomicBool) -> Result<Option<Before>> {
    // The policy follows from the looks, unless it is known.
    let is_known = wanted.asked.policys_name().is_some() || !wanted.asked.class().is_lc();
    let looked = if is_known { SHORTEST } else { facts::LENGTH };
    let doing = if measured > Nanos::ZERO { "measuring before" } else { "observing its demand" };
    let bar = progress::of_time(looked + measured, format!("{}: {doing}", subject.name));
    if measured > Nanos::from_secs(2) && !wanted.asked.say().quiet && bar.is_hidden() {
        eprintln!(
            "quell: {}: observing for {looked}, then measuring for {measured}, before anything is set",
            subject.name
        );
    }
    let mut proc = ProcFs::open(&Roots::default().proc)?;
    let found: Vec<_> = subject.found.iter().collect();
    // A workload that an agent has found needs no request.
    let looks = match found.is_empty() {
        true => Some(Looks::default()),
        false => facts::look(&mut proc, &found, looked, stop, &|over| bar.set_position(over))?,
    };
    if stop.load(Ordering::Acquire) {
        return Ok(None);
    }
    let Some(looks) = looks else { bail!("{}", subject.ended()) };
    let begun = Instant::now();
    let mut goes_on = |_: &Phase| {
        bar.set_position((looked.0 / 1_000_000) + begun.elapsed().as_millis() as u64);
        !stop.load(Ordering::Acquire)
    };
    let source = if measured == Nanos::ZERO { None } else { source(wanted, subject)? };
    let phase = match source.filter(|_| !stop.load(Ordering::Acquire)) {
        Some(mut source) => Some(watched(source.as_mut(), measured, subject, &mut goes_on)?),
        None => None,
    };
    bar.finish_and_clear();
    Ok((!stop.load(Ordering::Acquire)).then_some(Before { phase, looks }))
}

/// Ctrl-C came before anything was set.
pub fn interrupted(subject: &Subject) -> ExitCode {
    eprintln!("quell: {}: interrupted; nothing was set", subject.name);
    ExitCode::from(130)
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

/// What is measured by; None: nothing can be.
///
/// # Errors
/// If what was asked for cannot be.
pub fn source(wanted: &Wanted, subject: &Subject) -> Result<Option<Box<dyn Source>>> {
    match open(&wanted.sources, subject.histogram.as_ref(), &subject.name, &subject.selectors) {
        Ok(source) => Ok(Some(source)),
        Err(error) if wanted.sources.are_none() => match error.downcast_ref() {
            Some(EffectError::Ended) => bail!("{}", subject.ended()),
            _ => {
                eprintln!("quell: {}: no latency is measured: {error:#}", subject.name);
                Ok(None)
            }
        },
        Err(error) => Err(error),
    }
}

/// The source that was asked for, else the histogram that an agent knows, else the waiting of the threads.
///
/// # Errors
/// If there is nothing to measure.
pub fn open(sources: &Sources, known: Option<&Page>, name: &str, selectors: &[Selector]) -> Result<Box<dyn Source>> {
    if let Some(url) = &sources.url {
        return Ok(Box::new(Probe::start(url, PROBED)?));
    }
    let asked = sources.histogram.as_ref().map(|histogram| histogram.of(name, selectors));
    if let Some(page) = asked.or_else(|| known.cloned()) {
        return Ok(Box::new(OwnHistogram::new(page)?));
    }
    Ok(Box::new(Waiting::of(selectors.to_vec())?))
}
