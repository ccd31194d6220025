//! Specification of a load: plain data, checked as a whole before anything is opened.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::protocol::Protocol;
use crate::{Error, Result, memory};

/// The most requests that one run may plan.
pub const MAX_REQUESTS: u64 = 50_000_000;
/// A request's share of the generator's memory.
const BYTES_PER_REQUEST: u64 = 32;
/// The memcached protocol's default item limit.
pub const MAX_VALUE_BYTES: u32 = 1 << 20;
/// Keys are numbered by 31 bits.
pub const MAX_KEYS: u32 = 1 << 31;

/// Address of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// `host:port`.
    Tcp(String),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = Error;

    /// `host:port`, `unix:PATH` or an absolute path.
    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Self::Tcp(text.to_owned())),
            _ => Err(Error::Spec {
                field: "target",
                problem: format!("`{text}` is not an address"),
                fix: "write HOST:PORT or unix:PATH",
            }),
        }
    }
}

impl Target {
    /// Do all its addresses belong to this machine alone?
    ///
    /// # Errors
    /// When its name cannot be resolved.
    pub fn is_loopback(&self) -> io::Result<bool> {
        match self {
            Self::Tcp(address) => Ok(address.to_socket_addrs()?.all(|address| address.ip().is_loopback())),
            Self::Unix(_) => Ok(true),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Distribution of requests over time. The mean rate is the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Fixed,
    /// A two-state Markov-modulated Poisson process: bursts and the time between them, both of exponential length.
    /// With `factor * fraction` = 1 nothing arrives between bursts (on/off).
    Bursty {
        /// Rate within a burst over the mean rate, above 1.
        factor: f64,
        /// Share of the time spent in bursts, between 0 and 1.
        fraction: f64,
        /// Mean length of a burst, ns.
        burst_ns: u64,
    },
}

/// One run of the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// The server.
    pub target: Target,
    /// The protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// The path that HTTP gets.
    #[serde(default = "root")]
    pub path: String,
    /// Mean requests per second.
    pub rate: f64,
    /// Spread of the requests over time.
    pub arrivals: Arrivals,
    /// Length of the measured part, ns.
    pub duration_ns: u64,
    /// Length of the part before it that is sent and not counted, ns.
    pub warmup_ns: u64,
    /// Longest wait for the last answers, ns.
    pub drain_ns: u64,
    /// Connections, used in turn.
    pub connections: u32,
    /// Share of requests that are `set`; the rest are `get`.
    pub set_ratio: f64,
    /// Number of different keys, all equally likely.
    pub keys: u32,
    /// Bytes in every value.
    pub value_bytes: u32,
    /// Store every key before the run, so that a `get` finds something.
    pub preload: bool,
    /// Leave the keys on the server; otherwise they are deleted at the end.
    #[serde(default)]
    pub keep_keys: bool,
    /// Fixes the whole schedule.
    pub seed: u64,
    /// Run the generator's thread as SCHED_FIFO with this priority (1 to 99).
    pub realtime: Option<u8>,
}

fn root() -> String {
    "/".into()
}

impl Default for LoadSpec {
    /// 20,000 requests/s, Poisson, for 10 s to a memcached at its usual port.
    fn default() -> Self {
        Self {
            target: Target::Tcp("127.0.0.1:11211".into()),
            protocol: Protocol::default(),
            path: root(),
            rate: 20_000.0,
            arrivals: Arrivals::Poisson,
            duration_ns: 10_000_000_000,
            warmup_ns: 1_000_000_000,
            drain_ns: 2_000_000_000,
            connections: 8,
            set_ratio: 0.1,
            keys: 10_000,
            value_bytes: 100,
            preload: true,
            keep_keys: false,
            seed: 1,
            realtime: None,
        }
    }
}

impl LoadSpec {
    /// Refuses impossible specifications.
    ///
    /// # Errors
    /// [`Error::Spec`] for the first field at fault.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, problem, fix| Err(Error::Spec { field, problem, fix });
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return refuse("rate", format!("{} requests/s", self.rate), "give a number above 0");
        }
        if self.duration_ns < 1_000_000 {
            return refuse("duration", "shorter than a millisecond".into(), "give some seconds");
        }
        let planned = self.rate * (self.duration_ns + self.warmup_ns) as f64 / 1e9;
        if planned > MAX_REQUESTS as f64 {
            return refuse(
                "rate",
                format!("{planned:.0} requests in one run, the limit is {MAX_REQUESTS}"),
                "lower the rate or shorten the run",
            );
        }
        if !(1..=10_000).contains(&self.connections) {
            return refuse("connections", self.connections.to_string(), "give 1 to 10000");
        }
        if !(0.0..=1.0).contains(&self.set_ratio) {
            return refuse("set ratio", self.set_ratio.to_string(), "give a share between 0 and 1");
        }
        if !(1..=MAX_KEYS).contains(&self.keys) {
            return refuse("keys", self.keys.to_string(), "give 1 to 2147483648");
        }
        if !(1..=MAX_VALUE_BYTES).contains(&self.value_bytes) {
            return refuse("value size", format!("{} bytes", self.value_bytes), "give 1 to 1048576");
        }
        if self.realtime.is_some_and(|p| !(1..=99).contains(&p)) {
            return refuse("realtime", "no such priority".into(), "give a priority from 1 to 99");
        }
        if self.protocol == Protocol::Http {
            if self.set_ratio > 0.0 {
                return refuse("set ratio", "HTTP is loaded with GETs alone".into(), "leave it out");
            }
            if !self.path.starts_with('/') || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
                return refuse("path", format!("`{}`", self.path), "begin with / and percent-encode what is no ASCII");
            }
        }
        let fix = "lower the rate or shorten the run";
        memory::check(Path::new("/proc"), "rate", planned as u64 * BYTES_PER_REQUEST, fix)?;
        self.arrivals.check()
    }

    /// Are keys stored before the run?
    #[must_use]
    pub fn stores_keys(&self) -> bool {
        self.preload && self.protocol != Protocol::Http
    }

    /// Are keys written at all?
    #[must_use]
    pub fn writes_keys(&self) -> bool {
        self.stores_keys() || (self.set_ratio > 0.0 && self.protocol != Protocol::Http)
    }
}

impl Arrivals {
    fn check(self) -> Result<()> {
        let Self::Bursty { factor, fraction, burst_ns } = self else {
            return Ok(());
        };
        let problem = if !(factor.is_finite() && factor > 1.0) {
            format!("a burst of {factor} times the mean rate")
        } else if !(fraction > 0.0 && fraction < 1.0) {
            format!("{fraction} of the time in bursts")
        } else if factor * fraction > 1.0 + 1e-9 {
            format!("bursts of {factor} times the mean rate for {fraction} of the time exceed the mean")
        } else if burst_ns == 0 {
            "bursts without length".into()
        } else {
            return Ok(());
        };
        Err(Error::Spec {
            field: "arrivals",
            problem,
            fix: "give a factor above 1, a fraction between 0 and 1, their product at most 1, and a burst length",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written_back() {
        for (text, target) in [
            ("127.0.0.1:11211", Target::Tcp("127.0.0.1:11211".into())),
            ("[::1]:80", Target::Tcp("[::1]:80".into())),
            ("unix:/run/m.sock", Target::Unix("/run/m.sock".into())),
        ] {
            assert_eq!(text.parse::<Target>().unwrap(), target);
            assert_eq!(target.to_string(), text);
        }
        assert_eq!("/run/m".parse::<Target>().unwrap(), Target::Unix("/run/m".into()));
        for bad in ["localhost", ":80", "host:http", "host:70000", ""] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn impossible_loads_are_refused_with_their_field() {
        let refused = |change: fn(&mut LoadSpec), field: &str| {
            let mut spec = LoadSpec::default();
            assert!(spec.check().is_ok());
            change(&mut spec);
            let text = spec.check().unwrap_err().to_string();
            assert!(text.starts_with(field), "{text}");
        };
        refused(|s| s.rate = 0.0, "rate");
        refused(|s| s.rate = f64::NAN, "rate");
        refused(|s| s.rate = 1e9, "rate");
        refused(|s| s.duration_ns = 0, "duration");
        refused(|s| s.connections = 0, "connections");
        refused(|s| s.set_ratio = 1.1, "set ratio");
        refused(|s| s.keys = 0, "keys");
        refused(|s| s.value_bytes = 0, "value size");
        refused(|s| s.realtime = Some(0), "realtime");
        refused(|s| s.protocol = Protocol::Http, "set ratio");
        refused(|s| (s.protocol, s.set_ratio, s.path) = (Protocol::Http, 0.0, "a b".into()), "path");
        let bursts =
            |s: &mut LoadSpec, factor, fraction, burst_ns| s.arrivals = Arrivals::Bursty { factor, fraction, burst_ns };
        let mut spec = LoadSpec::default();
        bursts(&mut spec, 4.0, 0.25, 1);
        assert!(spec.check().is_ok());
        for (factor, fraction, length) in
            [(1.0, 0.1, 1), (2.0, 0.0, 1), (2.0, 0.9, 1), (2.0, 0.5, 0), (f64::INFINITY, 0.1, 1)]
        {
            bursts(&mut spec, factor, fraction, length);
            assert!(spec.check().is_err(), "{factor} {fraction} {length}");
        }
    }
}
