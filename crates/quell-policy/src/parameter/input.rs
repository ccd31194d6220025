//! A value in the form of a file or of the command line.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A value that is no table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    Flag(bool),
    Integer(i128),
    Float(f64),
    Text(String),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Flag(flag) => write!(f, "{flag}"),
            Input::Integer(number) => write!(f, "{number}"),
            Input::Float(number) => write!(f, "{number}"),
            Input::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Input, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Input;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("one value")
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Input, E> {
                Ok(Input::Flag(flag))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Input, E> {
                Ok(Input::Integer(number.into()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Input, E> {
                Ok(Input::Integer(number.into()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Input, E> {
                Ok(Input::Float(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Input, E> {
                Ok(Input::Text(text.to_owned()))
            }
        }
        from.deserialize_any(Any)
    }
}
