//! Latencies of all seeds together, and how sure a ratio of two treatments is.

use quell_evidence::Cell;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of times that the seeds are drawn anew for an interval.
const RESAMPLES: usize = 2_000;

/// What one boot found.
pub type Found = Vec<Cell>;

/// The servers of a boot, in the scene's order.
pub fn servers(found: &[Cell]) -> impl Iterator<Item = &Cell> {
    found.iter().filter(|cell| cell.late.is_some())
}

/// The work of all that runs beside the servers, blocks a second.
pub fn work(found: &[Cell]) -> f64 {
    found.iter().filter(|cell| cell.late.is_none()).map(|cell| cell.rate).sum()
}

/// How many programs run beside the servers.
pub fn kinds(boots: &[Found]) -> usize {
    boots.first().map_or(0, |boot| boot.iter().filter(|cell| cell.late.is_none()).count())
}

/// Programs do work of different kinds, whose blocks cannot be added: each program's as a part of its mean in `theirs`, in per
/// cent, and all of them together 100 if none has lost anything.
pub fn of_each(boots: &[Found], theirs: &[Found]) -> Vec<Found> {
    let mean = |at: usize| theirs.iter().map(|boot| boot[at].rate).sum::<f64>() / theirs.len() as f64;
    let part = |(at, cell): (usize, &Cell)| match cell.late {
        Some(_) => cell.clone(),
        None => Cell { rate: cell.rate / mean(at) * 100.0 / kinds(theirs) as f64, ..cell.clone() },
    };
    boots.iter().map(|boot| boot.iter().enumerate().map(part).collect()).collect()
}

/// The quantile (0–1) of all latencies of a server together, ns; zero if there are none. Of all servers if none is named.
pub fn quantile(all: &[&Found], server: Option<usize>, q: f64) -> f64 {
    let is_asked_for = |at: usize| server.is_none_or(|server| server == at);
    let of_boot = |found: &&Found| {
        let asked = servers(found).enumerate().filter(|&(at, _)| is_asked_for(at));
        asked.flat_map(|(_, server)| server.latencies.clone()).collect::<Vec<_>>()
    };
    let mut buckets: Vec<(u64, u64)> = all.iter().flat_map(of_boot).collect();
    buckets.sort_unstable();
    let all: u64 = buckets.iter().map(|&(_, count)| count).sum();
    let wanted = ((q * all as f64).ceil() as u64).max(1);
    let mut seen = 0;
    let found = buckets.iter().find(|&&(_, count)| {
        seen += count;
        seen >= wanted
    });
    found.map_or(0.0, |&(ns, _)| ns as f64)
}

/// A ratio of two treatments, with its 95 % interval: the seeds are drawn with replacement, the same for both, whose
/// requests come at the same times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Of all seeds.
    pub value: f64,
    /// The interval.
    pub interval: (f64, f64),
}

/// The ratio of `of` for one treatment's boots to that for another's, boot by boot of the same seed.
pub fn ratio(ours: &[Found], theirs: &[Found], of: impl Fn(&[&Found]) -> f64) -> Ratio {
    let seeds = ours.len().min(theirs.len());
    let drawn = |draw: &mut dyn FnMut(usize) -> usize| {
        let chosen: Vec<usize> = (0..seeds).map(draw).collect();
        let boots = |all: &'_ [Found]| chosen.iter().map(|&at| all[at].clone()).collect::<Vec<_>>();
        let (ours, theirs) = (boots(ours), boots(theirs));
        of(&ours.iter().collect::<Vec<_>>()) / of(&theirs.iter().collect::<Vec<_>>())
    };
    let value = drawn(&mut |seed| seed);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| drawn(&mut |_| random.random_range(0..seeds))).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |q: f64| ratios[((RESAMPLES - 1) as f64 * q) as usize];
    Ratio { value, interval: (at(0.025), at(0.975)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(latencies: &[(u64, u64)]) -> Found {
        vec![Cell { latencies: latencies.to_vec(), late: Some(0.0), ..Cell::default() }]
    }

    #[test]
    fn each_programs_work_counts_alike() {
        let boot = |rates: [f64; 2]| -> Found {
            let of = |rate| Cell { rate, ..Cell::default() };
            boot(&[(1, 1)]).into_iter().chain(rates.map(of)).collect()
        };
        let theirs = [boot([1000.0, 2.0]), boot([3000.0, 4.0])];
        assert_eq!(kinds(&theirs), 2);
        assert_eq!(of_each(&theirs, &theirs).iter().map(|boot| work(boot)).sum::<f64>(), 200.0);
        assert!((work(&of_each(&[boot([1000.0, 3.0])], &theirs)[0]) - 75.0).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_those_of_all_requests_together() {
        let (fast, slow) = (boot(&[(10, 90), (20, 5)]), boot(&[(15, 3), (40, 2)]));
        assert_eq!(quantile(&[&fast, &slow], None, 0.5), 10.0);
        assert_eq!(quantile(&[&fast, &slow], None, 0.93), 15.0);
        assert_eq!(quantile(&[&fast, &slow], None, 0.98), 20.0);
        assert_eq!(quantile(&[&fast, &slow], None, 0.99), 40.0);
        assert_eq!(quantile(&[], None, 0.5), 0.0);
    }

    #[test]
    fn one_server_is_told_from_all() {
        let mut both = boot(&[(10, 99)]);
        both.extend(boot(&[(20, 1)]));
        both.push(Cell { rate: 3.0, ..Cell::default() });
        assert_eq!(work(&both), 3.0);
        assert_eq!(quantile(&[&both], Some(0), 1.0), 10.0);
        assert_eq!(quantile(&[&both], Some(1), 1.0), 20.0);
        assert_eq!(quantile(&[&both], None, 1.0), 20.0);
    }

    #[test]
    fn an_interval_is_as_wide_as_the_seeds_differ() {
        let base = [boot(&[(100, 10)]), boot(&[(100, 10)]), boot(&[(100, 10)])];
        let same = [boot(&[(110, 10)]), boot(&[(110, 10)]), boot(&[(110, 10)])];
        let p99 = |all: &[&Found]| quantile(all, None, 0.99);
        assert_eq!(ratio(&same, &base, p99), Ratio { value: 1.1, interval: (1.1, 1.1) });
        let differ = [boot(&[(90, 10)]), boot(&[(110, 10)]), boot(&[(130, 10)])];
        let found = ratio(&differ, &base, p99);
        assert_eq!(found.value, 1.3);
        assert!(found.interval.0 < 1.3 && found.interval.1 == 1.3, "{found:?}");
    }
}
