//! The course of LLC parts and IPC over time (Figure 3.1), and how long a quota takes (Table 2.1).

use quell_model::{CpuCount, Knob, KnobSetting, Nanos, Target, WorkloadId};

use super::{HALF, background, foreground, host, partitioned, set};
use crate::SimError;

/// Coefficients of variation over samples of 20 ms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variation {
    /// Of the foreground's part of the LLC.
    pub llc: f64,
    /// Of the foreground's IPC.
    pub foreground: f64,
    /// Of the background's IPC.
    pub background: f64,
}

/// canneal beside SP: with half of the ways each, and with SP's quota at half of its cores.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn variations(seed: u64, samples: u32) -> Result<[Variation; 2], SimError> {
    Ok([variation(partitioned(), seed, samples)?, variation(vec![half_quota()], seed, samples)?])
}

fn half_quota() -> KnobSetting {
    KnobSetting { target: Target::Workload(WorkloadId(1)), knob: Knob::Quota(Some(CpuCount::whole(HALF / 2))) }
}

fn variation(knobs: Vec<KnobSetting>, seed: u64, samples: u32) -> Result<Variation, SimError> {
    let mut host = host(&[foreground("canneal"), background("SP")], seed)?;
    set(&mut host, knobs);
    let sample = Nanos::from_millis(20);
    host.sim_mut().run_until(Nanos::from_secs(2));
    let mut series = [Vec::new(), Vec::new(), Vec::new()];
    let mut before = host.sim().counted();
    for at in 1..=samples {
        host.sim_mut().run_until(Nanos::from_secs(2) + Nanos(sample.0 * u64::from(at)));
        let now = host.sim().counted();
        series[0].push(host.sim().llc_bytes(0));
        for workload in 0..2 {
            let done = now[workload].since(&before[workload]);
            // Of the time, not of the cycles used: a throttled CPU has none.
            series[1 + workload].push(done.instructions / sample.0 as f64);
        }
        before = now;
    }
    let [llc, foreground, background] = series.map(|values| spread(&values));
    Ok(Variation { llc, foreground, background })
}

/// Standard deviation over mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64;
    crate::math::sqrt(square) / mean
}

/// Mean time, ms, from a quota of half of its cores until SP is first throttled by it, over ten phases of the period.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn quota_latency(seed: u64) -> Result<f64, SimError> {
    let mut sum = 0.0;
    for phase in 0..10u64 {
        let mut host = host(&[background("SP")], seed)?;
        let at = Nanos::from_millis(200 + 10 * phase);
        host.sim_mut().run_until(at);
        let quota =
            KnobSetting { target: Target::Workload(WorkloadId(0)), knob: Knob::Quota(Some(CpuCount::whole(HALF / 2))) };
        set(&mut host, vec![quota]);
        let mut now = host.now();
        let mut used = host.sim().stats()[0].run_time;
        while now < at + Nanos::from_millis(300) {
            now += Nanos::from_millis(1);
            host.sim_mut().run_until(now);
            let then = host.sim().stats()[0].run_time;
            if then - used < 1_000_000 {
                break;
            }
            used = then;
        }
        sum += (now - at).0 as f64 / 1e6;
    }
    Ok(sum / 10.0)
}
