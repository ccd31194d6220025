//! Machines: CPUs and what they share, and the machines of the papers.

use std::sync::Arc;

use quell_model::{
    BytesPerSecond, Controls, CpuId, CpuSet, FrequencyControl, GpuControl, Nanos, ThrottleControl, ThrottleUnit,
    Topology, WayControl,
};

use crate::contention::ContentionSpec;
use crate::contention::solve::Socket;

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Which CPUs there are and what they share.
    pub topology: Arc<Topology>,
    /// Each last-level cache.
    pub llc: Cache,
    /// The memory of each socket, which is a NUMA node.
    pub memory: Memory,
    /// The CPUs' frequencies.
    pub frequencies: Frequencies,
    /// The GPU, if there is one.
    pub gpu: Option<Gpu>,
    /// What its threads do to each other's speed.
    pub contention: ContentionSpec,
}

/// One socket's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Its controllers.
    pub controllers: u32,
    /// What they carry together at most.
    pub bandwidth: BytesPerSecond,
    /// How much longer than a hit in the last-level cache a reference takes while no one else uses memory.
    pub latency: Nanos,
    /// How much longer a reference to another socket's memory takes (assumed, of the usual order of two-socket servers:
    /// 60 ns). The links between sockets are not modelled as a bound.
    pub remote: Nanos,
}

/// A last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its size.
    pub bytes: u64,
    /// Its ways.
    pub ways: u32,
    /// Can ways be given to workloads?
    pub is_divisible: bool,
    /// Time of a reference that hits it.
    pub latency: Nanos,
}

/// The frequencies that a CPU can be set to: from the lowest to the highest in equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequencies {
    /// Lowest, kHz.
    pub min_khz: u32,
    /// Highest, kHz.
    pub max_khz: u32,
    /// Step, kHz.
    pub step_khz: u32,
}

/// A GPU on the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its cores.
    pub cores: u32,
    /// Its frequencies.
    pub frequencies: Frequencies,
}

/// A machine that somebody described.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Its name in scenarios.
    pub name: &'static str,
    /// What it is, and where that stands. What the text does not say is the processor maker's, or assumed (as the
    /// numbers of memory controllers are, and all latencies: of the usual order for the processor's generation).
    pub source: &'static str,
    /// Sockets, last-level caches a socket, cores a cache, threads a core.
    pub shape: (u32, u32, u32, u32),
    llc: Cache,
    memory_bytes_per_second: f64,
    memory_controllers: u32,
    memory_latency: Nanos,
    frequencies: Frequencies,
    gpu: Option<Gpu>,
}

const fn cache(bytes: u64, ways: u32, nanos: u64) -> Cache {
    Cache { bytes, ways, is_divisible: true, latency: Nanos(nanos) }
}

const fn khz(min_khz: u32, max_khz: u32) -> Frequencies {
    Frequencies { min_khz, max_khz, step_khz: 100_000 }
}

/// The machines of the papers.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "caladan",
        source: "two 12-core (24-hyperthread) Xeon Broadwell CPUs (caladan-osdi20 §7, \"Experimental setup\"); cache and \
                 bandwidth assumed",
        shape: (2, 1, 12, 2),
        llc: cache(30 << 20, 20, 18),
        memory_bytes_per_second: 33e9,
        memory_controllers: 1,
        memory_latency: Nanos(72),
        frequencies: khz(1_200_000, 2_200_000),
        gpu: None,
    },
    Preset {
        name: "caladan-socket",
        source: "the first socket alone, to which caladan-osdi20 §7 directs all threads and memory",
        shape: (1, 1, 12, 2),
        llc: cache(30 << 20, 20, 18),
        memory_bytes_per_second: 33e9,
        memory_controllers: 1,
        memory_latency: Nanos(72),
        frequencies: khz(1_200_000, 2_200_000),
        gpu: None,
    },
    Preset {
        name: "dasec",
        source: "four Intel Xeon Gold 6138 of 20 cores each (dasec-socc22 §6); hyperthreads off, cache and bandwidth \
                 assumed",
        shape: (4, 1, 20, 1),
        llc: cache(27_500 << 10, 11, 20),
        memory_bytes_per_second: 100e9,
        memory_controllers: 2,
        memory_latency: Nanos(70),
        frequencies: khz(1_000_000, 2_000_000),
        gpu: None,
    },
    Preset {
        name: "rkube",
        source: "two Intel Xeon E5-2420, 6 cores and 12 threads each (rkube-socc21 §3.1.1); cache and bandwidth assumed",
        shape: (2, 1, 6, 2),
        llc: cache(15 << 20, 20, 15),
        memory_bytes_per_second: 32e9,
        memory_controllers: 1,
        memory_latency: Nanos(65),
        frequencies: khz(1_200_000, 1_900_000),
        gpu: None,
    },
    Preset {
        name: "his",
        source: "two 16-core Intel Xeon E5-2683 v4, hyperthreads off, 40 MB of LLC in 2 MB ways, 68 GB/s a socket, 1.2 to \
                 2.1 GHz in 10 steps (snu2020 §3.5)",
        shape: (2, 1, 16, 1),
        llc: cache(40 << 20, 20, 18),
        memory_bytes_per_second: 68e9,
        memory_controllers: 2,
        memory_latency: Nanos(72),
        frequencies: khz(1_200_000, 2_100_000),
        gpu: None,
    },
    Preset {
        name: "edgeiso",
        source: "NVIDIA Jetson TX2 with four ARM cores, 256 GPU cores and 50 GB/s (snu2020 §4.5); cache and CPU \
                 frequencies assumed, GPU frequencies of the device (§4.3.2: fourteen steps from 140 to 1300 MHz), no cache \
                 allocation (§4.3.2)",
        shape: (1, 1, 4, 1),
        llc: Cache { is_divisible: false, ..cache(2 << 20, 16, 12) },
        memory_bytes_per_second: 50e9,
        memory_controllers: 1,
        memory_latency: Nanos(118),
        frequencies: khz(300_000, 2_000_000),
        gpu: Some(Gpu {
            cores: 256,
            frequencies: Frequencies { min_khz: 140_250, max_khz: 1_300_500, step_khz: 89_250 },
        }),
    },
    Preset {
        name: "vas",
        source: "one Intel E5-2683v4 16-core CPU, hyperthreads off, 2.1 GHz (vas-rtns21, the experiments' set-up); \
                 bandwidth as for HIS",
        shape: (1, 1, 16, 1),
        llc: cache(40 << 20, 20, 18),
        memory_bytes_per_second: 68e9,
        memory_controllers: 2,
        memory_latency: Nanos(72),
        frequencies: khz(1_200_000, 2_100_000),
        gpu: None,
    },
    Preset {
        name: "rkube-cloudlab",
        source: "two Intel Xeon Silver 4114 of CloudLab, 10 cores and 20 threads each (rkube-socc21 §6.5); cache assumed, \
                 bandwidth for each core as of DASEC's",
        shape: (2, 1, 10, 2),
        llc: cache(13_750 << 10, 11, 20),
        memory_bytes_per_second: 50e9,
        memory_controllers: 2,
        memory_latency: Nanos(70),
        frequencies: khz(800_000, 2_200_000),
        gpu: None,
    },
    Preset {
        name: "sdc",
        source: "eight-core Intel Xeon E5-2650 v2 at 2.6 GHz, hyperthreads and DVFS off (snu2020 §5.5.1); its cache of 20 MB in \
                 20 ways and four channels of DDR3-1866, of whose 59.7 GB/s four fifths can be used: assumed",
        shape: (1, 1, 8, 1),
        llc: cache(20 << 20, 20, 15),
        memory_bytes_per_second: 47e9,
        memory_controllers: 1,
        memory_latency: Nanos(70),
        frequencies: khz(2_600_000, 2_600_000),
        gpu: None,
    },
];

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let (sockets, llcs, cores, threads) = self.shape;
        Machine {
            topology: Topology::synthetic(sockets, llcs, cores, threads).into(),
            llc: self.llc,
            memory: Memory {
                controllers: self.memory_controllers,
                bandwidth: BytesPerSecond(self.memory_bytes_per_second),
                latency: self.memory_latency,
                remote: Nanos(60),
            },
            frequencies: self.frequencies,
            gpu: self.gpu,
            contention: ContentionSpec::default(),
        }
    }
}

impl Machine {
    /// What there is to turn. The memory throttle is as Intel's: tenths of what a core can draw.
    #[must_use]
    pub fn controls(&self) -> Controls {
        let cache = |llc: usize| WayControl {
            llc: llc as u32,
            ways: self.llc.ways,
            least: 1,
            contiguous: true,
            with_devices: 0,
        };
        let Frequencies { min_khz, max_khz, step_khz } = self.frequencies;
        let frequency = |cpu: CpuId| FrequencyControl { cpus: CpuSet::one(cpu), min_khz, max_khz, step_khz };
        Controls {
            caches: (0..self.topology.llcs().len()).filter(|_| self.llc.is_divisible).map(cache).collect(),
            groups_left: None,
            frequencies: self.topology.all().iter().map(frequency).collect(),
            gpu: self.gpu.map(|gpu| {
                let Frequencies { min_khz, max_khz, step_khz } = gpu.frequencies;
                GpuControl { min_khz, max_khz, step_khz }
            }),
            throttle: Some(ThrottleControl { least: 10, most: 100, step: 10, unit: ThrottleUnit::PerCent }),
            nodes: (0..self.topology.sockets().len() as u32).collect(),
        }
    }

    /// What the threads of one of its sockets share.
    #[must_use]
    pub fn socket(&self) -> Socket {
        Socket {
            llc_bytes: self.llc.bytes as f64,
            ways: self.llc.ways,
            llc_ns: self.llc.latency.0 as f64,
            memory_ns: self.memory.latency.0 as f64,
            bytes_per_ns: self.memory.bandwidth.0 / 1e9,
            ghz: f64::from(self.frequencies.max_khz) / 1e6,
            full_power: self.contention.full_power,
        }
    }
}

impl From<Topology> for Machine {
    /// These CPUs, with cache, memory and frequencies as the machine of HIS has them.
    fn from(topology: Topology) -> Machine {
        let usual = &PRESETS[4];
        Machine { topology: topology.into(), ..usual.machine() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_cpus_that_the_papers_name() {
        let cpus = |name| Preset::named(name).unwrap().machine().topology.all().len();
        let all =
            ["caladan", "caladan-socket", "dasec", "rkube", "rkube-cloudlab", "his", "edgeiso", "vas", "sdc"].map(cpus);
        assert_eq!(all, [48, 24, 80, 24, 40, 32, 4, 16, 8]);
        assert!(Preset::named("nothing").is_none());
        assert_eq!(PRESETS[4].name, "his", "other machines take what they leave open from it");
    }
}
