//! Inputs that a text does not give. `quell-lab paper --bands` runs each experiment with others: a process of its own for each
//! set of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use quell_model::Nanos;

static VARIED: OnceLock<BTreeMap<String, f64>> = OnceLock::new();

/// The inputs that can be varied, by topic and name as in `papers/TOPIC/assumptions.toml`, with the value that the experiments
/// have.
pub const ASSUMED: [(&str, f64); 59] = [
    ("caladan.outside", 10.0),
    ("caladan.ksched", 2.0),
    ("caladan.idle-exit", 1.0),
    ("caladan.stack", 0.19),
    ("caladan.forward", 0.2),
    ("caladan.forward-memory", 0.5),
    ("caladan.fig8b-threads", 2.0),
    ("caladan.network", 8.0),
    ("caladan.device", 10.0),
    ("caladan.collection", 150.0),
    ("caladan.between", 1500.0),
    ("caladan.parties-target", 100.0),
    ("caladan.memory", 33.0),
    ("caladan.memory-latency", 72.0),
    ("caladan.streaml2-suffers", 1.0),
    ("caladan.streaml2-takes", 0.8),
    ("caladan.switch", 0.05),
    ("caladan.steal", 0.1),
    ("caladan.park", 0.5),
    ("dasec.masstree-service", 1800.0),
    ("dasec.img-dnn-service", 4900.0),
    ("dasec.memcached-service", 185.0),
    ("dasec.silo-service", 750.0),
    ("dasec.spread", 0.5),
    ("dasec.main-share", 0.3),
    ("dasec.pieces", 2.0),
    ("dasec.lock-share", 0.15),
    ("dasec.clients", 16.0),
    ("dasec.ai-cpu", 80.0),
    ("dasec.ai-gpu", 10.0),
    ("dasec.matrix-piece", 5.0),
    ("dasec.parties-target", 2.0),
    ("dasec.bvt-warp", 5.0),
    ("edgeiso.detection-gpu", 80.0),
    ("edgeiso.detection-moves", 20.0),
    ("edgeiso.detection-load", 20.0),
    ("edgeiso.detection-submit", 8.0),
    ("edgeiso.detection-object", 0.5),
    ("edgeiso.detection-slo", 150.0),
    ("edgeiso.data-gpu", 40.0),
    ("edgeiso.data-moves", 20.0),
    ("edgeiso.data-cpu", 10.0),
    ("edgeiso.xapian-service", 2.0),
    ("edgeiso.tailbench-spread", 0.5),
    ("sdc.memcached-service", 20.0),
    ("sdc.think", 50.0),
    ("sdc.weight", 2.0),
    ("sdc.high-load", 0.9),
    ("sdc.bandwidth", 47.0),
    ("sdc.memory-latency", 70.0),
    ("sdc.dynamic-rate", 60.0),
    ("sdc.full-power", 4.0),
    ("rkube.barrier-spin", 100.0),
    ("rkube.trace-load", 0.5),
    ("his.apache-service", 500.0),
    ("his.apache-load", 0.5),
    ("his.tailbench-spread", 1.0),
    ("his.heracles-peak", 0.7),
    ("his.memory-latency", 72.0),
];

/// From now on these inputs have these values, in all of this process. Once, before anything runs.
///
/// # Errors
/// The name of one that cannot be varied; or that it was done before.
pub fn vary(values: BTreeMap<String, f64>) -> Result<(), String> {
    if let Some(unknown) = values.keys().find(|name| ASSUMED.iter().all(|(known, _)| known != name)) {
        return Err(unknown.clone());
    }
    VARIED.set(values).map_err(|_| "inputs were varied before".to_owned())
}

/// An input's value.
///
/// # Panics
/// If it is none of [`ASSUMED`]: a mistake in an experiment.
#[must_use]
pub fn assumed(name: &str) -> f64 {
    let usual = || ASSUMED.iter().find(|(known, _)| *known == name).expect("an input of the table").1;
    varied(name).unwrap_or_else(usual)
}

/// The value that an input was varied to; None: it was not.
#[must_use]
pub fn varied(name: &str) -> Option<f64> {
    VARIED.get()?.get(name).copied()
}

/// A time that is given in µs.
#[must_use]
pub fn micros(name: &str) -> Nanos {
    Nanos((assumed(name) * 1e3).round() as u64)
}
