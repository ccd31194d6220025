//! A server's budget in C against the reference, through random sequences.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use quell_model::{DeferrableServer, Nanos};
use quell_scx::layout::ServerState;

unsafe extern "C" {
    fn quell_rule_server_left(server: *const ServerState, now: u64) -> u64;
    fn quell_rule_server_has_budget(server: *const ServerState, now: u64) -> bool;
    fn quell_rule_server_ran(server: *const ServerState, since: u64, now: u64) -> u64;
    fn quell_rule_server_ends(server: *const ServerState, now: u64) -> u64;
}

/// Both at once.
struct Pair {
    ours: Box<ServerState>,
    reference: DeferrableServer,
    now: Nanos,
}

// All calls below are of functions that take a server and numbers.
impl Pair {
    fn new(budget: Nanos, period: Nanos, now: Nanos) -> Pair {
        // SAFETY: all bytes zero are a value of this structure of atomic integers.
        let ours: Box<ServerState> = unsafe { Box::new_zeroed().assume_init() };
        ours.begin(budget, period, now);
        Pair { ours, reference: DeferrableServer::new(budget, period, now), now }
    }

    fn set(&mut self, budget: Nanos, period: Nanos) {
        // The reference looks at its server then, and so does the kernel half: at the kick.
        self.left();
        self.ours.set(budget, period);
        self.reference.set(budget, period, self.now);
    }

    fn left(&mut self) -> (Nanos, Nanos) {
        // SAFETY: see above.
        let has = unsafe { quell_rule_server_has_budget(&raw const *self.ours, self.now.0) };
        // SAFETY: see above.
        let left = unsafe { quell_rule_server_left(&raw const *self.ours, self.now.0) };
        assert_eq!(has, left > 0);
        let left = (Nanos(left), Nanos(self.ours.next_period.load(Relaxed)));
        assert_eq!(left, (self.reference.left(self.now), self.reference.replenished_at()));
        left
    }

    /// Runs for this long from now on, reported in one part to ours, and to the reference in one for each period.
    fn runs(&mut self, span: Nanos) {
        let (since, until) = (self.now, self.now + span);
        // SAFETY: see above.
        let overrun = unsafe { quell_rule_server_ran(&raw const *self.ours, since.0, until.0) };
        let mut longest = Nanos::ZERO;
        while self.now < until {
            let end = self.reference.replenished_at().min(until);
            longest = longest.max(self.reference.ran(end - self.now, end));
            self.now = end;
        }
        assert_eq!(Nanos(overrun), longest, "from {since} to {until}");
    }

    /// Until when a thread that never sleeps has budget, if that is before `last`.
    fn ends(&self, last: Nanos) -> Option<Nanos> {
        let (mut reference, mut now) = (self.reference, self.now);
        while now < last {
            if reference.left(now) == Nanos::ZERO {
                return Some(now);
            }
            now += Nanos(1);
            reference.ran(Nanos(1), now);
        }
        None
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Runs(u64),
    Sleeps(u64),
    Set(u64, u64),
    SetAgain,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0u64..30).prop_map(Happening::Runs),
        3 => (0u64..60).prop_map(Happening::Sleeps),
        1 => (1u64..20, 0u64..40).prop_map(|(budget, period)| Happening::Set(budget, period)),
        1 => Just(Happening::SetAgain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_budget_is_kept_as_by_the_reference(
        budget in 1u64..20,
        period in 0u64..40,
        begins in 0u64..1000,
        sequence in proptest::collection::vec(happening(), 1..80),
    ) {
        let mut pair = Pair::new(Nanos(budget), Nanos(period), Nanos(begins));
        let mut terms = (Nanos(budget), Nanos(period));
        for what in sequence {
            pair.left();
            match what {
                Happening::Runs(span) => pair.runs(Nanos(span)),
                Happening::Sleeps(span) => pair.now += Nanos(span),
                Happening::Set(budget, period) => {
                    terms = (Nanos(budget), Nanos(period));
                    pair.set(terms.0, terms.1);
                }
                Happening::SetAgain => pair.set(terms.0, terms.1),
            }
        }
    }

    #[test]
    fn a_thread_that_never_sleeps_is_stopped_when_the_reference_has_nothing_left(
        budget in 1u64..20,
        slack in 0u64..20,
        next in (1u64..20, 0u64..20),
        ran in 0u64..40,
    ) {
        let mut pair = Pair::new(Nanos(budget), Nanos(budget + slack), Nanos(5));
        pair.runs(Nanos(ran));
        pair.left();
        pair.set(Nanos(next.0), Nanos(next.0 + next.1));
        // SAFETY: see above.
        let ends = unsafe { quell_rule_server_ends(&raw const *pair.ours, pair.now.0) };
        let last = pair.now + Nanos(200);
        prop_assert_eq!((ends < last.0).then_some(Nanos(ends)), pair.ends(last));
    }
}
