//! Results of others: a memcached beside an antagonist under Linux's own means and under published sched_ext
//! schedulers, all on the same kernel, in repeatable time.
//!
//! One *cell* is one boot: a scene, a peer, a number of CPUs, a seed. Its result is kept in the cache, so that an
//! interrupted comparison continues.

mod cell;
pub mod pool;
mod report;
mod scene;
mod schedulers;
mod summary;

pub use cell::{Bench, Cell};
pub use report::{CellResult, Served};
pub use scene::{Hog, SCENES, Scene, Server};
pub use schedulers::{SCHEDULERS, Scheduler};
pub use summary::{Spread, Summary, summarise};

use serde::Serialize;

/// One way to run the server and the antagonist beside each other.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Peer {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// A sched_ext scheduler that runs meanwhile.
    pub scheduler: Option<&'static str>,
    /// A policy under which Quell's agent manages both meanwhile, each in a cgroup.
    pub policy: Option<&'static str>,
    /// The policy's parameters, a table of TOML.
    #[serde(skip)]
    parameters: &'static str,
    /// Shell commands that prepare the guest.
    #[serde(skip)]
    prepare: &'static str,
    /// The cpu.weight of latency-critical and of best-effort programs, each of which has a cgroup then.
    #[serde(skip)]
    weights: &'static str,
    /// Words before the command of a latency-critical program.
    #[serde(skip)]
    lc: &'static str,
    /// Words before that of a best-effort one.
    #[serde(skip)]
    be: &'static str,
    /// Do the servers have the machine alone?
    #[serde(skip)]
    alone: bool,
}

const PLAIN: Peer = Peer {
    id: "equal",
    title: "EEVDF, equal",
    scheduler: None,
    policy: None,
    parameters: "{}",
    prepare: "",
    weights: "",
    lc: "",
    be: "",
    alone: false,
};

const GROUPED: Peer = Peer { weights: "100 100", ..PLAIN };

const PREEMPT_FULL: &str = "echo full >/sys/kernel/debug/sched/preempt";
/// Two layers: the servers' threads, which preempt, and all others.
const LAYERS: &str = r#"cat >/run/layers.json <<END
[{"name": "servers", "matches": [[{"CommPrefix": "memcached"}]],
  "kind": {"Open": {"preempt": true, "preempt_first": true, "exclusive": false, "min_exec_us": 0, "slice_us": 20000}}},
 {"name": "rest", "matches": [[]], "kind": {"Open": {"preempt": false, "min_exec_us": 0, "slice_us": 20000}}}]
END
OPTIONS=f:/run/layers.json"#;
const POLLS: &str = r#"AGENT='poll = "dedicated"'"#;

/// All peers, in the table's order. Server and antagonist run in one session, since autogroups compete as groups. The
/// kernel's own preemption mode is lazy.
pub const PEERS: [Peer; 24] = [
    Peer { id: "alone", title: "EEVDF, no antagonist", alone: true, ..PLAIN },
    Peer { id: "alone-grouped", title: "EEVDF, no antagonist, in a cgroup", alone: true, ..GROUPED },
    PLAIN,
    Peer { id: "idle", title: "EEVDF, antagonist SCHED_IDLE", be: "chrt -i 0", ..PLAIN },
    Peer { id: "weight", title: "EEVDF, cpu.weight 10000 : 1", weights: "10000 1", ..GROUPED },
    Peer { id: "cpuset", title: "EEVDF, server in an exclusive cpuset", prepare: "EXCLUSIVE=1", ..GROUPED },
    Peer { id: "full", title: "EEVDF, equal, preempt=full", prepare: PREEMPT_FULL, ..PLAIN },
    Peer {
        id: "full-idle",
        title: "EEVDF, antagonist SCHED_IDLE, preempt=full",
        prepare: PREEMPT_FULL,
        be: "chrt -i 0",
        ..PLAIN
    },
    Peer { id: "fifo", title: "server SCHED_FIFO", lc: "chrt -f 5", ..PLAIN },
    Peer { id: "fifo-grouped", title: "server SCHED_FIFO, both in cgroups", lc: "chrt -f 5", ..GROUPED },
    Peer { id: "guard", title: "Quell guard", policy: Some("guard"), ..GROUPED },
    Peer { id: "rkube", title: "Quell rkube, 1 CPU strict", policy: Some("rkube"), ..GROUPED },
    Peer {
        id: "rkube-partition",
        title: "Quell rkube, 1 CPU strict, a partition",
        policy: Some("rkube"),
        parameters: "{ partition = true }",
        ..GROUPED
    },
    Peer { id: "caladan", title: "Quell caladan", policy: Some("caladan"), ..GROUPED },
    Peer {
        id: "caladan-dedicated",
        title: "Quell caladan, polling on a CPU of its own",
        policy: Some("caladan"),
        prepare: POLLS,
        ..GROUPED
    },
    Peer {
        id: "caladan-sockets",
        title: "Quell caladan, unread data waits too",
        policy: Some("caladan"),
        parameters: "{ sockets = true }",
        ..GROUPED
    },
    Peer {
        id: "caladan-affinity",
        title: "Quell caladan on the kernel's scheduler",
        policy: Some("caladan"),
        prepare: r#"MACHINE='scheduler = "kernel"'"#,
        ..GROUPED
    },
    Peer { id: "shenango", title: "Quell shenango", policy: Some("shenango"), ..GROUPED },
    Peer {
        id: "shenango-dedicated",
        title: "Quell shenango, polling on a CPU of its own",
        policy: Some("shenango"),
        prepare: POLLS,
        ..GROUPED
    },
    Peer { id: "flash", title: "scx_flash, equal", scheduler: Some("scx_flash"), ..PLAIN },
    Peer { id: "cosmos", title: "scx_cosmos, equal", scheduler: Some("scx_cosmos"), ..PLAIN },
    Peer { id: "lavd", title: "scx_lavd, equal", scheduler: Some("scx_lavd"), ..PLAIN },
    Peer { id: "bpfland", title: "scx_bpfland, equal", scheduler: Some("scx_bpfland"), ..PLAIN },
    Peer {
        id: "layered",
        title: "scx_layered, the servers before the rest",
        scheduler: Some("scx_layered"),
        prepare: LAYERS,
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_names_of_their_own_and_known_schedulers() {
        for (i, peer) in PEERS.iter().enumerate() {
            assert!(PEERS[i + 1..].iter().all(|other| other.id != peer.id && other.title != peer.title), "{}", peer.id);
            let known = |name| SCHEDULERS.iter().any(|scheduler: &Scheduler| scheduler.name == name);
            assert!(peer.scheduler.is_none_or(known), "{}", peer.id);
        }
    }
}
