//! Marks of hosts by their contention beside their peers', with a hysteresis of their own: a class has a higher bound to enter it than
//! to leave it, and a change must be asked for in several rounds in a row.
//!
//! A host's peers are those whose best measure is the same one: numbers of different measures are never compared.

use quell_model::cluster::{ClusterView, Contended, HostId, HostState, MarkCommand, Measure};
use serde::{Deserialize, Serialize};

/// Contention as a multiple of the peers' mean, from which on a host is contended, and below which it is no more.
const CONTENDED: (f64, f64) = (1.5, 1.2);
/// The same of a busy one.
const BUSY: (f64, f64) = (1.25, 1.05);
/// Rounds in a row that ask for a higher class, and for a lower one.
const ROUNDS: (u32, u32) = (2, 4);
/// A host counts in its peers' mean with this multiple of their median at most: one whose report is forged cannot hide the others.
const COUNTS: f64 = 8.0;
/// At most this part of the peers is marked as contended: where all are alike, a mark says nothing.
const MOST: f64 = 0.5;

/// Contention below which no host is marked, whatever its peers' is.
const fn floor(measure: Measure) -> f64 {
    match measure {
        Measure::Counters => 0.0,
        Measure::Slowdown => 0.05,
        Measure::Sharing => 0.01,
        Measure::Delay => 100e-6,
    }
}

/// Contention of the peers of one measure.
#[derive(Clone, Copy, Debug, Default)]
struct Peers {
    sum: f64,
    hosts: u32,
    contended: u32,
}

/// The class that a host's numbers ask for, and the rounds in a row in which they did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    class: Contended,
    rounds: u32,
}

/// What each host's numbers asked for lately. The marks themselves are the view's: they outlive a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    asked: Vec<Asked>,
    #[serde(skip)]
    sorted: Vec<f64>,
}

impl Marker {
    /// One round: appends the marks that change.
    pub fn mark(&mut self, view: &ClusterView, marks: &mut Vec<MarkCommand>) {
        if self.asked.len() < view.hosts.len() {
            self.asked.resize(view.hosts.len(), Asked::default());
        }
        if marks.capacity() < view.hosts.len() {
            marks.reserve_exact(view.hosts.len() - marks.len());
        }
        let most = Measure::ALL.map(|measure| self.most(view, measure));
        let mut peers = [Peers::default(); Measure::ALL.len()];
        for host in view.hosts.ids() {
            let Some((measure, contention)) = reported(view, host) else { continue };
            let of = &mut peers[measure.index()];
            of.sum += contention.min(most[measure.index()]);
            of.hosts += 1;
            of.contended += u32::from(view.hosts.mark[host.index()] == Contended::Contended);
        }
        for host in view.hosts.ids() {
            let now = view.hosts.mark[host.index()];
            let mut wanted = Contended::Quiet;
            if let Some((measure, contention)) = reported(view, host) {
                let of = &mut peers[measure.index()];
                wanted = class(now, contention, measure, of);
                if wanted == Contended::Contended
                    && now != wanted
                    && f64::from(of.contended + 1) > MOST * f64::from(of.hosts)
                {
                    wanted = Contended::Busy;
                }
            }
            let asked = &mut self.asked[host.index()];
            if wanted == now {
                *asked = Asked::default();
                continue;
            }
            // Any rise, or any fall, goes on with the last one.
            let is_same = asked.rounds > 0 && (asked.class > now) == (wanted > now);
            *asked = Asked { class: wanted, rounds: if is_same { asked.rounds + 1 } else { 1 } };
            let rounds = if wanted > now { ROUNDS.0 } else { ROUNDS.1 };
            if asked.rounds >= rounds {
                *asked = Asked::default();
                marks.push(MarkCommand { host, class: wanted });
                if let (Contended::Contended, Some((measure, _))) = (wanted, reported(view, host)) {
                    peers[measure.index()].contended += 1;
                }
            }
        }
    }

    /// What a host counts with at most: by the median of those that have this measure; where most have none of it, all of it.
    fn most(&mut self, view: &ClusterView, measure: Measure) -> f64 {
        self.sorted.clear();
        if self.sorted.capacity() < view.hosts.len() {
            self.sorted.reserve_exact(view.hosts.len());
        }
        let of = |host| reported(view, host).filter(|(its, _)| *its == measure).map(|(_, contention)| contention);
        self.sorted.extend(view.hosts.ids().filter_map(of));
        self.sorted.sort_unstable_by(f64::total_cmp);
        let median = self.sorted.get(self.sorted.len() / 2).copied().unwrap_or(0.0);
        if median > 0.0 { median * COUNTS } else { f64::INFINITY }
    }
}

/// The best measure of a host that takes workloads, and its contention by it.
fn reported(view: &ClusterView, host: HostId) -> Option<(Measure, f64)> {
    let is_ready = matches!(view.hosts.state[host.index()], HostState::Ready | HostState::Draining);
    let measure = view.measure(host).filter(|_| is_ready)?;
    Some((measure, view.contention(host, measure)?))
}

/// The class of a host that has this one now.
fn class(now: Contended, contention: f64, measure: Measure, peers: &Peers) -> Contended {
    let mean = peers.sum / f64::from(peers.hosts.max(1));
    if peers.hosts < 2 || contention <= floor(measure) || mean <= 0.0 {
        return Contended::Quiet;
    }
    let part = contention / mean;
    let is = |of: Contended, (enter, leave): (f64, f64)| part >= if now >= of { leave } else { enter };
    match () {
        () if is(Contended::Contended, CONTENDED) => Contended::Contended,
        () if is(Contended::Busy, BUSY) => Contended::Busy,
        () => Contended::Quiet,
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Nanos, Sample};

    use super::*;

    /// Hosts with this contention by this measure.
    fn cluster(measure: Measure, values: &[f64]) -> ClusterView {
        let mut view = ClusterView::default();
        view.hosts.resize(values.len());
        for (at, value) in values.iter().enumerate() {
            view.hosts.state[at] = HostState::Ready;
            set(&mut view, at, measure, *value);
        }
        view
    }

    fn set(view: &mut ClusterView, at: usize, measure: Measure, value: f64) {
        let sample = Sample::exact(value, Nanos::ZERO);
        match measure {
            Measure::Counters => view.hosts.contention[at] = sample,
            other => view.hosts.substitutes[at][other.index() - 1] = sample,
        }
    }

    /// Rounds, with the marks obeyed.
    fn rounds(marker: &mut Marker, view: &mut ClusterView, number: u32) -> Vec<Contended> {
        for _ in 0..number {
            let mut marks = Vec::new();
            marker.mark(view, &mut marks);
            marks.iter().for_each(|mark| view.hosts.mark[mark.host.index()] = mark.class);
        }
        view.hosts.mark.clone()
    }

    use Contended::{Busy, Contended as High, Quiet};

    #[test]
    fn a_host_is_marked_after_two_rounds_and_freed_after_four_below_the_lower_bound() {
        let mut marker = Marker::default();
        let mut view = cluster(Measure::Counters, &[100.0, 100.0, 400.0, 100.0]);
        assert_eq!(rounds(&mut marker, &mut view, 1), [Quiet; 4]);
        assert_eq!(rounds(&mut marker, &mut view, 1), [Quiet, Quiet, High, Quiet]);
        // Between the bounds nothing changes: 130 of a mean of 107.5.
        set(&mut view, 2, Measure::Counters, 130.0);
        assert_eq!(rounds(&mut marker, &mut view, 20), [Quiet, Quiet, High, Quiet]);
        set(&mut view, 2, Measure::Counters, 50.0);
        assert_eq!(rounds(&mut marker, &mut view, 3)[2], High);
        assert_eq!(rounds(&mut marker, &mut view, 1)[2], Quiet);
    }

    #[test]
    fn a_forged_report_hides_no_other_host() {
        let mut marker = Marker::default();
        let mut view = cluster(Measure::Sharing, &[0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 1e15]);
        assert_eq!(rounds(&mut marker, &mut view, 2)[5..], [High, High]);
    }

    #[test]
    fn one_round_of_quiet_begins_the_count_again() {
        let mut marker = Marker::default();
        let mut view = cluster(Measure::Sharing, &[0.1, 0.1, 0.4]);
        for _ in 0..5 {
            rounds(&mut marker, &mut view, 1);
            set(&mut view, 2, Measure::Sharing, 0.1);
            rounds(&mut marker, &mut view, 1);
            set(&mut view, 2, Measure::Sharing, 0.4);
        }
        assert_eq!(view.hosts.mark, [Quiet; 3]);
    }

    #[test]
    fn numbers_of_two_measures_are_not_compared_and_a_host_without_peers_has_no_mark() {
        let mut marker = Marker::default();
        let mut view = cluster(Measure::Counters, &[1e6, 1e6, 0.0]);
        view.hosts.contention[2] = Sample::default();
        set(&mut view, 2, Measure::Slowdown, 3.0);
        assert_eq!(rounds(&mut marker, &mut view, 10), [Quiet; 3]);
    }

    #[test]
    fn at_most_half_are_contended_and_a_silent_host_loses_its_mark() {
        let mut marker = Marker::default();
        let mut view = cluster(Measure::Delay, &[1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]);
        let marks = rounds(&mut marker, &mut view, 10);
        assert_eq!(marks, [High, High, High, Quiet, Quiet, Quiet]);
        set(&mut view, 3, Measure::Delay, 9e-3);
        assert_eq!(rounds(&mut marker, &mut view, 3)[3], Busy, "half are marked already");
        view.hosts.substitutes[0] = Default::default();
        assert_eq!(rounds(&mut marker, &mut view, 4)[0], Quiet);
    }
}
