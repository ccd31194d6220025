//! Figures 4.1b and 4.6 to 4.8, and what the text says of the profiler and the scheduler.

use anyhow::Result;
use quell_evidence::Measure;
use quell_policy::edgeiso::diffs::Diffs;
use quell_policy::kit::contention::Resource;
use quell_policy::kit::profile::Usage;
use quell_sim::experiment::edgeiso::{
    Cores, DATA, Dataset, Scene, Seen, TAILBENCH, data_processing, detection, is_on_gpu, retraining, stream,
    tailbench as service,
};

use super::super::trial::Trial;
use super::{deviation, geometric_mean, least, mean, measure, span, violations, with, without};

/// Line 772: the example's four diffs.
pub fn example(_: Trial) -> Result<Vec<Measure>> {
    let usage = |llc: f64, bytes: f64, instructions: f64, active: f64| Usage {
        llc_hit_ratio: Some(llc),
        memory_bandwidth: Some(bytes),
        instructions: Some(instructions),
        active: Some(active),
        ..Usage::default()
    };
    let (solo, co_run) = (usage(0.8, 1e9, 1e9, 1.0), usage(0.549, 1.449e9, 0.874e9, 2.0));
    let diffs = Diffs::between(&solo, &co_run, 1, Some(1.0));
    let is_llc = diffs.dominant(2.0).is_some_and(|(resource, _)| resource == Resource::Llc);
    Ok(vec![measure("example", f64::from(u8::from(is_llc)), "")?])
}

/// Figures 4.1b and 4.6.
pub fn pairs_of_data_processing(trial: Trial) -> Result<Vec<Measure>> {
    let mut found = vec![under_stream(trial)?];
    let span = span(trial, 12, 20);
    let (half, rest) = (Cores::Own(0, 2), Cores::Own(2, 4));
    let (mut gains, mut alone_times, mut slowdown, mut notes) = (Vec::new(), Vec::new(), 0.0, Vec::new());
    for (front, back) in pairs() {
        let by_hand = |scene: &Scene| without(scene, span);
        let own = Scene::default().and(data_processing(front, 2, true, half));
        let alone = by_hand(&own)?;
        let co_run = by_hand(&own.clone().and(data_processing(back, 2, false, rest)))?;
        let free = Scene::default().and(data_processing(front, 2, true, Cores::Any));
        let free = free.and(data_processing(back, 2, false, Cores::Any));
        let name = format!("{front}-fg");
        let ours = with(&free, is_on_gpu(front).then_some(name.as_str()), trial, span)?;
        let progress = |seen: &Seen, workload: usize, name: &str| match is_on_gpu(name) {
            true => seen.rate(workload),
            false => seen.speed(workload),
        };
        gains.push(progress(&ours, 0, front) / progress(&co_run, 0, front));
        alone_times.push(progress(&alone, 0, front) / progress(&ours, 0, front));
        if (front, back) == ("GPU-KMB", "CPU-GPULR") {
            let back_alone = by_hand(&Scene::default().and(data_processing(back, 2, false, rest)))?;
            slowdown = progress(&back_alone, 0, back) / progress(&ours, 1, back).max(1e-9);
        }
        notes.push(format!("{front} beside {back} {:.2}", gains[gains.len() - 1]));
    }
    found.push(measure("fig4.6a.improved", geometric_mean(&gains), notes.join(", "))?);
    found.push(measure("fig4.6a.solo", geometric_mean(&alone_times), "geometric mean of all pairs")?);
    found.push(measure("fig4.6b.background", slowdown, "GPU-KMB with CPU-GPULR in the background")?);
    Ok(found)
}

/// Every benchmark beside every other that the other kind of processor runs, and CPU beside CPU.
fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = DATA.iter().flat_map(|front| DATA.iter().map(move |back| (*front, *back)));
    all.filter(|(front, back)| front != back && !(is_on_gpu(front) && is_on_gpu(back)))
}

/// Figure 4.1b: detection on one core and the GPU beside three STREAMs on a core each.
fn under_stream(trial: Trial) -> Result<Measure> {
    let span = span(trial, 2, 60);
    let own = detection(Dataset::Small, 2, Cores::Own(0, 1), (span.warm_up, span.measured));
    let alone = without(&Scene::default().and(own.clone()), span)?;
    let all = (1..4).fold(Scene::default().and(own), |scene, core| scene.and(stream(core, core)));
    let beside = without(&all, span)?;
    let note = format!("p95 alone {:.1} ms, beside three {:.1} ms", alone.tail_ms(0.95), beside.tail_ms(0.95));
    measure("fig4.1b.slowdown", beside.tail_ms(0.95) / alone.tail_ms(0.95), note)
}

/// Normalised latencies of a dataset, and the background's speed: without isolation, with cores of its own, with EdgeIso.
struct Three {
    normalised: [Vec<f64>; 3],
    background: [f64; 3],
    charged: f64,
}

fn three(dataset: Dataset, trial: Trial) -> Result<Three> {
    let span = span(trial, 15, 50);
    let times = (span.warm_up, span.measured);
    let own = |cores| detection(dataset, 2, cores, times);
    let alone = without(&Scene::default().and(own(Cores::Own(0, 2))), span)?;
    let scene = |front, back| Scene::default().and(own(front)).and(retraining(2, back));
    let plain = without(&scene(Cores::Any, Cores::Any), span)?;
    let core = without(&scene(Cores::Own(0, 2), Cores::Own(2, 4)), span)?;
    let ours = with(&scene(Cores::Any, Cores::Any), Some("detection"), trial, span)?;
    let charged = ours.charged;
    let each = [plain, core, ours];
    Ok(Three {
        normalised: each.each_ref().map(|seen| seen.normalised(&alone)),
        background: each.each_ref().map(|seen| seen.speed(1)),
        charged,
    })
}

/// Figure 4.7.
pub fn detections(trial: Trial) -> Result<Vec<Measure>> {
    let (small, dynamic) = (three(Dataset::Small, trial)?, three(Dataset::Dynamic, trial)?);
    let [plain, core, ours] = &dynamic.normalised;
    let note = |of: fn(&[f64]) -> f64| {
        format!("no isolation {:.3}, cores {:.3}, EdgeIso {:.3}", of(plain), of(core), of(ours))
    };
    let lowest = mean(ours) / least(&[mean(plain), mean(core)]);
    let steadiest = deviation(ours) / least(&[deviation(plain), deviation(core)]).max(1e-9);
    let missed = |seen: &Three, threshold: f64| seen.normalised.each_ref().map(|all| violations(all, threshold));
    let at_10 = missed(&dynamic, 0.1);
    let note_10 = format!("no isolation {:.3}, cores {:.3}", at_10[0], at_10[1]);
    let [plain_be, core_be, ours_be] = dynamic.background;
    Ok(vec![
        measure("fig4.7.lowest", lowest, note(mean))?,
        measure("fig4.7.steadiest", steadiest, note(deviation))?,
        measure("fig4.7c.s20", missed(&small, 0.2)[2], "")?,
        measure("fig4.7c.d20", missed(&dynamic, 0.2)[2], "")?,
        measure("fig4.7c.small", missed(&small, 0.2)[2], "")?,
        measure("fig4.7c.d10", at_10[2], note_10)?,
        measure("fig4.7c.d10-others", at_10[2] - least(&at_10[..2]), "")?,
        measure("fig4.7d.least", ours_be / least(&[plain_be, core_be]), "instructions a second")?,
        measure("overhead.scheduler", dynamic.charged, "the simulator's cost of a decision and of each knob")?,
    ])
}

/// Figure 4.8.
pub fn tailbench(trial: Trial) -> Result<Vec<Measure>> {
    let mut found = Vec::new();
    for (name, rate) in TAILBENCH {
        let span = span(trial, 15, if name == "sphinx" { 120 } else { 30 });
        let alone = without(&Scene::default().and(service(name, rate, Cores::Any)), span)?;
        let scene = |front: Cores, kmeans: Cores, training: Cores| {
            Scene::default()
                .and(service(name, rate, front))
                .and(data_processing("CPU-KM", 1, false, kmeans))
                .and(data_processing("GPU-KM", 1, false, kmeans))
                .and(retraining(1, training))
        };
        let plain = without(&scene(Cores::Any, Cores::Any, Cores::Any), span)?;
        let core = without(&scene(Cores::Own(0, 2), Cores::Own(2, 3), Cores::Own(3, 4)), span)?;
        let ours = with(&scene(Cores::Any, Cores::Any, Cores::Any), None, trial, span)?;
        let [alone, plain, core, ours] = [alone, plain, core, ours].map(|seen| seen.tail_ms(0.95));
        let note = format!("p95, ms: alone {alone:.2}, no isolation {plain:.2}, cores {core:.2}, EdgeIso {ours:.2}");
        found.push(measure(&format!("fig4.8.{name}-rate"), rate, "")?);
        found.push(match name {
            "sphinx" => measure("fig4.8.sphinx", ours / plain, note)?,
            _ => measure(&format!("fig4.8.{name}"), ours / least(&[plain, core]), note)?,
        });
        if name == "xapian" {
            found.push(measure("fig4.8.xapian-solo", ours / alone, "")?);
        }
    }
    Ok(found)
}
