//! sysfs: the machine's units, frequencies and memory nodes.

mod cpufreq;
mod devfreq;
mod nodes;
mod topology;

pub use cpufreq::{FrequencyDomain, frequency_domains};
pub use devfreq::{GpuDevice, gpu};
pub use nodes::{free_memory, memory_nodes};
pub use topology::{grown, has_caches, isolated, online, possible, topology, without_tick};
