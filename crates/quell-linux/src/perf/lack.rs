//! Missing counters, with reasons.

use std::io;

use quell_model::Support;

/// The reason why something is missing, and how to get it.
#[derive(Clone, Debug)]
pub(crate) struct Lack {
    pub why: String,
    pub fix: String,
}

pub(crate) const PASSED_ON: &str = "use a machine with a PMU: a virtual machine has what its host passes through";
pub(crate) const ALLOW: &str = "run as root, or with CAP_PERFMON";

impl Lack {
    pub fn of(error: &io::Error) -> Lack {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                Lack { why: format!("the kernel does not allow counters: {error}"), fix: ALLOW.into() }
            }
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                Lack { why: "no CPU here has a counter for it".into(), fix: PASSED_ON.into() }
            }
            _ => Lack { why: format!("no counter is available: {error}"), fix: PASSED_ON.into() },
        }
    }

    pub fn support(&self) -> Support {
        Support::No { why: self.why.clone(), fix: self.fix.clone() }
    }
}
