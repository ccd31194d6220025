//! Scenes that are drawn at random, within bounds: for a model that was made with others in view.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quell_sim::Stream;

/// Numbers of CPUs.
const CPUS: [u32; 3] = [1, 2, 4];
/// `cpu.weight`s.
const WEIGHTS: [u32; 5] = [50, 100, 100, 200, 1000];
/// All open loops and periodic tasks together want at most this part of the CPUs.
const MOST: f64 = 0.75;

/// Writes scene `number` of this seed into a directory, as a file of its own name.
pub fn write(directory: &Path, seed: u64, number: u32) -> Result<PathBuf> {
    let path = directory.join(format!("random-{seed}-{number}.toml"));
    std::fs::write(&path, scene(seed, number)).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// One to three workloads, of which at most one has work without end.
fn scene(seed: u64, number: u32) -> String {
    let mut dice = Stream::new(seed, u64::from(number));
    let cpus = pick(&mut dice, &CPUS);
    let count = 1 + dice.below(3);
    let mut text = format!(
        "title = \"scene {number} of seed {seed}\"\nduration = \"2s\"\nwarm_up = \"500ms\"\nmachine = {{ cores = {cpus} }}\n\
         kernel = {{ like = \"lab-6.18\" }}\npolicy = [{{ name = \"none\" }}]\n"
    );
    let mut left = MOST * f64::from(cpus);
    let mut has_spins = false;
    for at in 0..count {
        let own = left * (0.2 + 0.5 * dice.unit());
        let kind = if has_spins { dice.below(3) } else { dice.below(4) };
        let threads = 1 + dice.below(2 * cpus);
        let body = match kind {
            0 => server(&mut dice, own.min(0.7 * f64::from(threads))),
            1 => periodic(&mut dice, own / f64::from(threads)),
            2 => clients(&mut dice, threads),
            _ => "batch = {}".to_owned(),
        };
        has_spins |= kind == 3;
        left -= if kind < 2 { own } else { 0.0 };
        let class = if kind == 3 { "be" } else { "lc" };
        let weight = pick(&mut dice, &WEIGHTS);
        let _ = write!(
            text,
            "\n[[workload]]\nname = \"{}\"\nclass = \"{class}\"\nthreads = {threads}\nweight = {weight}\n{body}\n",
            ["first", "second", "third"][at as usize]
        );
    }
    text
}

fn pick(dice: &mut Stream, among: &[u32]) -> u32 {
    among[dice.below(among.len() as u32) as usize]
}

/// A time between two, µs; short ones are as likely as long ones.
fn micros(dice: &mut Stream, from: f64, to: f64) -> f64 {
    (from * (to / from).powf(dice.unit())).round()
}

/// An open loop that wants this many CPUs.
fn server(dice: &mut Stream, cpus: f64) -> String {
    let service = micros(dice, 100.0, 2000.0);
    let shape = if dice.below(2) == 0 { "constant" } else { "exponential" };
    let rate = (cpus * 1e6 / service).max(1.0);
    format!("server = {{ arrivals = {{ poisson = {rate:.1} }}, service = {{ {shape} = \"{service}us\" }} }}")
}

/// Periodic tasks that want so much of a CPU each.
fn periodic(dice: &mut Stream, part: f64) -> String {
    let period = micros(dice, 3_000.0, 60_000.0);
    let work = (period * part.min(0.7)).max(50.0).round();
    let shape = if dice.below(2) == 0 { "constant" } else { "exponential" };
    let stagger = (period / 7.0).round();
    format!("periodic = {{ period = \"{period}us\", work = {{ {shape} = \"{work}us\" }}, stagger = \"{stagger}us\" }}")
}

/// A closed loop, a client a thread.
fn clients(dice: &mut Stream, threads: u32) -> String {
    let (service, think) = (micros(dice, 200.0, 5_000.0), micros(dice, 1_000.0, 20_000.0));
    format!(
        "closed = {{ clients = {threads}, think = {{ exponential = \"{think}us\" }}, \
         service = {{ exponential = \"{service}us\" }}, dispatch = \"per-thread\" }}"
    )
}

#[cfg(test)]
mod tests {
    use quell_sim::scenario::Scenario;

    use super::*;

    #[test]
    fn every_scene_can_be_simulated_and_played_and_is_always_the_same() {
        for number in 0..200 {
            let text = scene(7, number);
            assert_eq!(text, scene(7, number));
            let scenario =
                Scenario::parse(Path::new("r"), &text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
            for spec in &scenario.workloads {
                quell_play::check(spec, &scenario.graphs()).unwrap();
            }
        }
        assert_ne!(scene(7, 0), scene(8, 0));
    }
}
