//! Reads a machine: a name, or a shape, whose mistakes are reported as such (an untagged enum would not say what is wrong).

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use quell_model::Scheduler;

use super::{MachineSpec, Shape};

/// A machine that is written as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    preset: Option<String>,
    sockets: Option<u32>,
    llcs: Option<u32>,
    cores: Option<u32>,
    threads: Option<u32>,
    #[serde(default)]
    scheduler: Scheduler,
}

impl Table {
    fn machine<E: serde::de::Error>(self) -> Result<MachineSpec, E> {
        let Table { preset, sockets, llcs, cores, threads, scheduler } = self;
        let has_shape = [sockets, llcs, cores, threads].iter().any(Option::is_some);
        match (preset, cores) {
            (Some(_), _) if has_shape => {
                Err(E::custom("a preset has its own shape: take sockets, llcs, cores and threads out"))
            }
            (Some(preset), _) => Ok(MachineSpec::Preset { preset, scheduler }),
            (None, None) => Err(E::missing_field("cores")),
            (None, Some(cores)) => {
                let [sockets, llcs, threads] = [sockets, llcs, threads].map(|count| count.unwrap_or(1));
                Ok(MachineSpec::Shape(Shape { sockets, llcs, cores, threads, scheduler }))
            }
        }
    }
}

impl<'de> Deserialize<'de> for MachineSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MachineSpec, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = MachineSpec;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a machine's name, or a shape such as { cores = 4 }")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<MachineSpec, E> {
                Ok(MachineSpec::Named(name.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MachineSpec, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map))?.machine()
            }
        }
        deserializer.deserialize_any(Either)
    }
}
