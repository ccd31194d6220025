//! Runs one cell and keeps its result.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::report::{self, CellResult};
use super::{Peer, Scene, schedulers};
use crate::error::{LabError, Result};
use crate::{Job, Kernel, Lab, Lockstep, Machine, lockstep};

const SCRIPT: &str = include_str!("cell.sh");
/// A CPU that executes this many millions of instructions a second is loaded to a third by a scene's single server.
const MIPS: u32 = 125;
/// A fifteenth of the latency of a request alone on such a CPU; faster ones have shorter quanta.
const QUANTUM_NS: u32 = 20_000;
const LIMIT: Duration = Duration::from_secs(1800);

/// One boot.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The scene.
    pub scene: &'a Scene,
    /// The peer.
    pub peer: &'a Peer,
    /// Number of CPUs.
    pub cpus: u32,
    /// The seed of the loads' schedules.
    pub seed: u64,
}

/// Measures cells with one program, on one kernel.
pub struct Bench<'a> {
    lab: &'a Lab<'a>,
    quell: PathBuf,
    kernel: Kernel,
    speed: u32,
    seconds: u32,
    /// Inputs of the results beside the cell.
    fingerprint: u64,
}

impl<'a> Bench<'a> {
    /// A bench whose load generator and antagonist are the commands of `quell`, a program. With a `speed` above 1, CPUs
    /// and load are that many times as fast. Each cell's load lasts `seconds`.
    ///
    /// # Errors
    /// When the kernel or the program is not available.
    pub fn new(lab: &'a Lab<'a>, quell: &Path, kernel: Option<&str>, speed: u32, seconds: u32) -> Result<Self> {
        let kernel = Kernel::get(&lab.cache, kernel, lab.progress)?;
        let mut hasher = DefaultHasher::new();
        fs::read(quell).map_err(LabError::io("read", quell))?.hash(&mut hasher);
        (SCRIPT, &kernel.release, speed, seconds, MIPS, QUANTUM_NS).hash(&mut hasher);
        lockstep::plugin(&lab.cache, lab.progress)?.hash(&mut hasher);
        let (quell, fingerprint) = (quell.to_path_buf(), hasher.finish());
        Ok(Self { lab, quell, kernel, speed, seconds, fingerprint })
    }

    /// The kernel's release.
    #[must_use]
    pub fn kernel_release(&self) -> &str {
        &self.kernel.release
    }

    /// Fetches the peer's needs that are not in the cache.
    ///
    /// # Errors
    /// When that is not available.
    pub fn fetch(&self, peer: &Peer) -> Result<()> {
        self.scheduler(peer).map(drop)
    }

    fn scheduler(&self, peer: &Peer) -> Result<Option<PathBuf>> {
        peer.scheduler.map(|name| schedulers::program(&self.lab.cache, name, self.lab.progress)).transpose()
    }

    /// The result in the cache, if the cell was measured before with all else equal.
    #[must_use]
    pub fn cached(&self, cell: Cell<'_>) -> Option<CellResult> {
        let text = fs::read_to_string(self.path(cell)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The result from the cache, or measured now.
    ///
    /// # Errors
    /// When a program that the cell needs is missing, or the cell failed.
    pub fn measure(&self, cell: Cell<'_>) -> Result<CellResult> {
        if let Some(result) = self.cached(cell) {
            return Ok(result);
        }
        let (machine, job) = self.setup(cell)?;
        let output = self.lab.output(&machine, &job)?;
        let failed = |detail: String| {
            let Cell { scene, peer, cpus, seed } = cell;
            LabError::Tool { command: format!("{} in {} on {cpus} CPUs, seed {seed}", peer.id, scene.id), detail }
        };
        let status = output.ending.status;
        if status != 0 {
            return Err(failed(format!("status {status}: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let result = report::read(&String::from_utf8_lossy(&output.stdout)).map_err(failed)?;
        let path = self.path(cell);
        let dir = path.parent().unwrap_or(&path);
        fs::create_dir_all(dir).map_err(LabError::io("create", dir))?;
        let text = serde_json::to_string(&result).expect("plain numbers serialise");
        fs::write(&path, text).map_err(LabError::io("write", &path))?;
        Ok(result)
    }

    fn path(&self, cell: Cell<'_>) -> PathBuf {
        let Cell { scene, peer, cpus, seed } = cell;
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, scene.servers, scene.hogs).hash(&mut hasher);
        (peer.policy, peer.parameters, peer.prepare, peer.weights, peer.lc, peer.be, peer.alone).hash(&mut hasher);
        let version = schedulers::SCHEDULERS.iter().find(|known| Some(known.name) == peer.scheduler);
        version.map(|scheduler| scheduler.version).hash(&mut hasher);
        let name = format!("{}-{}-{cpus}-{seed}-{:016x}.json", scene.id, peer.id, hasher.finish());
        self.lab.cache.root().join("peers").join(name)
    }

    fn setup(&self, cell: Cell<'_>) -> Result<(Machine, Job)> {
        let Cell { scene, peer, cpus, seed } = cell;
        let mut files = vec![self.quell.clone()];
        for (tool, package) in [("memcached", "memcached"), ("chrt", "util-linux")] {
            let dirs = ["/usr/bin", "/bin", "/usr/local/bin"].map(|dir| Path::new(dir).join(tool));
            let found = dirs.into_iter().find(|path| path.exists());
            files.push(found.ok_or(LabError::MissingTool { tool: tool.into(), package })?);
        }
        let scheduler = self.scheduler(peer)?;
        files.extend(scheduler.clone());
        let lockstep = Lockstep { serial: true, mips: MIPS * self.speed, quantum_ns: QUANTUM_NS / self.speed };
        let kernel = Some(self.kernel.version.clone());
        let machine = Machine { kernel, ..Machine::measuring(cpus, lockstep, files) };
        let mut job = Job::new(["sh", "-c", SCRIPT]);
        job.directory = "/".into();
        job.timeout = Some(LIMIT);
        job.environment = [
            ("QUELL", self.quell.display().to_string()),
            ("PREPARE", peer.prepare.into()),
            ("WEIGHTS", peer.weights.into()),
            ("LC", peer.lc.into()),
            ("BE", peer.be.into()),
            ("SERVERS", scene.server_lines(self.speed)),
            ("HOGS", if peer.alone { String::new() } else { scene.hog_lines(cpus) }),
            ("SCHEDULER", scheduler.map_or(String::new(), |program| program.display().to_string())),
            ("POLICY", peer.policy.unwrap_or("").into()),
            ("PARAMETERS", peer.parameters.into()),
            ("SEED", seed.to_string()),
            ("SECONDS_OF_LOAD", self.seconds.to_string()),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        Ok((machine, job))
    }
}
