//! Version 1 of what the API says: plain data with units in the names. Fields are added, never changed.

mod control;
mod latency_page;
mod lease;
mod measured;
mod pods;
mod prove;
mod standing;
mod trial;
mod waited;

pub use control::{CONTROL_VERSION, Command, Control, Controlled, Off, Verified};
pub use latency_page::LatencyPage;
pub use lease::{Match, Process, Protect, Protected, Resize};
pub use measured::{Measured, Measurements, Of, OfMachine, OfWorkload, Quality};
pub use pods::{Kubernetes, Pod, PodContainer};
pub use prove::{Choice, Prove, Turn};
pub use standing::{NotReloaded, Overridden, Remark, RemarkKind, Stale};
pub use trial::{FoundBy, Judge, KnownBy, Resource, Then, Trial, TrialCounts, TrialVerdict, Windows};
pub use waited::{Attribution, AttributionState, Known, Waited, WaitedFor, WaitedLately};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything at a glance: `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The agent.
    pub agent: Agent,
    /// The host's monotonic clock at this snapshot, in nanoseconds.
    pub now_ns: u64,
    /// Turns of the loop since the start.
    pub turns: u64,
    /// The policies, first to last; what one leaves of its CPUs is the next one's pool.
    pub layers: Vec<Layer>,
    /// The workloads, in the order in which they attached.
    pub workloads: Vec<Workload>,
    /// Every workload of the configuration, attached or not, in its order; then the leased ones.
    #[serde(default)]
    pub configured: Vec<Configured>,
    /// The CPUs in ascending order.
    pub cpus: Vec<Cpu>,
    /// The node's pods; null: the configuration has no `[kubernetes]`.
    #[serde(default)]
    pub kubernetes: Option<Kubernetes>,
    /// What is measured of the machine.
    #[serde(flatten)]
    pub measured: Measurements<OfMachine>,
    /// The last decisions about any workload, newest first.
    pub decisions: Vec<Decision>,
    /// Decisions that are not in any list because they came faster than they could be read.
    pub decisions_lost: u64,
}

impl Status {
    /// The workloads of the configuration that are not attached.
    pub fn absent(&self) -> impl Iterator<Item = &Configured> {
        let attached = |name: &str| self.workloads.iter().any(|workload| workload.name == name);
        self.configured.iter().filter(move |configured| !attached(&configured.name))
    }
}

/// The agent itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Quell's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// `run`, `dry-run` or `shadow`.
    pub mode: String,
    /// The name of the host that it drives.
    pub host: String,
    /// What the policies do less well here and why, one line each.
    pub limits: Vec<String>,
    /// What is asked for of workloads and nothing acts on, one line each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// What is worth knowing and needs no action, one line each.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Cgroups with the cpu controller for which Quell's scheduler has no place: the strictest limit among those below one cgroup
    /// is that cgroup's.
    #[serde(default)]
    pub unplaced_cgroups: u64,
    /// It is switched off: everything is put back, and it observes; null: it is at work.
    #[serde(default)]
    pub off: Option<Off>,
    /// The configuration that it was to read again and refused; null: the last one was taken.
    #[serde(default)]
    pub not_reloaded: Option<NotReloaded>,
    /// It cannot read the machine: what it shows is old; null: it can.
    #[serde(default)]
    pub stale: Option<Stale>,
    /// Why Quell's scheduler is off, though a policy asks for it.
    #[serde(default)]
    pub degraded: Option<String>,
    /// What the agent still does before it works as configured, and for how long so far.
    #[serde(default)]
    pub starting: Option<String>,
    /// How it finds out what workloads wait for; null: it does not.
    #[serde(default)]
    pub attribution: Option<Attribution>,
    /// CPU time that its process used, in seconds.
    pub cpu_seconds: f64,
    /// Its resident memory, in bytes.
    pub resident_bytes: u64,
    /// The recording under way.
    pub recording: Option<Recording>,
}

/// A recording under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Where it goes.
    pub file: String,
    /// Turns in it.
    pub turns: u64,
    /// Turns that are missing because the disk was too slow; replay goes on after each gap.
    pub lost: u64,
    /// Why it ended, if it did.
    pub failed: Option<String>,
}

/// One policy of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// The policy.
    pub policy: String,
    /// The workloads that it owns; null: all.
    pub workloads: Option<Vec<String>>,
    /// The CPUs that it may use, as the kernel writes lists (`0-3,8`).
    pub pool: String,
    /// Steps since the start.
    pub steps: u64,
    /// Knob settings asked for since the start.
    pub knobs: u64,
    /// CPUs granted and revoked since the start.
    pub grants: u64,
    /// Rules, samples and solo runs asked for since the start.
    pub others: u64,
    /// Commands that the host refused since the start.
    pub refused: u64,
    /// Trials of knobs that ended since the start.
    #[serde(default)]
    pub trials: TrialCounts,
}

/// Latency-critical or best-effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Latency-critical.
    Lc,
    /// Best-effort.
    Be,
}

/// The latency that a workload has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// Between 0 and 1, such as 0.99.
    pub quantile: f64,
    /// The latency that the quantile must not exceed, in nanoseconds.
    pub bound_ns: u64,
}

/// Where a workload of the configuration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing has matched its selectors yet.
    Waiting,
    /// It is managed.
    Attached,
    /// It was there, and all its processes ended; it is managed again when one comes back.
    Exited,
    /// It was there; its processes run on, and are not the workload's any more: with another user, command line, program or
    /// cgroup. What was set on them has been put back.
    Departed,
    /// Another process keeps changing what Quell sets on it: Quell backs off for a while.
    BackedOff,
    /// It is there, and the host would not attach it.
    Refused,
}

impl State {
    /// In one word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Attached => "attached",
            State::Exited => "exited",
            State::Departed => "departed",
            State::BackedOff => "backed off",
            State::Refused => "refused",
        }
    }
}

/// A workload of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configured {
    /// Its name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// CPUs requested.
    pub cpus_requested: f64,
    /// Where it stands.
    pub state: State,
    /// Since when, on the host's monotonic clock, in nanoseconds.
    pub since_ns: u64,
    /// Its threads; null while it is not attached.
    pub threads: Option<u32>,
    /// Its selectors, in words.
    pub selectors: Vec<String>,
    /// The caller that leased it, as `root (process 4711)`: it ends with that. Null: it stands in the configuration.
    #[serde(default)]
    pub leased_by: Option<String>,
    /// Its own histogram, from which its latency is read; null: that is posted, or not known.
    #[serde(default)]
    pub latency: Option<LatencyPage>,
    /// Why it is not attached, with the fix; null while it is.
    pub why: Option<String>,
    /// The latest processes that left it and run on: why, and the line of the configuration that keeps them.
    #[serde(default)]
    pub departed: Vec<String>,
    /// What another program changed of Quell's settings; null: all stand.
    #[serde(default)]
    pub overridden: Option<Overridden>,
    /// Facts beside its state.
    #[serde(default)]
    pub remarks: Vec<Remark>,
}

impl Configured {
    /// As a workload of which nothing has been measured, and on which nothing is set.
    #[must_use]
    pub fn unmeasured(&self) -> Workload {
        Workload {
            name: self.name.clone(),
            class: self.class,
            policies: Vec::new(),
            cpus_requested: self.cpus_requested,
            cpus_limit: None,
            cpus_used: None,
            cpus_granted: None,
            cpus_granted_count: None,
            threads: None,
            threads_waiting: None,
            slo: None,
            slo_met: None,
            slo_ratio: None,
            demotions: 0,
            demotions_last_minute: 0,
            refused: None,
            budgets_exhausted: 0,
            longest_overrun_ns: 0,
            cpus_exclusive: None,
            waited: None,
            measured: Measurements::default(),
            knobs: Vec::new(),
        }
    }
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// The policies that own it, first to last.
    pub policies: Vec<String>,
    /// CPUs requested.
    pub cpus_requested: f64,
    /// At most this many CPUs; null: no limit.
    pub cpus_limit: Option<f64>,
    /// CPUs that it got, as CPU time per time over the last second or so.
    pub cpus_used: Option<Measured>,
    /// CPUs that are granted to it or that its threads are kept on, as the kernel writes lists; null: any.
    pub cpus_granted: Option<String>,
    /// How many CPUs those are; null: any.
    pub cpus_granted_count: Option<u32>,
    /// Number of threads.
    pub threads: Option<Measured>,
    /// Threads that were runnable without running, on average over the last second or so.
    pub threads_waiting: Option<Measured>,
    /// The latency to keep.
    pub slo: Option<Slo>,
    /// Is it met? Null while the latency is not known.
    pub slo_met: Option<bool>,
    /// The latency as a multiple of the latency to keep; above 1 the SLO is missed.
    #[serde(default)]
    pub slo_ratio: Option<f64>,
    /// How often it or one of its threads was demoted (by `guard`) since the agent started.
    #[serde(default)]
    pub demotions: u64,
    /// How many of those were in the last minute.
    #[serde(default)]
    pub demotions_last_minute: u64,
    /// Why the host refused the last settings that a policy asked for; null: it took them.
    #[serde(default)]
    pub refused: Option<String>,
    /// Periods in which a budget of its servers was used up while threads wanted to run, since it attached.
    #[serde(default)]
    pub budgets_exhausted: u64,
    /// The longest time that a server of it ran beyond its budget, in nanoseconds.
    #[serde(default)]
    pub longest_overrun_ns: u64,
    /// Does nothing else run on the CPUs that it alone is kept on? False: unmanaged work may. Null: it has none of its own,
    /// or is best-effort.
    #[serde(default)]
    pub cpus_exclusive: Option<bool>,
    /// What it waited for while it could run; null: not measured.
    #[serde(default)]
    pub waited: Option<Waited>,
    /// What is measured of it and, summed, of its threads.
    #[serde(flatten)]
    pub measured: Measurements<OfWorkload>,
    /// What is set on it and stands. Where another program changed it: what stands instead.
    pub knobs: Vec<String>,
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuState {
    /// Something runs there.
    Busy,
    /// Nothing runs there.
    Idle,
    /// A sibling ban parks it.
    Banned,
    /// A thread of a higher scheduling class, a real-time one, runs there.
    RealTime,
    /// It is offline.
    Offline,
    /// The kernel keeps it free of what does not ask for it (`isolcpus=`, `nohz_full=`, an isolated partition), and no workload has it.
    Isolated,
    /// Not measured.
    Unknown,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Its physical core.
    pub core: u32,
    /// What it does.
    pub state: CpuState,
    /// The workload that runs there or has it.
    pub workload: Option<String>,
}

/// What a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionKind {
    /// Why something was decided.
    Reason,
    /// Something that the user should fix.
    Warning,
    /// Something that was asked for and is not done.
    Refused,
    /// A knob was set.
    Knob,
    /// A CPU was granted or revoked.
    Grant,
    /// A standing order to the host.
    Rule,
    /// A solo run was asked for or ended.
    Solo,
    /// A knob was tried against contention, or its effect was judged.
    Trial,
}

/// One decision, or several equal ones in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// When, on the host's monotonic clock, in nanoseconds; of several equal ones, the last.
    pub at_ns: u64,
    /// How many equal decisions in a row this stands for.
    pub times: u64,
    /// When the first of them was made.
    pub since_ns: u64,
    /// The policy that decided.
    pub policy: String,
    /// The plan that it stands in.
    pub plan: u64,
    /// The workload that it concerns; null: the machine.
    pub workload: Option<String>,
    /// What it is.
    pub kind: DecisionKind,
    /// In words.
    pub text: String,
    /// What was measured of the workload at that moment.
    pub observed: Observed,
    /// The trial, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// What was measured of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observed {
    /// How long the oldest waiting item had waited, in nanoseconds.
    pub queueing_delay_ns: Option<u64>,
    /// The SLO's quantile of latency, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// CPUs that it got since the decision before, as CPU time per time.
    pub cpus_used: Option<f64>,
    /// Threads that were runnable without running since the decision before, on average.
    pub threads_waiting: Option<f64>,
    /// Number of threads.
    pub threads: Option<u32>,
}

/// A thread that is managed: `GET /v1/threads/{tid}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Its start, in clock ticks since the machine's.
    pub start: u64,
    /// The workload that it belongs to.
    pub workload: String,
}

/// The last decisions about a workload: `GET /v1/why/{workload}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The host's monotonic clock, in nanoseconds.
    pub now_ns: u64,
    /// The workload as it is now; null: it is not attached.
    pub workload: Option<Workload>,
    /// Where it stands; null: the configuration does not name it.
    #[serde(default)]
    pub configured: Option<Configured>,
    /// Why Quell's scheduler is off, though a policy asks for it.
    #[serde(default)]
    pub degraded: Option<String>,
    /// Its last decisions, newest first.
    pub decisions: Vec<Decision>,
    /// Decisions that are missing because they came faster than they could be read.
    pub decisions_lost: u64,
}

/// What a policy is: `GET /v1/policies`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Its name in configurations.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// Where it is published.
    pub source: String,
    /// How often it decides, in nanoseconds; zero: when something changes.
    pub interval_ns: u64,
    /// The signals that it reads.
    pub signals: Vec<String>,
    /// The knobs that it sets.
    pub knobs: Vec<String>,
    /// The rules that it hands to the host.
    pub rules: Vec<String>,
    /// Does it grant single CPUs?
    pub grants: bool,
    /// Is it in the agent's stack?
    pub active: bool,
}

/// A latency histogram that a client measured: `POST /v1/histogram`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// The workload's name.
    pub workload: String,
    /// The span that it describes, in nanoseconds.
    pub window_ns: u64,
    /// When the span ended, on CLOCK_MONOTONIC, in nanoseconds; left out: now.
    #[serde(default)]
    pub ended_ns: Option<u64>,
    /// Pairs of a latency in nanoseconds (a bucket's upper end) and how many requests had it; in any order.
    pub buckets: Vec<(u64, u64)>,
}

/// What became of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// The workload's SLO quantile, or 0.99 where it has no SLO.
    pub quantile: f64,
    /// That quantile of the histogram, in nanoseconds.
    pub latency_ns: u64,
    /// Requests in the histogram.
    pub requests: u64,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub fix: String,
}
