//! Lost time as a list: the services that lost most, and what took it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quell_model::Nanos;
use serde::Serialize;

use super::waits::{Holder, Lost};

/// A loss is worth a word from this part of the window on.
const NOTICEABLE: f64 = 0.005;

/// A kind of cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Another service ran.
    Service,
    /// The kernel's threads ran.
    Kernel,
    /// Quell ran.
    Quell,
    /// A thread of no service ran: one of Quell's, or one that ended before it was known whose.
    Thread,
    /// The CPU limit of the service's cgroup, or of one above it.
    Limit,
    /// Nothing ran: the CPU was on its way out of idle.
    Idle,
}

/// What took a service's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Its kind.
    pub cause: Cause,
    /// Its name, safe to print.
    pub name: String,
    /// The time, in nanoseconds of CPU time.
    pub time: Nanos,
}

/// What a service lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// CPU time that it had.
    pub ran: Nanos,
    /// CPU time for which it waited while something else than its own threads had the CPU: the sum of `to`.
    pub waited: Nanos,
    /// CPU time for which some of its threads waited while others of its own ran. It is no loss.
    pub behind_own: Nanos,
    /// What took it, the largest first.
    pub to: Vec<Loss>,
}

impl Losses {
    /// Adds up a service's time. `named` says what a service or a thread is called; `limited` is the time for which a CPU limit
    /// held it back.
    #[must_use]
    pub fn of(lost: &Lost, limited: Nanos, named: &dyn Fn(Holder) -> (Cause, String)) -> Losses {
        let mut to: BTreeMap<(Cause, String), u64> = BTreeMap::new();
        let mut losses = Losses { ran: lost.ran, ..Losses::default() };
        for (&holder, &time) in &lost.by {
            if holder == Holder::Own {
                losses.behind_own += time;
            } else {
                *to.entry(named(holder)).or_default() += time.0;
                losses.waited += time;
            }
        }
        hold_back(&mut to, limited.0.min(losses.waited.0), losses.waited.0);
        let loss = |((cause, name), time)| Loss { cause, name, time: Nanos(time) };
        losses.to = to.into_iter().filter(|(_, time)| *time > 0).map(loss).collect();
        losses.to.sort_by_key(|loss| (Reverse(loss.time), loss.cause, loss.name.clone()));
        losses
    }

    /// CPU time that it wanted.
    #[must_use]
    pub fn wanted(&self) -> Nanos {
        self.ran + self.waited
    }

    /// Is it worth a word, in a window of this length?
    #[must_use]
    pub fn is_noticeable(&self, window: Nanos) -> bool {
        self.waited.0 as f64 >= NOTICEABLE * window.0 as f64
    }
}

/// Lays what a limit explains to the limit: first the time in which nothing ran, then a part of all others.
fn hold_back(to: &mut BTreeMap<(Cause, String), u64>, limited: u64, all: u64) {
    if limited == 0 {
        return;
    }
    let idle: u64 = to.iter().filter(|((cause, _), _)| *cause == Cause::Idle).map(|(_, time)| time).sum();
    // The kernel counts limits by themselves: at what instants is not known.
    let (from_idle, from_others) = (limited.min(idle), limited.saturating_sub(idle));
    let mut taken = 0;
    for ((cause, _), time) in to.iter_mut() {
        let (of, all) = if *cause == Cause::Idle { (from_idle, idle) } else { (from_others, all - idle) };
        let part = (u128::from(*time) * u128::from(of) / u128::from(all.max(1))) as u64;
        *time -= part;
        taken += part;
    }
    *to.entry((Cause::Limit, "its own CPU limit".to_owned())).or_default() += taken;
}

/// One service with its losses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name, safe to print; another service may have the same one.
    pub name: String,
    /// `unit`, `container` or `command`.
    pub kind: &'static str,
    /// The word that names it to other commands; empty where it stands for several.
    pub target: String,
    /// Its user's number, if that is known.
    pub user: Option<u32>,
    /// Its processes when the window began.
    #[serde(skip)]
    pub pids: Vec<i32>,
    /// Their number.
    pub processes: usize,
    /// Its losses.
    #[serde(flatten)]
    pub losses: Losses,
}

/// The service that lost most first.
pub fn rank(rows: &mut [Row]) {
    rows.sort_by(|one, other| {
        let key = |row: &Row| (Reverse(row.losses.waited), Reverse(row.losses.ran));
        key(one).cmp(&key(other)).then_with(|| (&one.name, &one.target).cmp(&(&other.name, &other.target)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(holder: Holder) -> (Cause, String) {
        match holder {
            Holder::Service(slot) => (Cause::Service, format!("service-{slot}")),
            Holder::Thread(1..10) => (Cause::Kernel, "kworker".into()),
            Holder::Thread(_) => (Cause::Thread, "(ended)".into()),
            Holder::Idle => (Cause::Idle, "CPUs out of idle".into()),
            Holder::Own => unreachable!("its own threads are no cause of a loss"),
        }
    }

    /// What a service lost, in milliseconds, as text.
    fn losses(by: &[(Holder, u64)], limited: u64) -> String {
        let by = by.iter().map(|(holder, millis)| (*holder, Nanos::from_millis(*millis))).collect();
        let lost = Lost { ran: Nanos::from_millis(100), by };
        let losses = Losses::of(&lost, Nanos::from_millis(limited), &named);
        let millis = |time: Nanos| time.0 / 1_000_000;
        assert_eq!(losses.waited, losses.to.iter().fold(Nanos::ZERO, |sum, loss| sum + loss.time));
        let to: Vec<String> = losses.to.iter().map(|loss| format!("{} {}", millis(loss.time), loss.name)).collect();
        format!(
            "{} of {}, {} own: {}",
            millis(losses.waited),
            millis(losses.wanted()),
            millis(losses.behind_own),
            to.join(", ")
        )
    }

    #[test]
    fn losses_add_up_by_name_the_largest_first() {
        use Holder::{Idle, Own, Service, Thread};
        for (by, limited, is) in [
            (vec![], 0, "0 of 100, 0 own: "),
            (vec![(Service(3), 40), (Thread(1), 3), (Thread(2), 4)], 0, "47 of 147, 0 own: 40 service-3, 7 kworker"),
            // What its own threads ran meanwhile is no loss.
            (vec![(Own, 500), (Service(3), 40)], 0, "40 of 140, 500 own: 40 service-3"),
            (
                vec![(Idle, 60), (Service(3), 40)],
                50,
                "100 of 200, 0 own: 50 its own CPU limit, 40 service-3, 10 CPUs out of idle",
            ),
            (vec![(Idle, 60), (Service(3), 40)], 80, "100 of 200, 0 own: 80 its own CPU limit, 20 service-3"),
            (vec![(Service(3), 40)], 900, "40 of 140, 0 own: 40 its own CPU limit"),
            (vec![(Thread(99), 40)], 0, "40 of 140, 0 own: 40 (ended)"),
        ] {
            assert_eq!(losses(&by, limited), is);
        }
    }

    #[test]
    fn the_service_that_lost_most_comes_first_and_equals_are_in_order() {
        let row = |name: &str, waited: u64, ran: u64| Row {
            name: name.into(),
            kind: "command",
            target: name.into(),
            user: None,
            pids: vec![1],
            processes: 1,
            losses: Losses { waited: Nanos(waited), ran: Nanos(ran), ..Losses::default() },
        };
        let mut rows = [row("idle", 0, 0), row("b", 5, 9), row("a", 5, 9), row("busy", 0, 7), row("most", 9, 1)];
        rank(&mut rows);
        assert_eq!(rows.map(|row| row.name), ["most", "a", "b", "busy", "idle"]);
    }

    #[test]
    fn a_loss_is_noticeable_from_a_part_of_the_window_on() {
        let losses = |millis| Losses { waited: Nanos::from_millis(millis), ..Losses::default() };
        assert!(losses(25).is_noticeable(Nanos::from_secs(5)) && !losses(24).is_noticeable(Nanos::from_secs(5)));
    }
}
