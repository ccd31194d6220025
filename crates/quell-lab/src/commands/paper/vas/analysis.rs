//! Figures 1 and 4b, and the paper's interfaces: worked out, or simulated without chance.

use anyhow::{Context, Result};
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_model::demand::Task;
use quell_policy::vas::{Busy, Curve, Releases, TaskSet};
use quell_sim::experiment::vas::{GAMMA1, GAMMA2, Scene, periodic};
use quell_sim::workload::Order;

use super::{exact, mean};

/// Figure 1 has units of time without a name.
const UNIT: Nanos = Nanos::from_millis(100);

pub fn measures() -> Result<Vec<Measure>> {
    let set = TaskSet::new(GAMMA1.to_vec(), Releases::Periodic)?;
    let busy = Busy::of(&set);
    let least = busy.least();
    let share = |period: Nanos| busy.budget(period).0 as f64 / period.0 as f64;
    let shares = Curve::of(&busy).flats.into_iter().map(|flat| flat.end().share());
    let smallest = shares.reduce(f64::min).context("a curve has flats")?;
    let ms = |time: Nanos| time.0 as f64 / 1e6;
    let gamma2 = TaskSet::new(GAMMA2.to_vec(), Releases::Periodic)?;
    let response = figure1()?;
    Ok(vec![
        exact("fig1.response", response, "")?,
        exact("fig1.penalty", response - 4.0, "")?,
        exact("gamma1.budget", ms(least.budget), "worked out")?,
        exact("gamma1.period", ms(least.period), "worked out")?,
        exact("gamma1.share", least.share(), "worked out")?,
        exact("fig4b.least", share(set.hyperperiod()) / smallest, "worked out for every period")?,
        exact("gamma2.hyperperiod", ms(gamma2.hyperperiod()), "worked out")?,
    ])
}

fn figure1() -> Result<f64> {
    let times = |count: u64| Nanos(UNIT.0 * count);
    let task = Task { offset: Nanos::ZERO, work: times(4), period: times(8) };
    let scene = Scene {
        vcpus: vec![periodic(&[task], 1.0)],
        order: Order::Fifo,
        interface: (times(3), times(4)),
        neighbours: 1,
        phase: Nanos::ZERO,
        span: times(80),
        seed: 1,
    };
    Ok(mean(&scene.run()?.latencies()) / UNIT.0 as f64)
}
