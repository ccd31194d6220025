//! Failures of this crate. Each is one line with the fix.

use thiserror::Error;

/// A measurement that cannot be made.
#[derive(Debug, Error)]
pub enum EffectError {
    /// The probe.
    #[error("the probe: {}", of_probe(.0))]
    Probe(quell_bench::Error),
    /// Procfs or a cgroup.
    #[error("{0}")]
    Linux(#[from] quell_linux::LinuxError),
    /// The service's own histogram.
    #[error("the service's histogram cannot be read: {0}")]
    Histogram(#[from] quell_scrape::Trouble),
    /// A runtime or a thread of Quell's own.
    #[error("cannot {0}: {1}")]
    System(&'static str, std::io::Error),
    /// No thread is left.
    #[error("no thread of the service is left: it ended or was restarted; start it and try again")]
    Ended,
    /// A URL without its protocol.
    #[error("`{0}` has no protocol; write http://{0}/, memcached://{0} or redis://{0}")]
    NoProtocol(String),
    /// A rate that no probe should have.
    #[error("{asked} requests a second are no probe; give 1 to {most}")]
    Rate {
        /// The rate that was asked for.
        asked: f64,
        /// The rate that a probe has at most.
        most: f64,
    },
    /// The kernel does not count waiting.
    #[error(
        "the kernel does not count the threads' waiting (CONFIG_SCHED_INFO); give --url for a probe, or the service's histogram"
    )]
    NotCounted,
    /// An experiment that cannot be planned.
    #[error("{problem}; {fix}")]
    Design {
        /// The fault.
        problem: String,
        /// What to give.
        fix: String,
    },
}

impl From<quell_bench::Error> for EffectError {
    fn from(error: quell_bench::Error) -> EffectError {
        EffectError::Probe(error)
    }
}

/// A probe has a URL in place of the options of a load.
fn of_probe(error: &quell_bench::Error) -> String {
    match error {
        quell_bench::Error::Spec { problem, fix, .. } => format!("{problem}; {fix}"),
        quell_bench::Error::Connect { address, reason } => {
            format!("cannot connect to {address}: {reason}; start the service, or correct the URL")
        }
        quell_bench::Error::OtherProtocol { address, problem, speaks } => {
            format!("{address}: {problem}; it speaks {speaks}: write {speaks}:// in the URL")
        }
        other => other.to_string(),
    }
}

impl EffectError {
    /// Does it end a measurement? What a service answers now and then is only missing.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, EffectError::Histogram(_))
    }
}

/// The crate's result type.
pub type Result<T, E = EffectError> = std::result::Result<T, E>;
