//! Figures 1, 2 and 6 to 8: targets beside each neighbour, with Kubernetes' own means and with rKube.

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_report::human;
use quell_sim::experiment::rkube::{BATCH, MEMCACHED, Neighbour, Seen, Target, Tenants};

use super::grid::{BOTH, Column, Grid};
use super::{batch, measure, memory_intensive, name, range};

/// The highest rate of the paper's multi-tenant memcached, and the load of the single-tenant one beside it.
const PAPERS_RATE: Target = Target::Memcached(Some(37_000));

/// Seconds that a batch program takes alone (§3.1.3).
const ALONE_S: f64 = 60.0;

pub fn measures(grid: &mut Grid) -> Result<Vec<Measure>> {
    let neighbours = |target: Target| Neighbour::all(target.cpus()).map(Some).into_iter().chain([None]);
    let cells = |targets: &[Target], column: Column| {
        let tenants = |&target: &Target| neighbours(target).map(move |neighbour| Tenants { target, neighbour });
        targets.iter().flat_map(tenants).map(|tenants| (tenants, column)).collect()
    };
    let figure2: Vec<Target> = BATCH.map(Target::Batch).into_iter().chain([MEMCACHED]).collect();
    grid.run("Figure 2", cells(&figure2, Column::Standard))?;
    grid.run("Figure 6", cells(&figure2, Column::Rkube))?;
    grid.run("Figure 6, static policy", cells(&figure2, Column::Static))?;
    let columns = [Column::Standard, Column::Rkube, Column::Static];
    let at_rate = |column| -> Vec<(Tenants, Column)> { cells(&[PAPERS_RATE], column) };
    grid.run("Figure 1b", columns.into_iter().flat_map(at_rate).collect())?;
    let seen = Interference { grid };
    let mut measures = seen.batch_standard()?;
    measures.extend(seen.memcached_standard()?);
    measures.extend(seen.batch_rkube()?);
    measures.extend(seen.memcached_rkube()?);
    measures.push(seen.static_policy()?);
    measures.extend(seen.host()?);
    measures.extend(tails(grid)?);
    Ok(measures)
}

struct Interference<'a> {
    grid: &'a Grid,
}

/// The burstable memory-intensive one.
fn worst(target: Target) -> Neighbour {
    memory_intensive(target, true)
}

/// By neighbour, in the order of [`Neighbour::all`].
fn list(values: [f64; 4], unit: &str) -> String {
    let values = Neighbour::all(0).into_iter().zip(values).map(|(of, value)| format!("{} {value:.2}{unit}", name(of)));
    values.collect::<Vec<_>>().join(", ")
}

impl Interference<'_> {
    /// Ratio of the jobs' time to the time alone without rKube.
    fn slowdown(&self, target: Target, neighbour: Neighbour, column: impl Into<Column>) -> Result<f64> {
        let job = |seen: &Seen| seen.target.latencies.mean().0 as f64;
        let alone = self.grid.seen(target, None, false)?;
        Ok(job(self.grid.seen(target, Some(neighbour), column)?) / job(alone))
    }

    fn slowdowns(&self, target: Target, column: impl Into<Column>) -> Result<[f64; 4]> {
        let column = column.into();
        let mut all = [0.0; 4];
        for (slot, neighbour) in all.iter_mut().zip(Neighbour::all(target.cpus())) {
            *slot = self.slowdown(target, neighbour, column)?;
        }
        Ok(all)
    }

    fn rates(&self, column: impl Into<Column>) -> Result<[f64; 4]> {
        let column = column.into();
        let mut all = [0.0; 4];
        for (slot, neighbour) in all.iter_mut().zip(Neighbour::all(MEMCACHED.cpus())) {
            *slot = self.grid.seen(MEMCACHED, Some(neighbour), column)?.rate();
        }
        Ok(all)
    }

    fn batch_standard(&self) -> Result<Vec<Measure>> {
        let (bodytrack, streamcluster) = (Target::Batch(batch("bodytrack")?), Target::Batch(batch("streamcluster")?));
        let mut mean = [0.0; 4];
        let (mut most, mut all) = ((0.0, ""), Vec::new());
        for program in BATCH {
            let slowdowns = self.slowdowns(Target::Batch(program), false)?;
            mean.iter_mut().zip(slowdowns).for_each(|(mean, slowdown)| *mean += slowdown / BATCH.len() as f64);
            if slowdowns[0] > most.0 {
                most = (slowdowns[0], program.name);
            }
            all.push(format!("{} {:.2}", program.name, slowdowns[0]));
        }
        let next = mean[..3].iter().fold(0.0_f64, |worst, &mean| worst.max(mean));
        let slowdowns = |target| Ok::<_, anyhow::Error>(list(self.slowdowns(target, false)?, ""));
        let (one, other) = (self.slowdown(bodytrack, worst(bodytrack), false)?, worst(streamcluster));
        let streamcluster_slowdown = self.slowdown(streamcluster, other, false)?;
        let got = self.grid.seen(streamcluster, Some(other), false)?.utilisation;
        let capped = mean[1] / mean[3];
        Ok(vec![
            measure("fig1a.bodytrack", one, slowdowns(bodytrack)?)?,
            measure("fig1a.streamcluster", streamcluster_slowdown, slowdowns(streamcluster)?)?,
            measure("fig2a.worst", next / mean[3], format!("mean slowdowns: {}", list(mean, "")))?,
            measure("fig2a.capped-cpu", most.0, format!("{}: {}", most.1, all.join(", ")))?,
            measure("fig2a.capped", capped, "")?,
            measure("fig2a.capped-still", mean[0].min(mean[1]), "")?,
            measure("fig2b.trend", self.utilisation(3)? / self.utilisation(0)?, "")?,
            measure("fig2b.streamcluster", got, "")?,
            measure("fig2a.streamcluster-time", ALONE_S * streamcluster_slowdown, "")?,
        ])
    }

    /// Mean over all targets beside the neighbour of this place.
    fn utilisation(&self, place: usize) -> Result<f64> {
        let targets: Vec<Target> = BATCH.map(Target::Batch).into_iter().chain([MEMCACHED]).collect();
        let mut sum = 0.0;
        for &target in &targets {
            let neighbour = Neighbour::all(target.cpus())[place];
            sum += self.grid.seen(target, Some(neighbour), false)?.utilisation;
        }
        Ok(sum / targets.len() as f64)
    }

    /// The least of all targets and neighbours: CPU time got with rKube over that without.
    fn utilisation_gain(&self) -> Result<f64> {
        let mut least = f64::INFINITY;
        for target in BATCH.map(Target::Batch).into_iter().chain([MEMCACHED]) {
            for neighbour in Neighbour::all(target.cpus()) {
                let got = |rkube| -> Result<f64> { Ok(self.grid.seen(target, Some(neighbour), rkube)?.utilisation) };
                least = least.min(got(true)? / got(false)?);
            }
        }
        Ok(least)
    }

    fn memcached_standard(&self) -> Result<Vec<Measure>> {
        let alone = self.grid.seen(MEMCACHED, None, false)?;
        let beside = self.grid.seen(MEMCACHED, Some(worst(MEMCACHED)), false)?;
        let (calm, disturbed) = (
            self.grid.seen(PAPERS_RATE, None, false)?.p99(),
            self.grid.seen(PAPERS_RATE, Some(worst(MEMCACHED)), false)?,
        );
        let tail = disturbed.p99();
        let answers = format!("it answers {}", human::rate(disturbed.rate()));
        let rates = self.rates(false)?;
        let least = rates[..3].iter().fold(f64::INFINITY, |least, &rate| least.min(rate));
        Ok(vec![
            measure("fig1b.alone-rate", alone.rate(), "")?,
            measure("fig1b.alone-p99", calm.0 as f64 / 1e3, "")?,
            measure("fig1b.rate", beside.rate(), list(rates.map(|rate| rate / 1e3), "k"))?,
            measure("fig1b.p99", tail.0 as f64 / 1e3, answers)?,
            measure("fig1b.p99-factor", tail.0 as f64 / calm.0 as f64, "")?,
            measure("fig2c.worst", rates[3] / least, "")?,
            measure("fig2c.utilisation", beside.utilisation, "")?,
        ])
    }

    fn batch_rkube(&self) -> Result<Vec<Measure>> {
        let streamcluster = Target::Batch(batch("streamcluster")?);
        let speedups = |target: Target, column: Column| -> Result<[f64; 4]> {
            let (without, with) = (self.slowdowns(target, false)?, self.slowdowns(target, column)?);
            Ok(std::array::from_fn(|at| without[at] / with[at]))
        };
        let (mut all, mut pinned, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for program in BATCH {
            pinned.extend(speedups(Target::Batch(program), Column::Static)?);
            let own = speedups(Target::Batch(program), Column::Rkube)?;
            notes.push(format!("{} {}", program.name, own.map(|speedup| format!("{speedup:.2}")).join(" ")));
            all.extend(own);
        }
        let (least, most) = range(all.into_iter());
        let (pinned_least, pinned_most) = range(pinned.into_iter());
        notes.push(format!("with the static policy {pinned_least:.2} to {pinned_most:.2}"));
        let got = |column: Column| -> Result<f64> {
            Ok(self.grid.seen(streamcluster, Some(worst(streamcluster)), column)?.utilisation)
        };
        let got_pinned = format!("with the static policy {:.2}", got(Column::Static)?);
        let time = ALONE_S * self.slowdown(streamcluster, worst(streamcluster), true)?;
        let slowdowns = list(self.slowdowns(streamcluster, true)?, "");
        Ok(vec![
            measure("fig6.utilisation", self.utilisation_gain()?, "")?,
            measure("fig6a.streamcluster-time", time, format!("as multiples of the time alone: {slowdowns}"))?,
            measure("fig6b.streamcluster", got(Column::Rkube)?, got_pinned)?,
            measure("fig6a.least", least, notes.join(", "))?,
            measure("fig6a.most", most, "")?,
        ])
    }

    fn memcached_rkube(&self) -> Result<Vec<Measure>> {
        let beside = self.grid.seen(MEMCACHED, Some(worst(MEMCACHED)), true)?;
        let (without, with) = (self.rates(false)?, self.rates(true)?);
        let gains: [f64; 4] = std::array::from_fn(|at| with[at] / without[at]);
        let (least, most) = range(gains.into_iter());
        let pinned = self.grid.seen(MEMCACHED, Some(worst(MEMCACHED)), Column::Static)?;
        let all = list(with.map(|rate| rate / 1e3), "k");
        let rate_note = format!("{all}; with the static policy {:.2}k", pinned.rate() / 1e3);
        let p99 = |column: Column| -> Result<Nanos> {
            Ok(self.grid.seen(PAPERS_RATE, Some(worst(MEMCACHED)), column)?.p99())
        };
        let (tail, saturated) = (p99(Column::Rkube)?, p99(Column::Standard)?);
        let tail_note = format!("with the static policy {:.0} µs", p99(Column::Static)?.0 as f64 / 1e3);
        Ok(vec![
            measure("fig6c.rate", beside.rate(), rate_note)?,
            measure(
                "fig6c.utilisation",
                beside.utilisation,
                format!("with the static policy {:.2}", pinned.utilisation),
            )?,
            measure("fig6c.least", least, list(gains, ""))?,
            measure("fig6c.most", most, "")?,
            measure("fig8.p99", tail.0 as f64 / 1e3, tail_note)?,
            measure("fig8.factor", saturated.0 as f64 / tail.0 as f64, "")?,
        ])
    }

    /// Streamcluster beside the worst neighbour.
    fn static_policy(&self) -> Result<Measure> {
        let streamcluster = Target::Batch(batch("streamcluster")?);
        let of = |column: Column| self.slowdown(streamcluster, worst(streamcluster), column);
        let (ours, theirs) = (of(Column::Rkube)?, of(Column::Static)?);
        let note = format!("{ours:.2} times its time alone against {theirs:.2}");
        measure("text.static", ours / theirs, note)
    }

    fn host(&self) -> Result<Vec<Measure>> {
        let host = |burstable, rkube| -> Result<f64> {
            Ok(self.grid.seen(MEMCACHED, Some(memory_intensive(MEMCACHED, burstable)), rkube)?.host)
        };
        Ok(vec![
            measure("fig7b.burstable", host(true, false)?, "")?,
            measure("fig7b.burstable-rkube", host(true, true)?, "")?,
            measure("fig7b.capped", host(false, false)?, "")?,
            measure("fig7b.capped-rkube", host(false, true)?, "")?,
        ])
    }
}

/// Figure 8: at the rate that saturates memcached without rKube.
fn tails(grid: &mut Grid) -> Result<Vec<Measure>> {
    let mut asked = Vec::new();
    for neighbour in Neighbour::all(MEMCACHED.cpus()) {
        let rate = grid.seen(MEMCACHED, Some(neighbour), false)?.rate();
        asked.push((Target::Memcached(Some(rate as u32)), neighbour));
    }
    let cells = asked.iter().map(|&(target, neighbour)| Tenants { target, neighbour: Some(neighbour) });
    grid.run("Figure 8", cells.flat_map(|tenants| BOTH.map(|rkube| (tenants, rkube))).collect())?;
    let mut gains = [0.0; 4];
    for (gain, &(target, neighbour)) in gains.iter_mut().zip(&asked) {
        let p99 = |rkube| -> Result<f64> { Ok(grid.seen(target, Some(neighbour), rkube)?.p99().0 as f64) };
        *gain = p99(false)? / p99(true)?;
    }
    let (least, most) = range(gains.into_iter());
    Ok(vec![measure("fig8.least", least, list(gains, ""))?, measure("fig8.most", most, "")?])
}
