//! The agent's outermost loop: which scheduler it has, what it does without, when it tries again. Nothing here does I/O of its own.

use std::time::Duration;

use anyhow::Result;
use quell_agent::run::{Degraded, Ends, Outcome};
use quell_model::Nanos;
use tracing::{error, info};

/// At the agent's first start nothing is set while the scheduler is loaded, if that takes no longer: most machines need less, and
/// would have everything set twice.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// Why there is no scheduler.
#[derive(Debug)]
pub struct Refused {
    /// In a line.
    pub line: String,
    /// May the agent work without?
    pub tolerable: bool,
    /// The whole of it.
    pub error: anyhow::Error,
}

/// Why an agent works on Linux's scheduler though a policy asks for Quell's.
#[derive(Clone, Debug, PartialEq)]
pub enum Instead {
    /// Quell's is being loaded.
    Loading,
    /// It is off.
    Off(Degraded),
}

/// What the loop has done by the machine: schedulers that are loaded, agents that run.
pub trait Machine {
    /// A scheduler that is being loaded.
    type Load;
    /// One that the kernel has verified.
    type Verified;

    /// The monotonic clock.
    fn now(&self) -> Nanos;

    /// Is the agent asked to stop?
    fn is_to_stop(&self) -> bool;

    /// It stops before an agent runs: forgets what earlier agents kept for the next one, as an agent does that is stopped.
    fn forget(&mut self);

    /// Begins to load a scheduler, or has one that is verified already.
    ///
    /// # Errors
    /// If the system does not let it begin.
    fn load(&mut self) -> Result<Self::Load>;

    /// Waits for it, this long at most. Is it loaded, or refused?
    fn wait(&mut self, load: &Self::Load, at_most: Duration) -> bool;

    /// What came of it. `Ok(None)`: a CPU came or went meanwhile, and the kernel would end it at once.
    ///
    /// # Errors
    /// If the kernel refused.
    fn finish(&mut self, load: Self::Load) -> Result<Option<Self::Verified>, Refused>;

    /// Runs an agent on Linux's scheduler, until it is to stop or Quell's may be loaded ([`Outcome::SchedulerAgain`]). `off_since`:
    /// when Quell's ended, if that was just now.
    ///
    /// # Errors
    /// If the agent cannot run.
    fn stand_in(&mut self, load: Option<&Self::Load>, instead: Instead, off_since: Option<Nanos>) -> Result<Outcome>;

    /// Runs an agent with Quell's scheduler, until it is to stop or that ends. `first`: it has not ended before.
    ///
    /// # Errors
    /// Within: if the kernel does not attach it; without: if the agent cannot run.
    fn run(&mut self, verified: Self::Verified, first: bool) -> Result<Result<Outcome, Refused>>;
}

/// Runs agents until one is asked to stop. `again`: a worker that was started again has something to protect at once.
///
/// # Errors
/// Those of the machine's agents; that Quell's scheduler is refused at the beginning, where nothing else will do.
pub fn run<M: Machine>(machine: &mut M, mut ends: Ends, again: bool) -> Result<Outcome> {
    let mut patience = if again { Duration::ZERO } else { FIRST_WAIT };
    let mut off_since = None;
    let outcome = loop {
        let load = match ends.off().cloned() {
            Some(off) => {
                error!("{}", off.line());
                let outcome = machine.stand_in(None, Instead::Off(off), off_since.take())?;
                if outcome != Outcome::SchedulerAgain {
                    break outcome;
                }
                ends.end_pause();
                continue;
            }
            None => machine.load()?,
        };
        let is_there = machine.wait(&load, std::mem::take(&mut patience));
        // Neither an agent that stands in nor an attached scheduler is begun for it: both take long on a busy machine. A load that
        // goes on ends with the process, and leaves nothing.
        if machine.is_to_stop() {
            machine.forget();
            break Outcome::Stopped;
        }
        if !is_there {
            let outcome = machine.stand_in(Some(&load), Instead::Loading, off_since.take())?;
            if outcome != Outcome::SchedulerAgain {
                break outcome;
            }
        }
        let at = machine.now();
        let first = !ends.any();
        let refused = match machine.finish(load) {
            Ok(None) => {
                info!("a CPU was hotplugged while the scheduler was loading: loading it again");
                continue;
            }
            Ok(Some(verified)) => match machine.run(verified, first)? {
                Ok(Outcome::SchedulerEnded { why, by_hand, at }) => {
                    off_since = Some(at);
                    ends.another(why, by_hand, machine.now());
                    continue;
                }
                Ok(other) => break other,
                Err(refused) => refused,
            },
            Err(refused) => refused,
        };
        if first && !refused.tolerable {
            return Err(refused.error);
        }
        error!("{}", refused.error);
        ends.another(refused.line, false, at);
    };
    ends.forget();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What becomes of a scheduler that is loaded.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        /// The kernel refuses to load it; is that to be tolerated?
        Refused(bool),
        /// It is verified only after the agent has begun without.
        Late,
        /// A CPU came or went.
        Stale,
        /// It is verified, and the kernel does not attach it.
        Unattached,
        /// It runs, and the kernel ends it; by a person?
        Ends(bool),
        /// It runs until the agent is asked to stop.
        Runs,
    }

    /// A machine whose schedulers have these fates in turn; it writes down what it was asked for.
    #[derive(Default)]
    struct Script {
        fates: VecDeque<Fate>,
        /// Asked to stop while the scheduler is loaded?
        stops: bool,
        done: Vec<String>,
    }

    fn refused(tolerable: bool) -> Refused {
        Refused { line: "the kernel says no".into(), tolerable, error: anyhow::anyhow!("the kernel says no") }
    }

    impl Machine for Script {
        type Load = Fate;
        type Verified = Fate;

        fn now(&self) -> Nanos {
            Nanos::from_secs(10)
        }

        fn is_to_stop(&self) -> bool {
            self.stops
        }

        fn forget(&mut self) {
            self.done.push("forgets".into());
        }

        fn load(&mut self) -> Result<Fate> {
            Ok(self.fates.pop_front().expect("no more loads"))
        }

        fn wait(&mut self, load: &Fate, at_most: Duration) -> bool {
            self.done.push(format!("wait {}", at_most.as_secs()));
            *load != Fate::Late
        }

        fn finish(&mut self, load: Fate) -> Result<Option<Fate>, Refused> {
            match load {
                Fate::Refused(tolerable) => Err(refused(tolerable)),
                Fate::Stale => Ok(None),
                Fate::Late => Ok(Some(Fate::Runs)),
                fate => Ok(Some(fate)),
            }
        }

        fn stand_in(&mut self, load: Option<&Fate>, instead: Instead, off_since: Option<Nanos>) -> Result<Outcome> {
            assert_eq!(load.is_some(), instead == Instead::Loading);
            let for_good = matches!(&instead, Instead::Off(off) if off.again_at.is_none());
            let what = match instead {
                Instead::Loading => "loading",
                Instead::Off(_) if for_good => "off for good",
                Instead::Off(_) => "off",
            };
            let since = off_since.map_or(String::new(), |at| format!(" since {}", at.0));
            self.done.push(format!("without, {what}{since}"));
            Ok(if for_good { Outcome::Stopped } else { Outcome::SchedulerAgain })
        }

        fn run(&mut self, verified: Fate, first: bool) -> Result<Result<Outcome, Refused>> {
            self.done.push(format!("with{}", if first { "" } else { ", again" }));
            Ok(match verified {
                Fate::Unattached => Err(refused(true)),
                Fate::Ends(by_hand) => Ok(Outcome::SchedulerEnded { why: "it ended".into(), by_hand, at: Nanos(7) }),
                _ => Ok(Outcome::Stopped),
            })
        }
    }

    fn done(fates: &[Fate], again: bool) -> (Result<Outcome>, Vec<String>) {
        let mut script = Script { fates: fates.iter().copied().collect(), ..Script::default() };
        let ends = Ends::kept_in(None, Nanos::ZERO);
        (run(&mut script, ends, again), script.done)
    }

    #[test]
    fn a_scheduler_that_is_loaded_in_time_is_all_that_runs() {
        let (outcome, done) = done(&[Fate::Runs], false);
        assert_eq!((outcome.unwrap(), &done[..]), (Outcome::Stopped, &["wait 2".to_owned(), "with".to_owned()][..]));
    }

    #[test]
    fn while_a_late_one_is_loaded_the_agent_works_without_and_at_once_after_a_death() {
        assert_eq!(done(&[Fate::Late], true).1, ["wait 0", "without, loading", "with"]);
        assert_eq!(done(&[Fate::Late], false).1, ["wait 2", "without, loading", "with"]);
    }

    #[test]
    fn asked_to_stop_while_it_is_loaded_the_agent_begins_nothing_more() {
        for fate in [Fate::Late, Fate::Runs, Fate::Refused(false)] {
            let mut script = Script { fates: [fate].into(), stops: true, ..Script::default() };
            let outcome = run(&mut script, Ends::kept_in(None, Nanos::ZERO), false);
            assert_eq!(
                (outcome.unwrap(), &script.done[..]),
                (Outcome::Stopped, &["wait 2".into(), "forgets".into()][..])
            );
        }
    }

    #[test]
    fn one_that_the_kernel_ends_is_loaded_again_after_a_pause_and_stays_off_after_a_person_ended_it() {
        let found = done(&[Fate::Ends(false), Fate::Runs], false).1;
        assert_eq!(found, ["wait 2", "with", "without, off since 7", "wait 0", "with, again"]);
        let found = done(&[Fate::Ends(true)], false).1;
        assert_eq!(found, ["wait 2", "with", "without, off for good since 7"]);
    }

    #[test]
    fn one_that_ends_again_and_again_stays_off() {
        let (outcome, done) = done(&[Fate::Ends(false); 9], false);
        assert_eq!(outcome.unwrap(), Outcome::Stopped);
        assert!(done.last().unwrap().starts_with("without, off for good"), "{done:?}");
        assert!(done.iter().filter(|line| line.starts_with("with,")).count() < 9, "{done:?}");
    }

    #[test]
    fn a_refusal_ends_the_agent_only_at_its_beginning_and_where_nothing_else_will_do() {
        assert_eq!(done(&[Fate::Refused(false)], false).0.unwrap_err().to_string(), "the kernel says no");
        for fate in [Fate::Refused(true), Fate::Unattached] {
            assert_eq!(done(&[fate, Fate::Runs], false).0.unwrap(), Outcome::Stopped);
        }
        // It has run before: what it protects stays protected.
        let (outcome, done) = done(&[Fate::Ends(false), Fate::Refused(false), Fate::Runs], false);
        assert_eq!(outcome.unwrap(), Outcome::Stopped);
        assert_eq!(done.iter().filter(|line| line.starts_with("without, off")).count(), 2, "{done:?}");
    }

    #[test]
    fn a_cpu_that_came_meanwhile_is_no_end() {
        let found = done(&[Fate::Stale, Fate::Runs], false).1;
        assert_eq!(found, ["wait 2", "wait 0", "with"]);
    }
}
