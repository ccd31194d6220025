//! Figures 4.9 to 4.11: EdgeIso, offloading, and reservation of cores and of time.

use anyhow::Result;
use quell_evidence::Measure;
use quell_sim::experiment::edgeiso::{Cores, Dataset, Scene, Seen, data_processing, detection, offloaded, retraining};

use super::super::trial::Trial;
use super::{deviation, least, mean, measure, median, span, violations, with, without};

/// The thresholds of Figures 4.9b and 4.10.
const THRESHOLDS: [f64; 5] = [0.1, 0.2, 0.3, 0.4, 0.5];

/// Figure 4.9: detection, k-means and retraining.
pub fn one_of_each(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial, 15, 50);
    let own = |cores| detection(Dataset::Dynamic, 2, cores, (span.warm_up, span.measured));
    let kmeans = |cores| data_processing("CPU-KMB", 2, false, cores);
    let training = |cores| retraining(2, cores);
    let front = Scene::default().and(own(Cores::Own(0, 2)));
    let alone = without(&front, span)?;
    let offloading = without(&front.clone().and(kmeans(Cores::Own(2, 4))), span)?;
    let reserved = front.and(kmeans(Cores::Own(2, 3))).and(training(Cores::Own(3, 4)));
    let reservation = without(&reserved, span)?;
    let all = Scene::default().and(own(Cores::Any)).and(kmeans(Cores::Any)).and(training(Cores::Any));
    let ours = with(&all, Some("detection"), trial, span)?;
    let phases = ours.notes.iter().filter(|note| note.contains("phase changed")).count();
    // The same threads on the same number of cores, with nothing beside them.
    let elsewhere = without(&Scene::default().and(offloaded(training(Cores::Any))), span)?.speed(0);
    let solo = without(&Scene::default().and(training(Cores::Own(3, 4))), span)?.speed(0);
    let [a, o, r] = [&ours, &offloading, &reservation].map(|seen| seen.normalised(&alone));
    let of = |to: &[f64]| a.iter().zip(to).map(|(ours, theirs)| ours / theirs).collect::<Vec<f64>>();
    let (over_o, over_r) = (of(&o), of(&r));
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let spread = [deviation(&a), deviation(&o), deviation(&r)].map(|value| value.max(1e-9));
    let gap = THRESHOLDS.map(|at| violations(&a, at) - violations(&o, at).min(violations(&r, at)));
    let ours_be = ours.speed(2);
    let means = format!("EdgeIso {:.3}, offloading {:.3}, reservation {:.3}", mean(&a), mean(&o), mean(&r));
    let spreads = format!("EdgeIso {:.3}, offloading {:.3}, reservation {:.3}", spread[0], spread[1], spread[2]);
    Ok(vec![
        measure("fig4.9a.detections", phases as f64, "")?,
        measure("fig4.9a.best-offloading", least(&over_o), "")?,
        measure("fig4.9a.best-reservation", least(&over_r), "")?,
        measure("fig4.9a.worst-offloading", most(&over_o), "")?,
        measure("fig4.9a.worst-reservation", most(&over_r), "")?,
        measure("fig4.9a.mean-offloading", mean(&a) / mean(&o), means.as_str())?,
        measure("fig4.9a.mean-reservation", mean(&a) / mean(&r), means)?,
        measure("fig4.9a.deviation-offloading", spread[0] / spread[1], spreads.as_str())?,
        measure("fig4.9a.deviation-reservation", spread[0] / spread[2], spreads)?,
        measure("fig4.9a.highest", mean(&r) / mean(&o).max(mean(&a)), "")?,
        measure("fig4.9a.least-steady", spread[2] / spread[1].max(spread[0]), "")?,
        measure("fig4.9a.similar", mean(&a) / mean(&o), "")?,
        measure("fig4.9a.median", median(&a) / median(&o).min(median(&r)), "")?,
        measure("fig4.9b.fewest", most(&gap.map(|gap| gap + 1.0)) - 1.0, "the largest difference over 10 to 50 %")?,
        measure("fig4.9c.offloading", elsewhere / ours_be.max(reservation.speed(2)), "")?,
        measure("fig4.9c.reservation", reservation.speed(2) / solo, "")?,
        measure("fig4.9c.half", ours_be / elsewhere, "")?,
        measure("fig4.9c.least", ours_be / reservation.speed(2).min(elsewhere), "")?,
    ])
}

/// Detection with some loader threads beside linear regression and k-means.
struct Alternatives {
    edgeiso: [Seen; 3],
    time: Seen,
    space: Seen,
    offloading: Seen,
    /// k-means elsewhere.
    elsewhere: Seen,
    alone: [Seen; 3],
}

fn alternatives(trial: Trial) -> Result<Alternatives> {
    let span = span(trial, 15, 50);
    let times = (span.warm_up, span.measured);
    let own = |loaders, cores| detection(Dataset::Dynamic, loaders, cores, times);
    let back = |name: &str, cores| data_processing(name, 4, false, cores);
    let front = |loaders, cores| Scene::default().and(own(loaders, cores));
    let both = |scene: Scene, one, other| scene.and(back("CPU-DSLR", one)).and(back("CPU-KMB", other));
    let alone = |loaders| without(&front(loaders, Cores::Own(0, 2)), span);
    let ours =
        |loaders| with(&both(front(loaders, Cores::Any), Cores::Any, Cores::Any), Some("detection"), trial, span);
    let two = Cores::Own(0, 2);
    Ok(Alternatives {
        edgeiso: [ours(1)?, ours(2)?, ours(4)?],
        time: without(&both(front(2, Cores::Time(2)), Cores::Time(1), Cores::Time(1)), span)?,
        space: without(&both(front(2, two), Cores::Own(2, 3), Cores::Own(3, 4)), span)?,
        offloading: without(&front(2, two).and(back("CPU-DSLR", Cores::Own(2, 4))), span)?,
        elsewhere: without(&Scene::default().and(offloaded(back("CPU-KMB", Cores::Any))), span)?,
        alone: [alone(1)?, alone(2)?, alone(4)?],
    })
}

/// Figures 4.10 and 4.11.
pub fn threads(trial: Trial) -> Result<Vec<Measure>> {
    let seen = alternatives(trial)?;
    // All against the same: alone with two loader threads.
    let latency = |of: &Seen| of.stats[0].latencies.mean().0 as f64 / 1e6;
    let [one, two, four] = seen.edgeiso.each_ref().map(latency);
    let (time, space, offloading) = (latency(&seen.time), latency(&seen.space), latency(&seen.offloading));
    let best = least(&[one, two, four]);
    let missed = |of: &Seen, alone: &Seen| {
        let all = of.normalised(alone);
        THRESHOLDS.map(|at| violations(&all, at))
    };
    let ours = missed(&seen.edgeiso[1], &seen.alone[1]);
    let off = missed(&seen.offloading, &seen.alone[1]);
    let (tr, sr) = (missed(&seen.time, &seen.alone[1]), missed(&seen.space, &seen.alone[1]));
    let note = format!(
        "mean, ms: EdgeIso with 1, 2, 4 threads {one:.1}, {two:.1}, {four:.1}; time {time:.1}, space {space:.1}, \
         offloading {offloading:.1}; violations at 10 %: EdgeIso {:.3}, time {:.3}, space {:.3}, offloading {:.3}",
        ours[0], tr[0], sr[0], off[0]
    );
    let ipc = |of: &Seen, from: usize| of.ipc(from) + of.ipc(from + 1);
    let ours_be = ipc(&seen.edgeiso[1], 1);
    let off_be = seen.offloading.ipc(1) + seen.elsewhere.ipc(0);
    Ok(vec![
        measure("fig4.10.two", two / one.min(four), note)?,
        measure("fig4.10.fewest", mean(&ours) - mean(&tr).min(mean(&sr)), "")?,
        measure("fig4.10.time-four", time / four, "")?,
        measure("fig4.10.space-two", space / two, "")?,
        measure("fig4.10.space", space / best, "")?,
        measure("fig4.10.time", time / best, "")?,
        measure("fig4.10.offloading", offloading / best, "")?,
        measure("fig4.10.offloading-better", (off[1] + off[2]) / 2.0 - (ours[1] + ours[2]) / 2.0, "at 20 and 30 %")?,
        measure("fig4.10.offloading-more", mean(&off) - mean(&ours), "")?,
        measure("fig4.10.time-worse", time / space, "")?,
        measure("fig4.11.offloading", ours_be / off_be, "instructions a cycle of both")?,
        measure("fig4.11.space", ipc(&seen.space, 1) / ours_be, "")?,
        measure("fig4.11.time", ipc(&seen.time, 1) / ours_be, "")?,
    ])
}
