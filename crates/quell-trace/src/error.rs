use thiserror::Error;

/// Failures to trace scheduling events.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The kernel says no: missing rights, missing type information, or a kernel that is too old.
    #[error(
        "the kernel refuses tracing ({step}: {source}); it needs CAP_BPF and CAP_PERFMON (or root), and a kernel \
         from 5.15 on with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_EVENTS"
    )]
    Refused {
        /// The failed step.
        step: &'static str,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// We run in a container: threads have other numbers here than in the kernel's events.
    #[error("tracing needs the host's process numbers; run outside the container, or with the host's pid namespace")]
    Namespace,
    /// Something that worked before does not work any more.
    #[error("tracing: {step}: {source}")]
    Broken {
        /// The failed step.
        step: &'static str,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// The look at the threads could not be read.
    #[error("tracing: reading the snapshot of all threads: {0}")]
    Look(#[from] std::io::Error),
    /// The table of watched threads is full.
    #[error("more than {max} threads to watch; watch fewer workloads")]
    TooMany {
        /// The table's capacity.
        max: usize,
    },
}
