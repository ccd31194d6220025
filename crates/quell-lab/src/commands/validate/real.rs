//! The real side: what a kernel of the lab did with a scene. It is kept, so that the simulator can change meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use quell_evidence::Cell;
use quell_guest::{Kernel, Lab, Machine, ToStderr, Topology as GuestTopology};
use quell_model::Topology;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::in_guest::scene;
use crate::play::scenes;

/// What a kernel did with a scene.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Real {
    /// The kernel's version.
    pub kernel: String,
    /// [`quell_play::PLAYED_AS`].
    played_as: u32,
    /// The scene, as far as real threads know of it.
    scene: Table,
    /// By seed: a cell for each workload under each treatment, with its latencies to a twentieth.
    pub seeds: BTreeMap<u64, Vec<Cell>>,
}

/// Which kernel, and where its results are kept.
pub struct Side<'a> {
    /// The version that is asked for; None: what is kept, of whichever it is, or the best that there is.
    pub kernel: Option<&'a str>,
    pub keep: Option<&'a Path>,
}

impl Side<'_> {
    /// What a real kernel does with this scene on such a machine, with the seeds from 1 to `seeds`: kept, or of one boot now.
    pub fn of(&self, file: &Path, machine: &Topology, seeds: u64) -> Result<Real> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = self.keep.map(|directory| directory.join(format!("{name}.json")));
        let scene = played(&scenes::text(file)?.0)?;
        let kept = path.as_deref().map(read).transpose()?.flatten();
        let fits = |real: &Real| {
            (real.played_as, &real.scene) == (quell_play::PLAYED_AS, &scene)
                && self.kernel.is_none_or(|kernel| kernel == real.kernel)
        };
        if kept.as_ref().is_some_and(|real| !fits(real)) {
            eprintln!("validate: what is kept of {name} is of another scene, player or kernel: it is played again");
        }
        let kept = kept.filter(fits);
        let last = kept.as_ref().and_then(|real| real.seeds.last_key_value()).map_or(0, |(&seed, _)| seed);
        let Some(path) = path else { return self.boot(file, machine, (1, seeds), scene) };
        if let Some(real) = kept.clone().filter(|_| last >= seeds) {
            return Ok(real);
        }
        let version = kept.as_ref().map(|real| real.kernel.as_str()).or(self.kernel);
        let mut real = Side { kernel: version, keep: None }.boot(file, machine, (last + 1, seeds), scene)?;
        real.seeds.extend(kept.into_iter().flat_map(|real| real.seeds));
        let whole = path.with_extension("part");
        std::fs::write(&whole, serde_json::to_string(&real)? + "\n")
            .and_then(|()| std::fs::rename(&whole, &path))
            .with_context(|| format!("write {}", path.display()))?;
        Ok(real)
    }

    /// One boot for all these seeds.
    fn boot(&self, file: &Path, topology: &Topology, (from, to): (u64, u64), scene: Table) -> Result<Real> {
        let cache = Lab::new(&ToStderr)?.cache;
        let kernel = Kernel::get(&cache, self.kernel, &ToStderr)?.version;
        let count = (to + 1 - from) as usize;
        let machine = Machine { kernel: Some(kernel.clone()), ..shape(topology) };
        let cells = scene::in_guest_of(machine, file, from, &[], &[format!("repetitions={count}")])?;
        let mut seeds: BTreeMap<u64, Vec<Cell>> = (from..=to).map(|seed| (seed, Vec::new())).collect();
        // Under each treatment all repetitions follow each other, and in each all workloads.
        for of_one in cells.chunk_by(|one, other| one.policy == other.policy) {
            if of_one.len() % count != 0 {
                bail!("{} results of {count} repetitions under '{}'", of_one.len(), of_one[0].policy);
            }
            for (of_seed, cells) in seeds.values_mut().zip(of_one.chunks(of_one.len() / count)) {
                of_seed.extend(cells.iter().map(|cell| Cell { latencies: coarse(&cell.latencies), ..cell.clone() }));
            }
        }
        Ok(Real { kernel, played_as: quell_play::PLAYED_AS, scene, seeds })
    }
}

/// A guest's CPUs: with several sockets each has a memory node.
fn shape(topology: &Topology) -> Machine {
    let cpus = topology.all().len() as u32;
    let sockets = topology.sockets().len() as u32;
    let cores = topology.cores().len() as u32;
    let several = (sockets > 1).then(|| GuestTopology { sockets, cores: cores / sockets, threads: cpus / cores });
    Machine { cpus, topology: several, nodes: sockets, ..Machine::default() }
}

/// Latencies to a twentieth: enough for a picture.
fn coarse(latencies: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut cells: BTreeMap<u64, u64> = BTreeMap::new();
    for &(ns, count) in latencies {
        let place = (ns.max(1) as f64).log(1.05).round();
        *cells.entry(1.05_f64.powf(place).round() as u64).or_default() += count;
    }
    cells.into_iter().collect()
}

fn read(path: &Path) -> Result<Option<Real>> {
    let Ok(text) = std::fs::read(path) else { return Ok(None) };
    serde_json::from_slice(&text).map(Some).with_context(|| format!("read {}", path.display()))
}

/// What of a scene's text real threads know: neither its title nor what the simulated kernel is set to, except for
/// preemption.
fn played(text: &str) -> Result<Table> {
    let mut scene: Table = toml::from_str(text)?;
    scene.remove("title");
    if let Some(Value::Table(kernel)) = scene.get_mut("kernel") {
        kernel.retain(|key, _| key == "preemption");
        if kernel.is_empty() {
            scene.remove("kernel");
        }
    }
    Ok(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: &str = include_str!("../../../../../scenes/spin.toml");

    fn side(keep: &Path) -> Side<'_> {
        Side { kernel: None, keep: Some(keep) }
    }

    #[test]
    fn what_only_the_simulator_is_told_leaves_the_real_side_as_it_was() {
        let same = |text: String| played(&text).unwrap() == played(SCENE).unwrap();
        assert!(same(SCENE.replace("like = \"lab-6.18\"", "tick = \"1ms\"")));
        assert!(same(SCENE.replace("title = \"", "title = \"once more: ")));
        assert!(!same(SCENE.replace("like = \"lab-6.18\"", "preemption = \"full\"")));
        assert!(!same(SCENE.replace("threads = 4", "threads = 5")));
    }

    #[test]
    fn a_machine_of_two_sockets_has_two_memory_nodes() {
        let one = shape(&Topology::synthetic(1, 1, 4, 1));
        assert_eq!((one.cpus, one.topology, one.nodes), (4, None, 1));
        let two = shape(&Topology::synthetic(2, 1, 2, 1));
        let topology = GuestTopology { sockets: 2, cores: 2, threads: 1 };
        assert_eq!((two.cpus, two.topology, two.nodes), (4, Some(topology), 2));
    }

    #[test]
    fn latencies_are_kept_to_a_twentieth() {
        let fine: Vec<(u64, u64)> = (1_000..2_000).map(|micros| (micros * 1_000, 1)).collect();
        let kept = coarse(&fine);
        assert!((10..20).contains(&kept.len()), "{kept:?}");
        assert_eq!(kept.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
    }

    #[test]
    fn what_is_kept_is_not_played_again() {
        let (directory, scenes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = scenes.path().join("spin.toml");
        std::fs::write(&file, SCENE).unwrap();
        let seeds = [(1, Vec::new()), (2, Vec::new())].into();
        let scene = played(SCENE).unwrap();
        let real = Real { kernel: "6.18.15".into(), played_as: quell_play::PLAYED_AS, scene, seeds };
        std::fs::write(directory.path().join("spin.json"), serde_json::to_string(&real).unwrap()).unwrap();
        assert_eq!(side(directory.path()).of(&file, &Topology::synthetic(1, 1, 2, 1), 2).unwrap(), real);
    }
}
