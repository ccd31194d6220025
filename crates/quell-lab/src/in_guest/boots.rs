//! Boots of a comparison: a scene of programs under a treatment, on a real kernel in repeatable time, kept in the lab's cache.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_command::request::{self, Request, own_file};
use quell_evidence::{Cell, Treatment};
use quell_guest::counts::Counts;
use quell_guest::schedulers::{self, SCHEDULERS};
use quell_guest::{Kernel, Lab, Lockstep, Machine, Output};
use quell_model::{CpuId, CpuSet, Nanos};
use quell_sim::WorkloadSpec;
use quell_sim::scenario::{Scenario, Shipped};
use quell_sim::workload::Service;
use rayon::prelude::*;

use crate::kept::once;
use crate::play::{CountedPlay, Found, Play};
use crate::programs::{rate, servers};

/// A CPU that executes this many millions of instructions a second is loaded to a third by a scene's single server.
pub const MIPS: u32 = 125;
/// A fifteenth of the latency of a request alone on such a CPU; faster ones have shorter quanta.
const QUANTUM_NS: u32 = 20_000;
const LIMIT: Duration = Duration::from_secs(3600);

/// One boot.
#[derive(Clone, Copy)]
pub struct Boot {
    pub scene: &'static Shipped,
    pub treatment: &'static Treatment,
    pub cpus: u32,
    /// The seed of the loads' schedules.
    pub seed: u64,
    /// Do load generators run among the programs? Else they have CPUs of their own beside these.
    pub shared: bool,
}

/// Several loads have this many CPUs of their own at most, in turn.
const MOST_GENERATOR_CPUS: usize = 2;

/// Measures with this program, on one kernel.
pub struct Bench<'a> {
    lab: &'a Lab<'a>,
    kernel: Kernel,
    /// CPUs and load are this many times as fast.
    speed: u32,
    /// Each boot's load lasts this long.
    seconds: u32,
    /// Inputs of the results beside the boot.
    fingerprint: u64,
}

impl<'a> Bench<'a> {
    pub fn new(lab: &'a Lab<'a>, kernel: Option<&str>, speed: u32, seconds: u32) -> Result<Self> {
        let kernel = Kernel::get(&lab.cache, kernel, lab.progress)?;
        let mut hasher = DefaultHasher::new();
        // Scenes, the lab's plugin and all that runs in the guest are parts of the two programs.
        for program in [own_file()].into_iter().chain([crate::product::file()]).flatten() {
            fs::read(&program).with_context(|| format!("read {}", program.display()))?.hash(&mut hasher);
        }
        (&kernel.release, speed, seconds, MIPS, QUANTUM_NS).hash(&mut hasher);
        Ok(Self { lab, kernel, speed, seconds, fingerprint: hasher.finish() })
    }

    /// The kernel's release.
    pub fn kernel_release(&self) -> &str {
        &self.kernel.release
    }

    /// What the boot found, if it was measured before with all else equal.
    pub fn cached(&self, boot: Boot) -> Option<Vec<Cell>> {
        serde_json::from_slice(&fs::read(self.path(boot)).ok()?).ok()
    }

    /// What the boot found before, or finds now.
    pub fn measure(&self, boot: Boot) -> Result<Vec<Cell>> {
        let path = self.path(boot);
        let directory = path.parent().unwrap_or(&path);
        fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        once(&path, || self.booted(boot))
    }

    /// Measures what was not measured before, as many at once as there are CPUs for this program, and reports progress on
    /// standard error. A guest in lock-step is one thread here, and its clock counts its own instructions: programs that run
    /// beside it do not affect it.
    pub fn measure_missing(&self, boots: &[Boot]) -> Result<()> {
        let mut missing: Vec<_> = boots.iter().filter(|&&boot| self.cached(boot).is_none()).copied().collect();
        // The longest ones begin first.
        missing.sort_by_key(|boot| std::cmp::Reverse(boot.cpus));
        for boot in &missing {
            self.scheduler(boot.treatment)?;
        }
        let (begun, start) = (AtomicUsize::new(0), Instant::now());
        missing.par_iter().try_for_each(|&boot| {
            let Boot { scene, treatment, cpus, seed, .. } = boot;
            let (at, elapsed) = (begun.fetch_add(1, Ordering::Relaxed) + 1, start.elapsed().as_secs());
            eprintln!(
                "lab: cell {at} of {}, {elapsed} s: {}, {}, {cpus} CPUs, seed {seed}",
                missing.len(),
                scene.name,
                treatment.name
            );
            self.measure(boot).map(drop)
        })
    }

    fn path(&self, Boot { scene, treatment, cpus, seed, shared }: Boot) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        let version =
            SCHEDULERS.iter().find(|known| treatment.sched_ext.first().is_some_and(|name| known.name == name));
        (self.fingerprint, version.map(|scheduler| scheduler.version), shared).hash(&mut hasher);
        let name = format!("{}-{}-{cpus}-{seed}-{:016x}.json", scene.name, treatment.name, hasher.finish());
        self.lab.cache.root().join("peers").join(name)
    }

    /// The program of the treatment's scheduler, built if it is not in the cache.
    fn scheduler(&self, treatment: &Treatment) -> Result<Option<PathBuf>> {
        let program = |name: &String| schedulers::program(&self.lab.cache, name, self.lab.progress);
        Ok(treatment.sched_ext.first().map(program).transpose()?)
    }

    fn booted(&self, boot: Boot) -> Result<Vec<Cell>> {
        let play = self.play(boot)?;
        super::scene::cells(&self.output(boot, &play, &play, None)?.stdout)
    }

    /// Instructions between the marks, in rounds of this length, and what was found beside them. Nothing is kept.
    pub fn counted(&self, boot: Boot, round_ns: u32) -> Result<(Counts, Found)> {
        let play = CountedPlay(self.play(boot)?);
        let output = self.output(boot, &play, &play.0, Some(round_ns))?;
        Ok((Counts::parse(&output.counts)?, request::read::<CountedPlay>(&output.stdout)?))
    }

    fn play(&self, Boot { scene, treatment, cpus, seed, shared }: Boot) -> Result<Play> {
        let generators = if shared { CpuSet::EMPTY } else { generators(scene, cpus)? };
        Ok(Play {
            scene: scene.name.into(),
            policies: vec![treatment.name.clone()],
            set: changes(scene, cpus, self.speed)?,
            seed: Some(seed),
            duration: Some(Nanos::from_secs(self.seconds.into())),
            programs: true,
            generators: (!generators.is_empty()).then_some(generators),
            treatments: None,
        })
    }

    /// What a boot says that answers this request, which plays `play`; in rounds of this length its instructions are counted.
    fn output(&self, boot: Boot, request: &impl Request, play: &Play, counted_round_ns: Option<u32>) -> Result<Output> {
        let Boot { scene, treatment, cpus, seed, .. } = boot;
        let mut files: Vec<_> = servers(scene.text)?.into_iter().chain(self.scheduler(treatment)?).collect();
        let quantum_ns = counted_round_ns.unwrap_or(QUANTUM_NS / self.speed);
        let lockstep = Lockstep { serial: true, mips: MIPS * self.speed, quantum_ns };
        let all = cpus + play.generators.as_ref().map_or(0, CpuSet::len) as u32;
        let mut job = super::scene::job_of(request, play, &mut files)?;
        let kernel = Some(self.kernel.version.clone());
        let counts = counted_round_ns.is_some();
        let machine = Machine { kernel, counts, ..Machine::measuring(all, lockstep, files) };
        job.directory = "/".into();
        job.timeout = Some(LIMIT);
        let output = self.lab.output(&machine, &job)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.ending.status != 0 {
            let status = output.ending.status;
            bail!("{} in {} on {cpus} CPUs, seed {seed}: status {status}: {}", treatment.name, scene.name, said.trim());
        }
        for line in said.lines().filter(|line| line.starts_with("quell")) {
            eprintln!("lab: {}: {line}", treatment.name);
        }
        Ok(output)
    }
}

/// The CPUs of the scene's load generators, the first ones beyond the scene's own.
fn generators(scene: &Shipped, cpus: u32) -> Result<CpuSet> {
    let scenario = Scenario::parse(Path::new(scene.name), scene.text, &[])?;
    let loads = scenario.workloads.iter().filter(|spec| rate(spec).is_some()).count();
    Ok((cpus..).take(loads.clamp(1, MOST_GENERATOR_CPUS)).map(CpuId).collect())
}

/// Changes of a scene for a machine with this many CPUs: work without end has as many threads for each as before; and for CPUs
/// and load that are `speed` times as fast.
fn changes(scene: &Shipped, cpus: u32, speed: u32) -> Result<Vec<String>> {
    let scenario = Scenario::parse(Path::new(scene.name), scene.text, &[])?;
    let before = scenario.machine()?.topology.all().len() as u32;
    let of = |spec: &WorkloadSpec| {
        let change = |key: &str, value: String| format!("workload.{}.{key}={value}", spec.name);
        let faster = |key: &str| change(key, (rate(spec).unwrap_or_default() * f64::from(speed)).to_string());
        let shorter = |body: &str, service: &Service| {
            change(
                &format!("{body}.service"),
                format!("{{ constant = \"{}ns\" }}", service.mean() as u64 / u64::from(speed)),
            )
        };
        match (&spec.server, &spec.closed) {
            (Some(server), _) => vec![faster("server.arrivals.poisson"), shorter("server", &server.service)],
            (None, Some(closed)) => vec![faster("closed.pace"), shorter("closed", &closed.service)],
            (None, None) => vec![change("threads", (spec.threads * cpus / before).to_string())],
        }
    };
    Ok([format!("machine.cores={cpus}")].into_iter().chain(scenario.workloads.iter().flat_map(of)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{SCENES, scene};

    #[test]
    fn each_load_has_a_cpu_beside_the_scenes_and_many_have_two() {
        let of = |name: &str, cpus| generators(scene(name).unwrap(), cpus).unwrap().to_string();
        assert_eq!([of("spin", 2), of("pool", 4), of("overload", 4), of("many", 4)], ["2", "4", "4-5", "4-5"]);
    }

    #[test]
    fn a_scene_grows_with_the_machine_and_its_speed() {
        let changed = |name: &str, cpus, speed| {
            let scene = scene(name).unwrap();
            Scenario::parse(Path::new(name), scene.text, &changes(scene, cpus, speed).unwrap()).unwrap().workloads
        };
        let spin = changed("spin", 4, 1);
        assert_eq!((rate(&spin[0]), spin[0].threads, spin[1].threads), (Some(1200.0), 1, 8));
        let fast = changed("overload", 2, 4);
        assert_eq!([rate(&fast[0]), rate(&fast[1])], [Some(4800.0), Some(32_000.0)]);
        assert_eq!(changed("many", 2, 1).iter().filter_map(rate).sum::<f64>(), 1210.0);
        for scene in SCENES {
            assert_eq!(changed(scene.name, 8, 100).len(), changed(scene.name, 1, 1).len());
        }
    }
}
