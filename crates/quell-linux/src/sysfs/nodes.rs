//! Memory nodes (`/sys/devices/system/node`).

use std::path::Path;

use quell_model::CpuSet;

use crate::{LinuxError, file};

/// The nodes that have memory.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn memory_nodes(sys: &Path) -> Result<Vec<u32>, LinuxError> {
    let path = sys.join("devices/system/node/has_memory");
    let nodes = file::parse::<CpuSet>(&path, "a list of nodes")?.unwrap_or_default();
    Ok(nodes.iter().map(|node| node.0).collect())
}

/// Free memory of a node, bytes; None: it does not say.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn free_memory(sys: &Path, node: u32) -> Result<Option<u64>, LinuxError> {
    let text = file::read(&sys.join(format!("devices/system/node/node{node}/meminfo")))?.unwrap_or_default();
    let line = text.lines().find(|line| line.contains("MemFree:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().rev().nth(1)?.parse().ok());
    Ok(kib.map(|kib| kib * 1024))
}
