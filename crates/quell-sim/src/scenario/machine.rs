//! Reads a machine: a name, or a shape, whose mistakes are told as such (an untagged enum would not say what is wrong).

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{MachineSpec, Shape};

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
                Shape::deserialize(MapAccessDeserializer::new(map)).map(MachineSpec::Shape)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
