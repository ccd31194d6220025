//! How good the counters are that policies see.

use std::fmt;

use quell_model::Nanos;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// One counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Meter {
    /// It is refreshed so often; zero: at every look.
    pub every: Nanos,
    /// What is seen was so a while ago.
    pub late: Nanos,
    /// After a change it takes this long until 95 % of it show; zero: at once.
    pub settles: Nanos,
    /// Standard deviation of a look, as part of the value.
    pub noise: f64,
}

/// All of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Meters {
    /// The machine's memory bandwidth.
    pub bus: Meter,
    /// Each workload's memory bandwidth.
    pub bandwidth: Meter,
    /// Each workload's LLC hit ratio.
    pub llc: Meter,
    /// Each workload's instructions.
    pub instructions: Meter,
    /// LLC misses of CPUs, sampled on request.
    pub misses: Meter,
    /// How slow memory is.
    pub slowdown: Meter,
    /// Is there no counter, so that the slowdown is all that is known?
    pub only_slowdown: bool,
}

/// What policies may learn of caches and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredOfMemory {
    /// Nothing: contention is not modelled.
    Nothing,
    /// How slow memory is, and no more: a virtual machine without counters.
    Slowdown,
    /// All.
    Everything,
}

/// The table, before it is one of the presets.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Table {
    bus: Meter,
    bandwidth: Meter,
    llc: Meter,
    instructions: Meter,
    misses: Meter,
    slowdown: Meter,
    only_slowdown: bool,
}

const fn meter(late: Nanos, settles: Nanos, noise: f64) -> Meter {
    Meter { every: Nanos::ZERO, late, settles, noise }
}

/// The memory controllers' counters and each core's performance counters, read by the kernel, other cores' by an
/// interrupt (caladan-osdi20 §5.2.2, §5.3; 2 µs for it and all noise are assumed).
const COUNTERS: Meters = Meters {
    bus: meter(Nanos::ZERO, Nanos::ZERO, 0.01),
    bandwidth: meter(Nanos::ZERO, Nanos::ZERO, 0.02),
    llc: meter(Nanos::ZERO, Nanos::ZERO, 0.01),
    instructions: meter(Nanos::ZERO, Nanos::ZERO, 0.005),
    misses: meter(Nanos::from_micros(2), Nanos::ZERO, 0.01),
    slowdown: CANARY,
    only_slowdown: false,
};

/// A few accesses to memory are timed, each millisecond, and the median of five is reported. The noise is assumed: in quiet
/// runs of quell-linux's example `canary` on a virtual machine it is about that, in others twice as much.
const CANARY: Meter =
    Meter { every: Nanos::from_millis(1), late: Nanos::from_millis(2), settles: Nanos::ZERO, noise: 0.06 };

/// The names of presets, and what they are.
const PRESETS: &[(&str, Meters)] = &[
    ("exact", ALL_EXACT),
    ("counters", COUNTERS),
    ("canary", Meters { slowdown: CANARY, only_slowdown: true, ..ALL_EXACT }),
    // Per workload Intel's CMT and MBM in place of performance counters: "it takes 112 ms for its cache occupancy
    // measurement to stabilize", and MBM "requires milliseconds to accurately estimate memory bandwidth usage"
    // (caladan-osdi20 §3.2; 5 ms and all noise are assumed). What a policy concludes about its part of the cache is as
    // late as CMT here.
    (
        "cmt-mbm",
        Meters {
            bandwidth: meter(Nanos::ZERO, Nanos::from_millis(5), 0.05),
            llc: meter(Nanos::ZERO, Nanos::from_millis(112), 0.02),
            ..COUNTERS
        },
    ),
];

const EXACT: Meter = meter(Nanos::ZERO, Nanos::ZERO, 0.0);

const ALL_EXACT: Meters = Meters {
    bus: EXACT,
    bandwidth: EXACT,
    llc: EXACT,
    instructions: EXACT,
    misses: EXACT,
    slowdown: EXACT,
    only_slowdown: false,
};

impl Meters {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Meters> {
        PRESETS.iter().find(|(known, _)| *known == name).map(|&(_, meters)| meters)
    }

    /// What policies may learn where contention is modelled, or is not.
    #[must_use]
    pub fn measured(&self, is_modelled: bool) -> MeasuredOfMemory {
        match (is_modelled, self.only_slowdown) {
            (false, _) => MeasuredOfMemory::Nothing,
            (true, true) => MeasuredOfMemory::Slowdown,
            (true, false) => MeasuredOfMemory::Everything,
        }
    }

    /// What makes no sense, and the fix.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let all = [self.bus, self.bandwidth, self.llc, self.instructions, self.misses, self.slowdown];
        match all.iter().find(|meter| !(0.0..=1.0).contains(&meter.noise)) {
            Some(meter) => Err(format!("a counter's noise of {}: give 0 to 1", meter.noise)),
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Meters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Meters, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Meters;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a preset's name, or a table of counters")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Meters, E> {
                let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
                Meters::named(name).ok_or_else(|| {
                    E::custom(format!("there are no counters '{name}'; there are: {}", names.join(", ")))
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Meters, A::Error> {
                let Table { bus, bandwidth, llc, instructions, misses, slowdown, only_slowdown } =
                    Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Meters { bus, bandwidth, llc, instructions, misses, slowdown, only_slowdown })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_a_preset_or_a_table() {
        #[derive(Deserialize)]
        struct Holder {
            counters: Meters,
        }
        let read = |text: &str| {
            toml::from_str(&format!("counters = {text}"))
                .map(|holder: Holder| holder.counters)
                .map_err(|e| e.to_string())
        };
        assert_eq!(read("\"exact\""), Ok(Meters::default()));
        assert_eq!(read("\"cmt-mbm\"").unwrap().llc.settles, Nanos::from_millis(112));
        assert_eq!(read("{ bus = { late = \"1ms\" } }").unwrap().bus.late, Nanos::from_millis(1));
        assert!(read("\"good\"").unwrap_err().contains("cmt-mbm"));
        assert!(read("{ buss = {} }").unwrap_err().contains("unknown field"));
        for (name, meters) in PRESETS {
            assert_eq!((meters.check(), Meters::named(name)), (Ok(()), Some(*meters)));
        }
        assert!(read("{ bus = { noise = 2.0 } }").unwrap().check().is_err());
    }
}
