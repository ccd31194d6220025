//! What the running kernel offers.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::btf::Btf;

use rustix::thread::CapabilitySet;

use crate::{ScxError, forms};

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// How the kernel was built, `uname -v`: says PREEMPT_RT where it is. (`/sys/kernel/realtime` is of patched kernels alone.)
const VERSION: &str = "/proc/sys/kernel/version";
const COMMAND_LINE: &str = "/proc/cmdline";
const PID_NAMESPACE: &str = "/proc/self/ns/pid";
/// The inode of the machine's own pid namespace, on every kernel (`PROC_PID_INIT_INO`).
const MACHINES_PIDS: u64 = 0xEFFF_FFFC;
/// A scheduler that ends is gone within this time: an assumption.
const ENDS: Duration = Duration::from_secs(5);

/// Can this kernel load a scheduler now?
///
/// # Errors
/// [`ScxError::RealTimeKernel`], [`ScxError::NoSchedExt`], [`ScxError::Busy`] with the name of the scheduler that is loaded,
/// [`ScxError::Isolated`] or [`ScxError::PidNamespace`].
pub fn ready() -> Result<(), ScxError> {
    check_timers(Path::new(VERSION))?;
    check_kernel(Path::new(SCHED_EXT))?;
    check_isolation(Path::new(COMMAND_LINE))?;
    check_namespace(Path::new(PID_NAMESPACE))
}

/// Waits for a moment while a scheduler of our name is loaded: that of a loader that just died is gone soon.
pub(crate) fn await_end_of(our_name: &str) {
    if matches!(check_kernel(Path::new(SCHED_EXT)), Err(ScxError::Busy { name }) if name.starts_with(our_name)) {
        await_end();
    }
}

/// The scheduler needs timers of BPF, which only ordinary kernels have.
fn check_timers(version: &Path) -> Result<(), ScxError> {
    match std::fs::read_to_string(version) {
        Ok(text) if text.split_whitespace().any(|word| word == "PREEMPT_RT") => Err(ScxError::RealTimeKernel),
        _ => Ok(()),
    }
}

/// The kernel attaches no scheduler where `isolcpus=` takes CPUs out of its domains (`scx_enable`), and says so in its log alone.
/// Flags come before the CPUs; without any, that is what it does.
fn check_isolation(command_line: &Path) -> Result<(), ScxError> {
    let line = std::fs::read_to_string(command_line).unwrap_or_default();
    let isolates = |cpus: &&str| {
        let mut flags =
            cpus.split(',').take_while(|word| word.starts_with(|first: char| first.is_alphabetic())).peekable();
        flags.peek().is_none() || flags.any(|flag| flag == "domain")
    };
    match line.split_whitespace().filter_map(|word| word.strip_prefix("isolcpus=")).find(isolates) {
        Some(cpus) => Err(ScxError::Isolated { cpus: cpus.to_owned() }),
        None => Ok(()),
    }
}

/// The scheduler and we must mean the same threads by the same numbers.
fn check_namespace(link: &Path) -> Result<(), ScxError> {
    match std::fs::metadata(link) {
        Ok(namespace) if namespace.ino() != MACHINES_PIDS => Err(ScxError::PidNamespace),
        _ => Ok(()),
    }
}

/// How often CPUs came or went since the machine started; 0 where the kernel does not count.
#[must_use]
pub fn hotplugs() -> u64 {
    let count = std::fs::read_to_string(Path::new(SCHED_EXT).join("hotplug_seq"));
    count.ok().and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The state of sched_ext, in the kernel's word: `enabled` once a scheduler has every thread, `disabled` without one; empty where
/// the kernel has no sched_ext.
#[must_use]
pub fn state() -> String {
    let state = std::fs::read_to_string(Path::new(SCHED_EXT).join("state"));
    state.map(|state| state.trim().to_owned()).unwrap_or_default()
}

/// Waits until the scheduler that ends is gone.
pub(crate) fn await_end() {
    let end = Instant::now() + ENDS;
    while matches!(check_kernel(Path::new(SCHED_EXT)), Err(ScxError::Busy { .. })) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn check_kernel(sched_ext: &Path) -> Result<(), ScxError> {
    let state = sched_ext.join("state");
    let Ok(state) = std::fs::read_to_string(&state) else { return Err(ScxError::NoSchedExt { path: state }) };
    if state.trim() == "disabled" {
        return Ok(());
    }
    let name = std::fs::read_to_string(sched_ext.join("root/ops")).unwrap_or_default();
    Err(ScxError::Busy { name: name.trim().to_owned() })
}

/// Has `enqueue` see threads that a part of the kernel binds to their CPU, where the kernel (from 6.14 on) would leave them
/// out; 0 on older ones, which leave no one out. To the kernel, a thread that `cpu_release` interrupts looks like one of
/// them: without this flag it would wait behind the real-time thread that took its CPU.
pub(crate) fn flag_of_bound_threads(types: &Btf<'_>) -> u64 {
    forms::number(types, "scx_ops_flags", "SCX_OPS_ENQ_MIGRATION_DISABLED").unwrap_or(0)
}

/// Does this kernel give threads of sched_ext some time behind real-time ones (from 7.0 on)? Then such threads do not make
/// others wait until the kernel would end the scheduler.
pub(crate) fn serves_ext_threads(types: &Btf<'_>) -> bool {
    forms::has_member(types, "rq", "ext_server")
}

/// What works less well under Quell's scheduler because this kernel lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What it lacks, and the first version that has it.
    pub what: &'static str,
    /// What follows from that.
    pub consequence: &'static str,
}

/// What this kernel lacks, by its types; nothing where it does not report them.
#[must_use]
pub fn lacks() -> Vec<Lack> {
    Btf::from_vmlinux().map(|types| lacks_of(&types)).unwrap_or_default()
}

fn lacks_of(types: &Btf<'_>) -> Vec<Lack> {
    let mut found = Vec::new();
    if !forms::has(types, "bpf_send_signal_task") {
        let consequence = "`grace` is not kept: a thread gets no signal before it loses its CPU";
        found.push(Lack { what: "bpf_send_signal_task (Linux 6.13)", consequence });
    }
    if !serves_ext_threads(types) {
        let consequence = "a thread behind real-time threads that never sleep waits for ever, and after 30 s the kernel ends \
                           the scheduler; quell run then lends CPUs by affinity";
        found.push(Lack { what: "a deadline server for sched_ext's threads (Linux 7.0)", consequence });
    }
    found
}

/// May this thread load schedulers?
pub(crate) fn may_load() -> bool {
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_sched_ext_is_refused_with_the_fix() {
        let error = check_kernel(Path::new("/nonexistent/sched_ext")).unwrap_err().to_string();
        assert!(error.contains("CONFIG_SCHED_CLASS_EXT") && error.contains("quell-lab boot"), "{error}");
    }

    #[test]
    fn a_real_time_kernel_is_refused_with_the_fix() {
        let path = std::env::temp_dir().join(format!("quell-realtime-{}", std::process::id()));
        std::fs::write(&path, "#1 SMP PREEMPT_RT Debian 6.18.15-1\n").unwrap();
        let error = check_timers(&path).unwrap_err().to_string();
        assert!(error.contains("PREEMPT_RT") && error.contains("; servers are kept by SCHED_DEADLINE"), "{error}");
        std::fs::write(&path, "#1 SMP PREEMPT_DYNAMIC Debian 6.18.15-1\n").unwrap();
        assert!(check_timers(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(check_timers(&path).is_ok(), "what cannot be read is found out at load");
    }

    #[test]
    fn a_kernel_with_isolated_cpus_is_refused_with_the_fix() {
        let path = std::env::temp_dir().join(format!("quell-isolated-{}", std::process::id()));
        for (line, refused) in [
            ("quiet isolcpus=2-3 ro", Some("isolcpus=2-3,")),
            ("isolcpus=domain,2", Some("isolcpus=domain,2,")),
            ("isolcpus=nohz,managed_irq,2 nohz_full=2", None),
            ("quiet", None),
        ] {
            std::fs::write(&path, line).unwrap();
            let error = check_isolation(&path).err().map(|error| error.to_string());
            match (refused, error) {
                (Some(part), Some(error)) => {
                    assert!(error.contains(part) && error.contains("; start it without"), "{error}")
                }
                (refused, error) => assert_eq!((refused.is_none(), &error), (true, &None), "{line}"),
            }
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pid_namespace_of_its_own_is_refused_with_the_fix() {
        // The machine's has a number of its own, as no other file has.
        let error = check_namespace(Path::new("/proc/self/ns/mnt")).unwrap_err().to_string();
        assert!(error.contains("hostPID"), "{error}");
        assert!(check_namespace(Path::new("/nonexistent/pid")).is_ok(), "where it cannot be known");
    }
}
