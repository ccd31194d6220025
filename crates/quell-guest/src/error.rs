//! Failures of the lab, each with its fix in the text.

use std::io;
use std::path::{Path, PathBuf};

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, LabError>;

/// Failures of the lab. The text is for people: it names the next step.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file operation failed.
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    Io {
        /// The failed operation: "read", "create"…
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file system that holds the cache is full.
    #[error(
        "no space left for {path}; the lab's cache needs about 500 MB: free some, or set QUELL_LAB_CACHE to a directory \
         on another file system",
        path = path.display()
    )]
    DiskFull {
        /// Place of the failed write.
        path: PathBuf,
    },
    /// The package mirror cannot be reached.
    #[error(
        "cannot download from {mirror}: {detail}\n\
         The lab needs the network once, to fetch a kernel and QEMU. Connect it, name another mirror with \
         QUELL_LAB_MIRROR, or copy the directory {cache} from a machine where `quell-lab boot fetch` has run",
        cache = cache.display()
    )]
    Network {
        /// The mirror that was asked.
        mirror: String,
        /// The first line of the package manager's complaint.
        detail: String,
        /// The cache that would have to be copied.
        cache: PathBuf,
    },
    /// A program that the lab calls is not installed.
    #[error("`{tool}` is not installed; fix: apt-get install {package}")]
    MissingTool {
        /// The program.
        tool: String,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// Missing prerequisites of a scheduler's build.
    #[error("not installed: {}; fix: apt-get install {}", files.join(", "), packages.join(" "))]
    MissingForBuild {
        /// Files that show that a package is installed.
        files: Vec<&'static str>,
        /// The Debian packages that hold them.
        packages: Vec<&'static str>,
    },
    /// A program that the lab calls failed.
    #[error("`{command}` failed: {detail}")]
    Tool {
        /// The command line.
        command: String,
        /// Its output.
        detail: String,
    },
    /// The kernel that was asked for is in no archive.
    #[error("there is no kernel {version} in Debian's {suite}; it has: {available}")]
    UnknownKernel {
        /// The requested version.
        version: String,
        /// The searched suite.
        suite: &'static str,
        /// The available versions.
        available: String,
    },
    /// The kernel is there, but sched_ext schedulers do not load on it.
    #[error("kernel {version} cannot be used: {why}; fix: omit --kernel to get one that is known to work")]
    UnfitKernel {
        /// The kernel's version.
        version: String,
        /// The fault.
        why: String,
    },
    /// None of the lab's kernels is available.
    #[error(
        "none of the kernels that the lab knows is available:\n{tried}\
         Debian's {suite} has: {available}\n\
         fix: try one of those with --kernel VERSION"
    )]
    NoKernelLeft {
        /// One line a version: why not.
        tried: String,
        /// The searched suite.
        suite: &'static str,
        /// The archive's versions.
        available: String,
    },
    /// A file from a package has an unexpected content.
    #[error("{path} is not as expected: {why}; fix: remove it and run again", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The QEMU that is there cannot be used.
    #[error("QEMU at {path} does not fit: {why}", path = path.display())]
    UnfitQemu {
        /// The program.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The command is neither on the host nor in the guest.
    #[error("{command}: command not found ({looked})")]
    CommandNotFound {
        /// The command as it was given.
        command: String,
        /// The searched places.
        looked: String,
    },
    /// Options that contradict each other or the machine.
    #[error("{option}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// The fault of its value.
        why: String,
    },
    /// The guest has too little memory for its files.
    #[error("--mem {given_mib}M is too little: this guest needs {needed_mib} MiB at least")]
    TooLittleMemory {
        /// The given size, in MiB.
        given_mib: u64,
        /// The needed size, in MiB.
        needed_mib: u64,
    },
    /// The guest ran out of memory before the command could end.
    #[error("the guest ran out of memory (--mem {given_mib}M); fix: give it more. Its console's end:\n{console}")]
    GuestOutOfMemory {
        /// The given size, in MiB.
        given_mib: u64,
        /// The console's last lines.
        console: String,
    },
    /// The guest's kernel panicked.
    #[error("the guest's kernel panicked:\n{console}")]
    GuestPanic {
        /// The console's last lines.
        console: String,
    },
    /// One of the checks that the guest's kernel was built with found a fault while the command ran.
    #[error("the guest's kernel reported a fault:\n{console}")]
    KernelFault {
        /// The console from the first one on.
        console: String,
    },
    /// The guest ended without saying how the command ended.
    #[error("the guest ended without an exit status: {why}. The end of its console and of QEMU's messages:\n{log}")]
    GuestDied {
        /// What is known of the reason, with the end of QEMU.
        why: String,
        /// The last lines of both logs.
        log: String,
    },
    /// What the plugin counted is not there, or not whole.
    #[error("the guest's instructions were not counted: {why}")]
    NotCounted {
        /// What is missing.
        why: String,
    },
    /// The time-out that the caller set has passed.
    #[error("timed out after {seconds} s (--timeout){last}")]
    TimedOut {
        /// Wall-clock seconds.
        seconds: u64,
        /// The last lines that the command printed, with a heading; empty where they went to the caller as they came.
        last: String,
    },
    /// A signal ended the run.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl LabError {
    /// Turns an I/O error into a lab error; maps it over the operation and the path.
    pub(crate) fn io<'a>(operation: &'static str, path: &'a Path) -> impl Fn(io::Error) -> LabError + 'a {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                LabError::DiskFull { path: path.to_path_buf() }
            }
            _ => LabError::Io { operation, path: path.to_path_buf(), source },
        }
    }

    /// The exit status that a shell would expect: 124 time-out, 127 command not found, 128 + signal, else 125.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            LabError::TimedOut { .. } => 124,
            LabError::CommandNotFound { .. } => 127,
            LabError::Interrupted { signal } => 128u8.saturating_add(*signal as u8),
            _ => 125,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_full_disk_has_its_own_message() {
        let full = Path::new("/dev/full");
        let error = std::fs::File::options().write(true).open(full).unwrap().write_all(b"x").unwrap_err();
        let error = LabError::io("write", full)(error);
        assert!(matches!(error, LabError::DiskFull { .. }));
        assert!(error.to_string().contains("QUELL_LAB_CACHE"), "{error}");
    }

    #[test]
    fn other_errors_name_operation_and_path() {
        let path = Path::new("/no/such");
        let error = LabError::io("read", path)(std::fs::read(path).unwrap_err());
        assert!(error.to_string().starts_with("cannot read /no/such: No such file"), "{error}");
    }
}
