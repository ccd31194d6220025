//! Managed workloads: their class, objective and reservation.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::demand::{Asks, Demand};
use crate::{ModelError, Nanos, foreign};

/// A workload's slot in the view's columns; reused only after the workload detached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadId(pub u32);

impl WorkloadId {
    /// The number as an index into per-workload columns.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Latency-critical or best-effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Latency-critical: has a tail latency to keep.
    #[serde(rename = "lc")]
    LatencyCritical,
    /// Best-effort: uses the capacity left over.
    #[serde(rename = "be")]
    BestEffort,
}

impl Class {
    /// Is it latency-critical?
    #[must_use]
    pub const fn is_lc(self) -> bool {
        matches!(self, Class::LatencyCritical)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::LatencyCritical => "LC",
            Class::BestEffort => "BE",
        })
    }
}

/// A number of CPUs, in thousandths: `1.5` CPUs is `CpuCount(1500)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuCount(pub u32);

impl CpuCount {
    /// No CPU.
    pub const ZERO: CpuCount = CpuCount(0);

    /// This number of whole CPUs.
    #[must_use]
    pub const fn whole(cpus: u32) -> CpuCount {
        CpuCount(cpus * 1000)
    }

    /// The whole part.
    #[must_use]
    pub const fn floor(self) -> u32 {
        self.0 / 1000
    }

    /// The smallest whole number of CPUs that is enough.
    #[must_use]
    pub const fn ceil(self) -> u32 {
        self.0.div_ceil(1000)
    }

    /// The fraction, in thousandths.
    #[must_use]
    pub const fn fraction(self) -> CpuCount {
        CpuCount(self.0 % 1000)
    }

    /// As a number of CPUs.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// CPU time of this many CPUs in a span.
    #[must_use]
    pub fn of(self, span: Nanos) -> Nanos {
        Nanos((u128::from(span.0) * u128::from(self.0) / 1000) as u64)
    }
}

impl std::ops::Add for CpuCount {
    type Output = CpuCount;
    fn add(self, other: CpuCount) -> CpuCount {
        CpuCount(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for CpuCount {
    fn sum<I: Iterator<Item = CpuCount>>(counts: I) -> CpuCount {
        counts.fold(CpuCount::ZERO, |sum, count| sum + count)
    }
}

impl TryFrom<f64> for CpuCount {
    type Error = String;
    fn try_from(cpus: f64) -> Result<CpuCount, String> {
        if !(cpus.is_finite() && (0.0..=f64::from(crate::MAX_CPUS as u32)).contains(&cpus)) {
            return Err(format!("{cpus} CPUs: expected a number from 0 to {}", crate::MAX_CPUS));
        }
        Ok(CpuCount((cpus * 1000.0).round() as u32))
    }
}

/// A number, or thousandths as Kubernetes writes them: `500m` is half a CPU.
impl std::str::FromStr for CpuCount {
    type Err = String;
    fn from_str(text: &str) -> Result<CpuCount, String> {
        let wrong = || format!("'{text}' is not a number of CPUs such as 0.5 or 500m");
        let number = text.trim();
        match number.strip_suffix('m') {
            Some(thousandths) => {
                CpuCount::try_from(f64::from(thousandths.parse::<u32>().map_err(|_| wrong())?) / 1000.0)
            }
            None => CpuCount::try_from(number.parse::<f64>().map_err(|_| wrong())?),
        }
    }
}

impl fmt::Display for CpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl Serialize for CpuCount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for CpuCount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<CpuCount, D::Error> {
        CpuCount::try_from(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A service-level objective: this quantile of latency stays under this bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Between 0 and 1, such as 0.99.
    pub quantile: f64,
    /// The latency that the quantile must not exceed.
    pub bound: Nanos,
}

/// Meaning of a CPU request (rkube-socc21 §5.2, the pod template's new field `policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reservation {
    /// Whole CPUs of its own.
    Strict,
    /// A share of the CPUs that strict workloads leave.
    #[default]
    Standard,
}

/// The warning that a thread gets before it loses its CPU to another workload, so that it can stop at a point of its
/// choice: finish a critical section, save its work, and call sched_yield (caladan-osdi20 §6: "delivers a signal to the
/// runtime to give it a few microseconds to yield cleanly").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grace {
    /// The signal that the thread gets.
    pub signal: GraceSignal,
    /// The time that it may run on if it does not yield.
    pub time: Nanos,
}

/// A signal that announces a preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GraceSignal {
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    Usr2,
    /// SIGURG: ignored by a program without a handler.
    Urg,
}

/// Longer graces would become part of the tail latency of the other workloads.
const LONGEST_GRACE: Nanos = Nanos::from_millis(1);

/// Selectors of a workload's threads. Several may form one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// Everything in this cgroup and below it; a path under the cgroup root, or a pattern of paths (`*`, `**`, `?`,
    /// `[…]`).
    Cgroup(PathBuf),
    /// Everything in this systemd unit's cgroup, or in those of all units that match a pattern.
    Unit(String),
    /// This process and its descendants.
    Pid(i32),
    /// Processes with this command line, and their descendants.
    Command(CommandLine),
    /// Everything in the container whose id begins with this text, or that has this name, with any engine.
    Container(String),
    /// Everything in the containers with this label: `KEY=VALUE`, or `KEY` for any value.
    Label(String),
    /// Everything in the Kubernetes pod of this uid.
    Pod(String),
}

/// A process by its command line. Any process can have any command line: only user and program distinguish one that is meant from one
/// that is dressed like it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// A part of the command line, or a pattern of a part.
    pub text: String,
    /// The user that it runs as, by name or number; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file that it executes; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exe: Option<PathBuf>,
}

impl CommandLine {
    /// Can an ordinary user's process not pass for it?
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.user.is_some() || self.exe.is_some()
    }
}

impl From<&str> for CommandLine {
    fn from(text: &str) -> CommandLine {
        CommandLine { text: text.to_owned(), ..CommandLine::default() }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command lines with '{}'", self.text)?;
        if let Some(user) = &self.user {
            write!(f, " of user {user}")?;
        }
        match &self.exe {
            Some(exe) => write!(f, " of {}", exe.display()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Selector::Unit(unit) => write!(f, "systemd unit {unit}"),
            Selector::Pid(pid) => write!(f, "process {pid}"),
            Selector::Command(command) => command.fmt(f),
            Selector::Container(id) => write!(f, "container {id}"),
            Selector::Label(label) => write!(f, "label {label}"),
            Selector::Pod(uid) => write!(f, "pod {uid}"),
        }
    }
}

/// One workload as its owner describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Unique name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// The latency to keep, if there is one.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// CPUs requested; the *guaranteed* CPUs of an LC workload. Best-effort workloads are guaranteed none
    /// (caladan-osdi20 §5.1, "Provisioning cores").
    #[serde(default)]
    pub cpus: CpuCount,
    /// Upper bound on CPUs; those above `cpus` are *burstable*. None: all CPUs.
    #[serde(default)]
    pub limit: Option<CpuCount>,
    /// Does the request mean CPUs of its own?
    #[serde(default)]
    pub reservation: Reservation,
    /// May a solo run of another workload pause this one, although it is latency-critical?
    #[serde(default)]
    pub pausable: bool,
    /// The warning that its threads get before they lose a CPU; None: they lose it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Grace>,
    /// Its demand on its CPUs, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// Selectors of its threads.
    #[serde(default)]
    pub selectors: Vec<Selector>,
}

impl Workload {
    /// A workload with a name, a class and requested CPUs; everything else at its default.
    #[must_use]
    pub fn new(name: impl Into<String>, class: Class, cpus: CpuCount) -> Workload {
        Workload {
            name: name.into(),
            class,
            slo: None,
            cpus,
            limit: None,
            reservation: Reservation::Standard,
            pausable: false,
            grace: None,
            demand: None,
            selectors: Vec::new(),
        }
    }

    /// Is it latency-critical?
    #[must_use]
    pub fn is_lc(&self) -> bool {
        self.class == Class::LatencyCritical
    }

    /// CPUs that are always available to it when needed: its request if it is latency-critical, else none.
    #[must_use]
    pub fn guaranteed(&self) -> CpuCount {
        if self.is_lc() { self.cpus } else { CpuCount::ZERO }
    }

    /// Do the numbers make sense together?
    ///
    /// # Errors
    /// [`ModelError::Workload`] with the fix.
    pub fn check(&self) -> Result<(), ModelError> {
        let bad = |why: String| Err(ModelError::Workload { workload: self.name.clone(), why });
        if self.name.is_empty() {
            return bad("it has no name; give it one".into());
        }
        if !foreign::is_plain(&self.name) {
            let why = "its name has characters that a terminal would obey, or hide; write letters, digits and signs";
            return Err(ModelError::Workload { workload: foreign::text(&self.name).into_owned(), why: why.into() });
        }
        if let Some(slo) = self.slo {
            if !(slo.quantile > 0.0 && slo.quantile < 1.0) {
                return bad(format!("an SLO quantile of {} is not between 0 and 1; write 0.99 for p99", slo.quantile));
            }
            if slo.bound == Nanos::ZERO {
                return bad("an SLO bound of zero cannot be kept; write the latency to keep, such as \"1ms\"".into());
            }
        }
        if let Some(limit) = self.limit {
            if limit < self.cpus {
                return bad(format!("its limit of {limit} CPUs is below its request of {}", self.cpus));
            }
            if limit == CpuCount::ZERO {
                return bad("a limit of 0 CPUs would stop it; leave the limit out or raise it".into());
            }
        }
        if self.grace.is_some_and(|grace| grace.time == Nanos::ZERO || grace.time > LONGEST_GRACE) {
            return bad("a grace is longer than nothing and at most 1 ms; write \"20us\"".into());
        }
        if let Some(demand) = &self.demand {
            if let Err(why) = demand.check() {
                return bad(why);
            }
            if matches!(demand.asks, Asks::Poisson { .. }) && self.slo.is_none() {
                return bad("a demand of random requests has no latency to keep: give an slo".into());
            }
        }
        if self.reservation == Reservation::Strict && self.cpus.floor() == 0 {
            return bad(format!(
                "a strict reservation of {} CPUs holds no whole CPU; request at least 1, or make it standard",
                self.cpus
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let base = Workload::new("db", Class::LatencyCritical, CpuCount::whole(2));
        assert!(base.check().is_ok());
        let bad = [
            Workload { name: String::new(), ..base.clone() },
            Workload { slo: Some(Slo { quantile: 99.0, bound: Nanos(1) }), ..base.clone() },
            Workload { slo: Some(Slo { quantile: 0.99, bound: Nanos(0) }), ..base.clone() },
            Workload { limit: Some(CpuCount::whole(1)), ..base.clone() },
            Workload { reservation: Reservation::Strict, cpus: CpuCount(500), ..base.clone() },
            Workload { cpus: CpuCount::ZERO, limit: Some(CpuCount::ZERO), ..base.clone() },
            Workload { grace: Some(Grace { signal: GraceSignal::Urg, time: Nanos::from_millis(2) }), ..base.clone() },
            Workload { grace: Some(Grace { signal: GraceSignal::Urg, time: Nanos::ZERO }), ..base },
        ];
        for workload in bad {
            assert!(workload.check().is_err(), "{workload:?}");
        }
    }

    #[test]
    fn cpu_counts_are_fractional() {
        let count: CpuCount = "1.5".parse().unwrap();
        assert_eq!((count.floor(), count.ceil(), count.fraction()), (1, 2, CpuCount(500)));
        assert_eq!(count.of(Nanos::from_millis(10)), Nanos::from_millis(15));
        assert_eq!(serde_json::to_string(&count).unwrap(), "1.5");
        for text in ["-1", "x", "NaN", "99999"] {
            assert!(text.parse::<CpuCount>().is_err(), "{text}");
        }
    }
}
