//! The machine to boot.

mod command_line;

pub(crate) use command_line::{Wiring, fd, qemu_arguments};

use std::path::PathBuf;

use crate::error::{LabError, Result};

/// Input of the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing: its input is at its end.
    #[default]
    Nothing,
    /// This process's standard input, to its end.
    Stdin,
    /// This process's terminal, key by key; the command has a terminal of its own, which this one shows.
    Terminal,
}

/// A guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Their sockets, cores and siblings; by default each is a socket of its own.
    pub topology: Option<Topology>,
    /// Memory nodes, with equal parts of the CPUs and of the memory; only of a packed machine.
    pub nodes: u32,
    /// Memory in MiB; by default the need of the image, and 1 GiB at least.
    pub memory_mib: Option<u64>,
    /// Debian's version of the kernel; by default the best available one.
    pub kernel: Option<String>,
    /// The clock.
    pub clock: Clock,
    /// The files that the guest sees.
    pub root: Root,
    /// The executor of the guest's instructions.
    pub accelerator: Accelerator,
    /// Further parameters for the kernel.
    pub kernel_arguments: Vec<String>,
    /// Guest seconds to wait before the command, so that the after-effects of booting have ended. Nearly free in
    /// lock-step.
    pub settle_s: u32,
    /// Are the instructions counted that are executed between two [marks](crate::counts)? Of emulated guests only.
    pub counts: bool,
}

impl Default for Machine {
    /// Four free-running CPUs that see the host's files.
    fn default() -> Self {
        Self {
            cpus: 4,
            topology: None,
            nodes: 1,
            memory_mib: None,
            kernel: None,
            clock: Clock::Free,
            root: Root::Host,
            accelerator: Accelerator::Emulation,
            kernel_arguments: Vec::new(),
            settle_s: 0,
            counts: false,
        }
    }
}

impl Machine {
    /// Guest seconds that pass before a lock-step measurement unless [`Machine::settle_s`] is set to something else.
    pub const LOCKSTEP_SETTLE_S: u32 = 20;

    /// A free-running machine that has nothing of the host but the command's program and these files.
    #[must_use]
    pub fn packed(files: Vec<PathBuf>) -> Self {
        Self { root: Root::Packed(files), ..Self::default() }
    }

    /// A machine to measure in: lock-step time, and nothing of the host but the command's program and these files.
    #[must_use]
    pub fn measuring(cpus: u32, lockstep: Lockstep, files: Vec<PathBuf>) -> Self {
        let clock = Clock::Lockstep(lockstep);
        Self { cpus, clock, settle_s: Self::LOCKSTEP_SETTLE_S, ..Self::packed(files) }
    }

    /// The lock-step settings, if time passes so.
    #[must_use]
    pub fn lockstep(&self) -> Option<&Lockstep> {
        match &self.clock {
            Clock::Free => None,
            Clock::Lockstep(lockstep) => Some(lockstep),
        }
    }

    /// Refuses settings that QEMU or the plugin does not support.
    ///
    /// # Errors
    /// With the option's name and the fix.
    pub fn check(&self) -> Result<()> {
        let bad = |option, why: String| Err(LabError::BadOption { option, why });
        if !(1..=64).contains(&self.cpus) {
            return bad("--cpus", format!("{} is not between 1 and 64", self.cpus));
        }
        if let Some(topology) = &self.topology
            && topology.cpus() != self.cpus
        {
            return bad("--topology", format!("{topology} makes {} CPUs, not {}", topology.cpus(), self.cpus));
        }
        if self.nodes == 0 || !self.cpus.is_multiple_of(self.nodes) || (self.nodes > 1 && self.root == Root::Host) {
            return bad("nodes", format!("{} memory nodes do not divide a packed machine's CPUs", self.nodes));
        }
        if self.counts && self.accelerator == Accelerator::Kvm {
            return bad("--kvm", "instructions are counted by the emulation; omit --kvm".into());
        }
        let Some(lockstep) = self.lockstep() else { return Ok(()) };
        if self.accelerator == Accelerator::Kvm {
            return bad("--kvm", "lock-step time needs emulation; omit one of the two".into());
        }
        if !(1..=100_000).contains(&lockstep.mips) {
            return bad("--mips", format!("{} is not between 1 and 100000", lockstep.mips));
        }
        if !(500..=10_000_000).contains(&lockstep.quantum_ns) {
            return bad("--quantum", format!("{} ns is not between 500ns and 10ms", lockstep.quantum_ns));
        }
        let instructions = u64::from(lockstep.mips) * u64::from(lockstep.quantum_ns) / 1000;
        if instructions < 100 {
            return bad("--quantum", format!("a round of {instructions} instructions is too short; take 100 at least"));
        }
        Ok(())
    }
}

/// Sockets, cores a socket, hardware threads a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Sockets.
    pub sockets: u32,
    /// Cores a socket.
    pub cores: u32,
    /// Threads a core.
    pub threads: u32,
}

impl Topology {
    /// Its number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.sockets * self.cores * self.threads
    }
}

impl std::fmt::Display for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.sockets, self.cores, self.threads)
    }
}

impl std::str::FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let numbers: Vec<u32> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
        match numbers[..] {
            [sockets @ 1..=64, cores @ 1..=64, threads @ 1..=64] if text.split(',').count() == 3 => {
                Ok(Self { sockets, cores, threads })
            }
            _ => Err("expected SOCKETS,CORES,THREADS, as in 2,4,2".into()),
        }
    }
}

/// The guest's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// With the host's: for functional tests. Latencies are the host's noise.
    Free,
    /// With the instructions executed: for measurements.
    Lockstep(Lockstep),
}

/// Lock-step time: in rounds of equal virtual time every busy CPU executes the same number of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lockstep {
    /// CPUs take turns within a round, so that two runs are identical to the nanosecond.
    pub serial: bool,
    /// Millions of instructions a virtual second.
    pub mips: u32,
    /// A round's virtual nanoseconds: interrupts between CPUs and timers act at its end.
    pub quantum_ns: u32,
}

impl Default for Lockstep {
    fn default() -> Self {
        Self { serial: false, mips: 500, quantum_ns: 10_000 }
    }
}

/// The files that the guest sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The host's, read-only under an overlay in memory.
    Host,
    /// The command's program, these files, and their libraries: all in memory, no host I/O while the guest runs.
    Packed(Vec<PathBuf>),
}

/// The executor of the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU's emulation: works everywhere.
    Emulation,
    /// The host's own CPUs.
    Kvm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_read() {
        assert_eq!("2,4,2".parse(), Ok(Topology { sockets: 2, cores: 4, threads: 2 }));
        for bad in ["", "2,4", "2,4,2,1", "0,1,1", "a,1,1", "2,,2,1"] {
            assert!(bad.parse::<Topology>().is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |machine: Machine| machine.check().unwrap_err().to_string();
        assert!(refused(Machine { cpus: 0, ..Machine::default() }).starts_with("--cpus"));
        let topology = "2,2,2".parse().ok();
        assert!(refused(Machine { cpus: 4, topology, ..Machine::default() }).contains("8 CPUs, not 4"));
        let lockstep = |mips, quantum_ns| Machine {
            clock: Clock::Lockstep(Lockstep { serial: false, mips, quantum_ns }),
            ..Machine::default()
        };
        assert!(refused(lockstep(0, 10_000)).starts_with("--mips"));
        assert!(refused(lockstep(500, 10)).starts_with("--quantum"));
        assert!(refused(lockstep(1, 1000)).contains("1 instructions"));
        assert!(refused(Machine { accelerator: Accelerator::Kvm, ..lockstep(500, 10_000) }).starts_with("--kvm"));
        assert!(lockstep(500, 10_000).check().is_ok());
    }
}
