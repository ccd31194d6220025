//! Is a worker that gives no sign of life hung, or does the machine not let it run? Pure.
//!
//! The guardian counts time by its own looks: one that comes later than it was asked for counts as [`ROUND`] at most. Where
//! the guardian itself was stopped or got no CPU, the worker may have been as well, and has its time anew. And the time in
//! which the worker's loop could run and had no CPU is no silence; but it is spared for [`SPARED`] times `watchdog_timeout` at
//! most, because what Quell gave to real-time threads may be what starves it.

use quell_model::Nanos;

/// An interval between two looks counts as this at most, twice what is asked for.
pub const ROUND: Nanos = Nanos::from_millis(200);
/// A solo run that outlives its time by this much is overdue: the host checks whenever it wakes.
pub const LEASE_GRACE: Nanos = Nanos::from_millis(300);
/// Bound on the silence of a worker that gets no CPU, in `watchdog_timeout`.
pub const SPARED: u64 = 6;

/// Signs of life of a worker, as of one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Time of its last turn or step; `None`: it has not turned yet, and is not watched.
    pub beat: Option<Nanos>,
    /// Bound on its silence.
    pub watchdog_timeout: Nanos,
    /// End of the solo run under way.
    pub lease_until: Option<Nanos>,
    /// For how long its loop could run and had no CPU, all in all; `None`: unknown, or not asked.
    pub waited: Option<Nanos>,
}

/// What a worker is taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It turns, or is about to.
    Fine,
    /// It is silent because the machine does not let it run, for this reason.
    Starved(String),
    /// It hangs, for this reason.
    Hung(String),
}

/// What the guardian remembers from look to look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    looked: Option<Nanos>,
    beat: Option<Nanos>,
    /// Since the last sign of life, by the guardian's looks.
    silent: Nanos,
    /// Of that, the time that the looks came too late.
    late: Nanos,
    /// What `waited` was at the first look in this silence that knew it.
    waited_from: Option<Nanos>,
    /// Since the end of the solo run, by the guardian's looks.
    overdue: Nanos,
}

impl Patience {
    /// What these signs say at this time.
    pub fn look(&mut self, signs: &Signs, now: Nanos) -> State {
        let since = now.since(self.looked.replace(now).unwrap_or(now));
        let counted = since.min(ROUND);
        if signs.beat != self.beat {
            let all = signs.beat.map_or(Nanos::ZERO, |beat| now.since(beat));
            let silent = all.min(counted);
            let overdue = self.overdue;
            *self = Patience {
                looked: self.looked,
                beat: signs.beat,
                silent,
                late: all - silent,
                waited_from: None,
                overdue,
            };
        } else if self.beat.is_some() {
            self.silent += counted;
            self.late += since - counted;
        }
        if signs.waited.is_some() {
            self.waited_from = self.waited_from.or(signs.waited);
        }
        self.overdue = match signs.lease_until {
            Some(until) if now > until => self.overdue + now.since(until).min(counted),
            _ => Nanos::ZERO,
        };
        if self.overdue > LEASE_GRACE {
            return State::Hung(format!("a solo run is overdue by {}", self.overdue));
        }
        self.judge(signs)
    }

    fn judge(&self, signs: &Signs) -> State {
        let waited = signs.waited.zip(self.waited_from).map_or(Nanos::ZERO, |(waited, from)| waited.since(from));
        let waited = waited.min(self.silent);
        let all = self.silent + self.late;
        if self.beat.is_none() || all <= signs.watchdog_timeout {
            return State::Fine;
        }
        let starved = || match self.late > Nanos::ZERO {
            true => format!("for {waited} it got no CPU, and the guardian itself was delayed by {}", self.late),
            false => format!("for {waited} it got no CPU"),
        };
        if self.silent.0 > signs.watchdog_timeout.0.saturating_mul(SPARED) {
            return State::Hung(format!("its loop has made no progress for {all}; {}", starved()));
        }
        if self.silent - waited > signs.watchdog_timeout {
            return State::Hung(format!("its loop has made no progress for {all}"));
        }
        State::Starved(format!("its loop has made no progress for {all}: {}", starved()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNG_AFTER: Nanos = Nanos::from_secs(5);

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(1_000_000 + ms)
    }

    fn signs(beat_ms: u64, waited_ms: u64) -> Signs {
        let waited = Some(Nanos::from_millis(waited_ms));
        Signs { beat: Some(at(beat_ms)), watchdog_timeout: HUNG_AFTER, lease_until: None, waited }
    }

    /// Looks each 100 ms over this span; `waited`: of each 100 ms, the ms without a CPU. The last state.
    fn looks(patience: &mut Patience, beat: u64, (from, to): (u64, u64), waited: u64) -> State {
        let looks = (from..=to).step_by(100);
        looks.map(|ms| patience.look(&signs(beat, ms / 100 * waited), at(ms))).last().unwrap()
    }

    fn is_hung(state: &State) -> bool {
        matches!(state, State::Hung(_))
    }

    #[test]
    fn a_worker_that_never_turned_is_not_watched() {
        let mut patience = Patience::default();
        for second in 0..100 {
            assert_eq!(patience.look(&Signs::default(), at(second * 1000)), State::Fine);
        }
    }

    #[test]
    fn one_that_sleeps_or_spins_without_a_turn_is_watchdog_timeout_its_time() {
        let mut patience = Patience::default();
        assert_eq!(looks(&mut patience, 0, (0, 5_000), 0), State::Fine);
        let state = looks(&mut patience, 0, (5_100, 5_100), 0);
        assert!(matches!(&state, State::Hung(why) if why == "its loop has made no progress for 5.10 s"), "{state:?}");
    }

    #[test]
    fn steps_of_a_long_turn_are_signs_of_life() {
        let mut patience = Patience::default();
        for step in 0..100 {
            assert_eq!(looks(&mut patience, step * 4_000, (step * 4_000, step * 4_000 + 3_900), 0), State::Fine);
        }
        assert!(is_hung(&looks(&mut patience, 396_000, (400_000, 401_100), 0)), "and no step means no life");
    }

    #[test]
    fn a_guardian_that_was_stopped_takes_no_worker_for_hung() {
        let mut patience = Patience::default();
        looks(&mut patience, 0, (0, 300), 0);
        // Both were stopped for a minute, as a virtual machine is; then the worker needs a while.
        let state = patience.look(&signs(200, 0), at(60_300));
        assert!(
            matches!(&state, State::Starved(why) if why.contains("the guardian itself was delayed by 59.90 s")),
            "{state:?}"
        );
        assert!(!is_hung(&looks(&mut patience, 200, (60_400, 64_900), 0)));
        assert!(is_hung(&looks(&mut patience, 200, (65_000, 65_400), 0)), "it had five seconds of its own");
        assert_eq!(patience.look(&signs(65_400, 0), at(65_500)), State::Fine);
    }

    #[test]
    fn one_that_gets_no_cpu_is_starved_and_spared_for_a_bounded_time() {
        let mut patience = Patience::default();
        assert_eq!(looks(&mut patience, 0, (0, 5_000), 90), State::Fine);
        let state = looks(&mut patience, 0, (5_100, 29_900), 90);
        assert!(matches!(&state, State::Starved(why) if why.contains("it got no CPU")), "{state:?}");
        assert!(is_hung(&looks(&mut patience, 0, (30_000, 30_100), 90)));
    }

    #[test]
    fn a_spinning_one_on_a_busy_machine_is_hung_when_it_has_run_for_its_time() {
        let mut patience = Patience::default();
        let state = looks(&mut patience, 0, (0, 9_900), 50);
        assert!(matches!(state, State::Starved(_)), "{state:?}");
        assert!(is_hung(&looks(&mut patience, 0, (10_000, 10_200), 50)));
    }

    #[test]
    fn an_overdue_solo_run_is_found_and_not_for_a_late_look() {
        let lease = |ms: u64| Signs { lease_until: Some(at(1_000)), ..signs(ms, 0) };
        let mut patience = Patience::default();
        for ms in (0..=1_300).step_by(100) {
            assert_eq!(patience.look(&lease(ms), at(ms)), State::Fine, "{ms}");
        }
        let state = patience.look(&lease(1_400), at(1_400));
        assert!(matches!(&state, State::Hung(why) if why.contains("overdue")), "{state:?}");
        let mut patience = Patience::default();
        patience.look(&lease(900), at(900));
        assert_eq!(patience.look(&lease(9_000), at(9_000)), State::Fine, "the guardian itself was delayed");
        assert_eq!(patience.look(&signs(9_000, 0), at(9_100)), State::Fine, "and the worker ended the solo run");
    }
}
