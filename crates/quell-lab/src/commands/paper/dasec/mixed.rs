//! AI inference beside services (§6.2), and services beside a background (§6.5). Services are in VMs; inference, which needs the
//! host's GPU, and the background are in containers.

use anyhow::Result;
use quell_evidence::Measure;
use quell_sim::experiment::dasec::{KINDS, MASSTREE, Scene, Seen, THREADS};

use super::super::trial::Trial;
use super::{linux, mean, measure, with};

fn of_last(seen: &Seen) -> f64 {
    seen.last.mean().0 as f64
}

fn rate_of_last(seen: &Seen) -> f64 {
    seen.last.count() as f64
}

/// Figures 9 and 10: one instance of inference, seven of a service.
pub fn inference(trial: Trial) -> Result<Vec<Measure>> {
    let kinds = if trial.quick { &KINDS[..1] } else { &KINDS[..] };
    let (mut ai, mut ai_rates, mut others, mut rates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut alone, mut gpu) = (Vec::new(), Vec::new());
    for &kind in kinds {
        let beside = Scene::in_vms(kind, 7, THREADS).with_inference();
        let (plain, ours) = (linux(&beside, trial)?, with("", &beside, trial)?);
        ai.push(of_last(&ours) / of_last(&plain));
        ai_rates.push(rate_of_last(&ours) / rate_of_last(&plain));
        others.push(ours.mean() / plain.mean());
        rates.push(ours.rate() / plain.rate());
        gpu.push(ours.use_of_gpu / plain.use_of_gpu);
        alone.push(ours.mean() / with("", &Scene::in_vms(kind, 7, THREADS), trial)?.mean());
    }
    let each = |values: &[f64]| {
        let text = kinds.iter().zip(values).map(|(kind, value)| format!("{} {value:.2}", kind.name));
        format!("beside {}", text.collect::<Vec<_>>().join(", "))
    };
    Ok(vec![
        measure("fig9.ai-most", ai.iter().copied().fold(f64::INFINITY, f64::min), each(&ai))?,
        measure("fig9.ai-mean", mean(ai), "")?,
        measure("fig9.others", mean(others.clone()), each(&others))?,
        measure("fig9.homogeneous", mean(alone), "seven services both times")?,
        measure("fig9.gpu", mean(gpu), "")?,
        measure("fig10.ai", mean(ai_rates), "")?,
        measure("fig10.others", mean(rates), "")?,
    ])
}

/// Figure 16: four services of 32 threads beside products of matrices on 61 threads: a request has 64 parts at most.
pub fn background(trial: Trial) -> Result<Vec<Measure>> {
    let scene = Scene::in_vms(MASSTREE, 4, 32).with_matrices(60);
    let (plain, ours) = (linux(&scene, trial)?, with("", &scene, trial)?);
    Ok(vec![
        measure("fig16.background", rate_of_last(&ours) / rate_of_last(&plain), "")?,
        measure("fig16.masstree", ours.mean() / plain.mean(), "")?,
    ])
}
