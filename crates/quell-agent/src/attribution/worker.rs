//! The thread of attribution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caps::{CapSet, Capability};
use quell_gap::Machine;
use quell_gap::attribution::{Budget, Crew, Due, Pace, Probe, Traced};
use quell_model::Nanos;
use quell_thread::clock::{cpu_time, now};

use super::accounts::Accounts;
use super::exchange::{Look, Numbers};
use super::shown::{Shown, waited};
use crate::wire;

/// It looks so often whether something waits.
const LOOK: Duration = Duration::from_millis(200);
/// The accounts are shown so often; of many workloads, that costs something.
const SHOW: Nanos = Nanos::from_secs(1);
/// The loop has this long to hand over the threads.
const THREADS_WITHIN: Nanos = Nanos::from_secs(2);
/// Bursts that come later than they should by less than this are no news.
const LATE: Nanos = Nanos::from_secs(10);

/// The thread's ends of what connects it.
pub(super) struct Ends {
    pub looks: triple_buffer::Output<Look>,
    pub numbers: triple_buffer::Input<Numbers>,
    pub wants_threads: Arc<AtomicBool>,
    pub stop: Arc<AtomicBool>,
    pub shown: Shown,
}

struct Worker {
    ends: Ends,
    accounts: Accounts,
    budget: Budget,
    bound: f64,
    pace: Pace,
    probe: Option<Probe>,
    /// Why it cannot trace.
    unavailable: Option<String>,
    was_limited: bool,
    bursts: u64,
    /// CPU time of this thread that was charged.
    charged: Nanos,
    shown_at: Nanos,
}

/// The thread's whole life.
pub(super) fn run(cost: f64, ends: Ends) {
    let mut worker = Worker {
        ends,
        accounts: Accounts::default(),
        budget: Budget::new(cost, now()),
        bound: cost,
        pace: Pace::default(),
        probe: None,
        unavailable: None,
        was_limited: false,
        bursts: 0,
        charged: cpu_time(),
        shown_at: Nanos::ZERO,
    };
    while !worker.ends.stop.load(Ordering::Acquire) {
        worker.turn();
        std::thread::park_timeout(LOOK);
    }
}

/// Loads the tracing program. Without the privileges no call is made: a unit's filter of calls may end the process for it.
fn open() -> Result<Probe, String> {
    let needed = [Capability::CAP_BPF, Capability::CAP_PERFMON];
    if !needed.into_iter().all(|needed| caps::has_cap(None, CapSet::Effective, needed).unwrap_or(false)) {
        return Err("tracing takes CAP_BPF and CAP_PERFMON: run as root, or under systemd copy \
                    /usr/share/doc/quell/attribution.conf to /etc/systemd/system/quell.service.d/, then run systemctl \
                    daemon-reload and systemctl restart quell"
            .to_owned());
    }
    Machine::here().and_then(|machine| Probe::open(&machine)).map_err(|error| error.to_string())
}

impl Worker {
    fn turn(&mut self) {
        self.count();
        if self.unavailable.is_some() {
            self.accounts.ledgers_mut().for_each(quell_gap::attribution::Ledger::forget_bursts);
        } else if let Due::Burst(length) = self.pace.look(now(), &self.budget, self.accounts.ledgers()) {
            self.burst(length);
        }
        self.charge(Nanos::ZERO);
        self.warn_if_limited();
        if now().since(self.shown_at) >= SHOW {
            self.show();
        }
    }

    /// Takes what the loop handed over since the last time.
    fn count(&mut self) {
        if self.ends.looks.update() {
            self.accounts.count(self.ends.looks.output_buffer());
        }
    }

    fn burst(&mut self, length: Nanos) {
        if self.probe.is_none() {
            match open() {
                Ok(probe) => self.probe = Some(probe),
                Err(why) => {
                    tracing::info!("what workloads wait for is unknown: {why}");
                    self.unavailable = Some(why);
                    return;
                }
            }
            // Loading is paid once.
            let spent = cpu_time() - self.charged;
            self.budget.spend_once(spent);
            self.charged = cpu_time();
        }
        let Some(crew) = self.crew() else { return };
        self.count();
        self.accounts.ledgers_mut().for_each(quell_gap::attribution::Ledger::begin_burst);
        let stop = Arc::clone(&self.ends.stop);
        let Some(probe) = &mut self.probe else { return };
        let traced = probe.burst(&crew, length, self.budget.left(), &|| !stop.load(Ordering::Acquire));
        self.count();
        self.bursts += 1;
        match traced {
            Ok(Traced { shares, cost, in_kernel, length, is_broken, .. }) => {
                self.accounts.end_burst(&crew.names, Some(&shares[..]).filter(|_| !is_broken));
                self.charge(in_kernel);
                self.budget.learn(length, cost);
            }
            Err(error) => {
                self.accounts.end_burst(&crew.names, None);
                tracing::info!("what workloads wait for is unknown from now on: {error}");
                self.unavailable = Some(error.to_string());
            }
        }
        self.pace.ended(now());
    }

    /// All workloads with their threads, from the loop; None: it did not answer in time.
    fn crew(&mut self) -> Option<Crew> {
        let asked = now();
        self.ends.wants_threads.store(true, Ordering::Release);
        while now().since(asked) < THREADS_WITHIN && !self.ends.stop.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(20));
            if self.ends.looks.update() {
                let look = self.ends.looks.output_buffer();
                self.accounts.count(look);
                if let Some(threads) = look.threads.clone() {
                    return Some(Crew { names: self.accounts.names(), threads });
                }
            }
        }
        None
    }

    /// Pays for what this thread used, and for this.
    fn charge(&mut self, more: Nanos) {
        let used = cpu_time();
        self.budget.spend(now(), (used - self.charged) + more);
        self.charged = used;
    }

    /// For how long bursts have been too dear, if that is news.
    fn limited(&self) -> Option<Nanos> {
        let since = now().since(self.pace.limited_since()?);
        (since >= LATE).then_some(since)
    }

    fn why_limited(&self) -> Option<String> {
        self.limited()?;
        let last = self.pace.last().map_or("none so far".to_owned(), |last| {
            format!("the last one {} s ago", now().since(last).0 / 1_000_000_000)
        });
        let never = if self.budget.never_affords(Pace::shortest()) { "; even a short one costs more" } else { "" };
        Some(format!(
            "attribution traces less than it should ({last}), to stay within {} % of a CPU{never}; raise attribution.cost for more",
            (self.bound * 1e8).round() / 1e6
        ))
    }

    fn warn_if_limited(&mut self) {
        let Some(why) = self.why_limited() else { return };
        if !std::mem::replace(&mut self.was_limited, true) {
            tracing::warn!("{why}");
        }
    }

    fn show(&mut self) {
        let at = now();
        self.shown_at = at;
        let limited = self.why_limited();
        let state = match (&self.unavailable, &limited) {
            (Some(_), _) => wire::AttributionState::Unavailable,
            (None, Some(_)) => wire::AttributionState::Limited,
            (None, None) => wire::AttributionState::Works,
        };
        let agent = wire::Attribution {
            state,
            why: self.unavailable.clone().or(limited),
            cpu_seconds: self.budget.spent().as_secs_f64(),
            cost_bound: self.bound,
            bursts: self.bursts,
        };
        let by_name = self.accounts.all().flatten().map(|(spec, ledger)| (spec.name.clone(), waited(ledger, at)));
        self.ends.shown.show(agent, by_name.collect());
        let numbers = self.ends.numbers.input_buffer_mut();
        (numbers.at, numbers.cost) = (at, self.budget.spent());
        numbers.waited.clear();
        numbers.waited.extend(self.accounts.for_others());
        self.ends.numbers.publish();
    }
}
