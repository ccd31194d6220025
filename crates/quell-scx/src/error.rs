use std::path::PathBuf;

use thiserror::Error;

use crate::forms::Unknown;

/// Why Quell's scheduler does not run.
#[derive(Debug, Error)]
pub enum ScxError {
    /// The kernel has no sched_ext.
    #[error(
        "this kernel cannot load schedulers: {path} does not exist; boot a kernel from 6.12 on with \
         CONFIG_SCHED_CLASS_EXT=y, or try it in the lab (quell-lab boot run)"
    )]
    NoSchedExt {
        /// What was looked for.
        path: PathBuf,
    },
    /// The kernel is a real-time one.
    #[error(
        "this is a real-time kernel (PREEMPT_RT), which refuses BPF timers and so Quell's scheduler; servers are kept by \
         SCHED_DEADLINE here (policy vas), CPUs granted by affinity: machine.scheduler = \"auto\""
    )]
    RealTimeKernel,
    /// The kernel keeps CPUs out of its scheduling.
    #[error(
        "the kernel was started with isolcpus={cpus}, and then takes no scheduler of sched_ext; start it without, or set \
         machine.scheduler = \"kernel\" (cpuset.cpus.partition = isolated does without a reboot what isolcpus does)"
    )]
    Isolated {
        /// What the command line says of them.
        cpus: String,
    },
    /// Another scheduler is loaded.
    #[error("the scheduler '{name}' is loaded already, and the kernel takes one at a time; stop it first")]
    Busy {
        /// Its name.
        name: String,
    },
    /// This process numbers threads otherwise than the kernel.
    #[error(
        "this process is in a pid namespace of its own, where threads have other numbers than the scheduler sees; run it in \
         the machine's (hostPID: true in Kubernetes, --pid=host with Docker)"
    )]
    PidNamespace,
    /// The kernel's sched_ext has other functions or numbers than the program knows.
    #[error(
        "this kernel's sched_ext is not one that Quell's scheduler knows ({unknown}); use Linux 6.12 to 7.3, or \
         machine.scheduler = \"kernel\""
    )]
    UnknownKernel {
        /// The first of what it does not know.
        unknown: Unknown,
    },
    /// The kernel refused the program.
    #[error("the kernel refused {step}: {source}; it needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN{messages}")]
    Refused {
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
        /// The last lines of what libbpf said, each after a new line.
        messages: String,
    },
    /// Something that worked before does not work any more.
    #[error("{step} failed: {source}")]
    Broken {
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// The kernel ended the scheduler and runs its own again.
    #[error("the kernel ended Quell's scheduler and runs its own again: {why}")]
    Ended {
        /// The kernel's reason.
        why: String,
        /// Did a person or another program ask for it (SysRq-S)?
        by_hand: bool,
        /// When, by the monotonic clock.
        at: quell_model::Nanos,
    },
    /// A workload is not selected by cgroups alone.
    #[error(
        "workload '{workload}' is selected by {selector}; Quell's scheduler finds threads by their cgroup: put it into \
         one (systemd-run --scope, or a unit) and select that"
    )]
    NoCgroup {
        /// The workload.
        workload: String,
        /// Its selector.
        selector: String,
    },
    /// More than the scheduler's tables hold.
    #[error("{what}: the scheduler's table holds {max}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// What the table holds.
        max: usize,
    },
    /// The kernel makes no more queues.
    #[error("making a workload's queues in the scheduler: {error}")]
    Queues {
        /// What the kernel said.
        error: std::io::Error,
    },
    /// Waiting failed.
    #[error("waiting for the scheduler's events: {0}")]
    Wait(#[source] std::io::Error),
    /// The rest of the host failed.
    #[error(transparent)]
    Linux(#[from] quell_linux::LinuxError),
}

impl From<ScxError> for quell_linux::LinuxError {
    fn from(error: ScxError) -> quell_linux::LinuxError {
        match error {
            ScxError::Linux(error) => error,
            ScxError::Ended { by_hand, at, .. } => {
                quell_linux::LinuxError::SchedulerEnded { why: error.to_string(), by_hand, at }
            }
            other => quell_linux::LinuxError::Scheduler(Box::new(other)),
        }
    }
}
