//! Runs one cell and keeps its result.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Peer, schedulers};
use crate::error::{LabError, Result};
use crate::{Job, Kernel, Lab, Lockstep, Machine, lockstep};

const SCRIPT: &str = include_str!("cell.sh");
/// A CPU that executes this many millions of instructions a second is loaded to a third by [`RATE`] requests.
const MIPS: u32 = 125;
const RATE: u32 = 1200;
/// A fifteenth of the latency of a request alone.
const QUANTUM_NS: u32 = 20_000;
const LIMIT: Duration = Duration::from_secs(1800);

/// What one cell measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Median latency from the intended send time.
    pub p50_ns: u64,
    /// Its 99th percentile.
    pub p99_ns: u64,
    /// Its 99.9th percentile.
    pub p999_ns: u64,
    /// Answers per second.
    pub served_per_s: f64,
    /// How late the generator itself sent, 99th percentile.
    pub lateness_p99_ns: u64,
    /// The antagonist's work while latencies were measured.
    pub antagonist_blocks_per_s: Option<f64>,
    /// All latencies: nanoseconds, and how many requests took so long.
    pub latencies: Vec<(u64, u64)>,
}

/// Measures cells with one program, on one kernel.
pub struct Bench<'a> {
    lab: &'a Lab<'a>,
    quell: PathBuf,
    kernel: Kernel,
    mips: u32,
    rate: u32,
    seconds: u32,
    /// What results depend on beside the cell.
    fingerprint: u64,
}

impl<'a> Bench<'a> {
    /// A bench whose load generator and antagonist are the commands of `quell`, a program. With a `speed` above 1, CPUs
    /// and load are so many times as fast. Each cell's load lasts so many seconds.
    ///
    /// # Errors
    /// When the kernel or the program cannot be had.
    pub fn new(lab: &'a Lab<'a>, quell: &Path, kernel: Option<&str>, speed: u32, seconds: u32) -> Result<Self> {
        let (mips, rate) = (MIPS * speed, RATE * speed);
        let kernel = Kernel::get(&lab.cache, kernel, lab.progress)?;
        let mut hasher = DefaultHasher::new();
        fs::read(quell).map_err(LabError::io("read", quell))?.hash(&mut hasher);
        (SCRIPT, &kernel.release, mips, rate, seconds, QUANTUM_NS).hash(&mut hasher);
        lockstep::plugin(&lab.cache, lab.progress)?.hash(&mut hasher);
        let (quell, fingerprint) = (quell.to_path_buf(), hasher.finish());
        Ok(Self { lab, quell, kernel, mips, rate, seconds, fingerprint })
    }

    /// The kernel's release.
    #[must_use]
    pub fn kernel_release(&self) -> &str {
        &self.kernel.release
    }

    /// The result in the cache, if the cell was measured before with all else equal.
    #[must_use]
    pub fn cached(&self, peer: &Peer, cpus: u32, seed: u64) -> Option<CellResult> {
        let text = fs::read_to_string(self.path(peer, cpus, seed)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The result from the cache, or measured now.
    ///
    /// # Errors
    /// When a program that the cell needs is missing, or the cell failed.
    pub fn measure(&self, peer: &Peer, cpus: u32, seed: u64) -> Result<CellResult> {
        if let Some(result) = self.cached(peer, cpus, seed) {
            return Ok(result);
        }
        let (machine, job) = self.setup(peer, cpus, seed)?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let ending = self.lab.run(&machine, &job, &mut out, &mut err)?;
        let failed =
            |detail: String| LabError::Tool { command: format!("{} on {cpus} CPUs, seed {seed}", peer.id), detail };
        if ending.status != 0 {
            return Err(failed(format!("status {}: {}", ending.status, String::from_utf8_lossy(&err).trim())));
        }
        let result = read(&String::from_utf8_lossy(&out)).map_err(failed)?;
        let path = self.path(peer, cpus, seed);
        let dir = path.parent().unwrap_or(&path);
        fs::create_dir_all(dir).map_err(LabError::io("create", dir))?;
        let text = serde_json::to_string(&result).expect("plain numbers serialise");
        fs::write(&path, text).map_err(LabError::io("write", &path))?;
        Ok(result)
    }

    fn path(&self, peer: &Peer, cpus: u32, seed: u64) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, peer.policy, peer.parameters, peer.prepare, peer.server, peer.antagonist).hash(&mut hasher);
        let version = schedulers::SCHEDULERS.iter().find(|known| Some(known.name) == peer.scheduler);
        version.map(|scheduler| scheduler.version).hash(&mut hasher);
        let name = format!("{}-{cpus}-{seed}-{:016x}.json", peer.id, hasher.finish());
        self.lab.cache.root().join("peers").join(name)
    }

    fn setup(&self, peer: &Peer, cpus: u32, seed: u64) -> Result<(Machine, Job)> {
        let mut files = vec![self.quell.clone()];
        for (tool, package) in [("memcached", "memcached"), ("chrt", "util-linux")] {
            let dirs = ["/usr/bin", "/bin", "/usr/local/bin"].map(|dir| Path::new(dir).join(tool));
            let found = dirs.into_iter().find(|path| path.exists());
            files.push(found.ok_or(LabError::MissingTool { tool: tool.into(), package })?);
        }
        let scheduler = match peer.scheduler {
            Some(name) => schedulers::program(&self.lab.cache, name, self.lab.progress)?.display().to_string(),
            None => String::new(),
        };
        if !scheduler.is_empty() {
            files.push(PathBuf::from(&scheduler));
        }
        let lockstep = Lockstep { serial: true, mips: self.mips, quantum_ns: QUANTUM_NS };
        let kernel = Some(self.kernel.version.clone());
        let machine = Machine { kernel, ..Machine::measuring(cpus, lockstep, files) };
        let mut job = Job::new(["sh", "-c", SCRIPT]);
        job.directory = "/".into();
        job.timeout = Some(LIMIT);
        job.environment = [
            ("QUELL", self.quell.display().to_string()),
            ("PREPARE", peer.prepare.into()),
            ("SERVER", peer.server.into()),
            ("ANTAGONIST", peer.antagonist.into()),
            ("SCHEDULER", scheduler),
            ("POLICY", peer.policy.unwrap_or("").into()),
            ("PARAMETERS", peer.parameters.into()),
            ("SEED", seed.to_string()),
            ("RATE", self.rate.to_string()),
            ("SECONDS_OF_LOAD", self.seconds.to_string()),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        Ok((machine, job))
    }
}

#[derive(Deserialize)]
struct Load {
    started_ns: u64,
    measured_ns: u64,
    served_per_s: f64,
    latency: Distribution,
    lateness: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    quantiles: Vec<Quantile>,
    histogram: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct Quantile {
    q: f64,
    ns: u64,
}

impl Distribution {
    fn quantiles(&self) -> BTreeMap<u32, u64> {
        self.quantiles.iter().map(|quantile| ((quantile.q * 1000.0).round() as u32, quantile.ns)).collect()
    }
}

#[derive(Deserialize)]
struct Antagonist {
    timeline: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    at_ns: u64,
    blocks: u64,
}

impl Antagonist {
    /// Blocks per second between two times; `None` if it did not run all the while.
    fn rate(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let first = self.timeline.iter().rev().find(|sample| sample.at_ns <= from_ns)?;
        let last = self.timeline.iter().find(|sample| sample.at_ns >= to_ns)?;
        Some((last.blocks - first.blocks) as f64 * 1e9 / (last.at_ns - first.at_ns) as f64)
    }
}

/// Reads what the script printed: the antagonist's report, if there is one, and the load's.
fn read(printed: &str) -> std::result::Result<CellResult, String> {
    let mut lines: Vec<&str> = printed.lines().filter(|line| line.starts_with('{')).collect();
    let load = lines.pop().ok_or("the load printed no report")?;
    let load: Load = serde_json::from_str(load).map_err(|error| format!("the load's report: {error}"))?;
    let antagonist = lines.pop().map(serde_json::from_str::<Antagonist>).transpose();
    let antagonist = antagonist.map_err(|error| format!("the antagonist's report: {error}"))?;
    let rate = |antagonist: Antagonist| {
        let end_ns = load.started_ns + load.measured_ns;
        antagonist.rate(load.started_ns, end_ns).ok_or("the antagonist did not run as long as the load")
    };
    let antagonist_blocks_per_s = antagonist.map(rate).transpose()?;
    let (latency, lateness) = (load.latency.quantiles(), load.lateness.quantiles());
    let quantile = |of: &BTreeMap<u32, u64>, permille| of.get(&permille).copied().ok_or("a quantile is missing");
    Ok(CellResult {
        p50_ns: quantile(&latency, 500)?,
        p99_ns: quantile(&latency, 990)?,
        p999_ns: quantile(&latency, 999)?,
        served_per_s: load.served_per_s,
        lateness_p99_ns: quantile(&lateness, 990)?,
        antagonist_blocks_per_s,
        latencies: load.latency.histogram,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: &str = r#"{"started_ns":1000000000,"measured_ns":2000000000,"served_per_s":10.0,
        "latency":{"quantiles":[{"q":0.5,"ns":1},{"q":0.99,"ns":2},{"q":0.999,"ns":3}],"histogram":[[1,7]]},
        "lateness":{"quantiles":[{"q":0.99,"ns":4}],"histogram":[]}}"#;

    fn antagonist(last_ns: u64) -> String {
        format!(
            r#"{{"timeline":[{{"at_ns":500000000,"blocks":0}},{{"at_ns":1000000000,"blocks":50}},
            {{"at_ns":2000000000,"blocks":70}},{{"at_ns":{last_ns},"blocks":150}}]}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn reports_are_read_and_the_work_is_that_of_the_measured_time() {
        let load = LOAD.replace('\n', "");
        let result = read(&format!("noise\n{}\n{load}\n", antagonist(3_000_000_000))).unwrap();
        let expected = CellResult {
            p50_ns: 1,
            p99_ns: 2,
            p999_ns: 3,
            served_per_s: 10.0,
            lateness_p99_ns: 4,
            antagonist_blocks_per_s: Some(50.0),
            latencies: vec![(1, 7)],
        };
        assert_eq!(result, expected);
        assert_eq!(read(&load).unwrap().antagonist_blocks_per_s, None);
    }

    #[test]
    fn an_antagonist_that_ends_early_is_an_error() {
        let load = LOAD.replace('\n', "");
        assert!(read(&format!("{}\n{load}\n", antagonist(2_500_000_000))).unwrap_err().contains("as long as"));
        assert!(read("").is_err());
    }
}
