//! Parameters of policies as data: declared once (`parameters!`), from which follow the type that a policy reads, its
//! defaults, refusals with reasons, and the tables that `quell doctor POLICY` and docs/reference/policies.md show.

mod declare;
mod input;
mod value;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

pub(crate) use declare::parameters;
pub(crate) use input::Input;
pub(crate) use value::{Limits, Scalar, choices, declared, limits, read};

/// Kind of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A time with its unit.
    Duration,
    /// A whole number.
    Count,
    /// Any number.
    Number,
    /// A number from 0 to 1.
    Share,
    /// Bytes per second: a number, or a text with a unit such as `25GB/s`.
    BytesPerSecond,
    /// true or false.
    Flag,
    /// One of several words.
    Choice,
    /// A table whose keys are names, with parameters below each.
    Tables,
}

impl Kind {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Duration => "time",
            Kind::Count => "count",
            Kind::Number => "number",
            Kind::Share => "share",
            Kind::BytesPerSecond => "bytes/s",
            Kind::Flag => "flag",
            Kind::Choice => "choice",
            Kind::Tables => "tables",
        }
    }
}

/// A parameter of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its key; of a table within tables with the keys above it, as in `tasks.NAME.thresh_qd`.
    pub name: String,
    /// Kind of its value.
    pub kind: Kind,
    /// The unit of a number, where the kind does not imply it.
    pub unit: Option<&'static str>,
    /// Its default, in the configuration's form; None: not set.
    pub default: Option<String>,
    /// The lowest and the highest value.
    pub range: Option<(String, String)>,
    /// The words of a choice.
    pub choices: Vec<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
}

impl Parameter {
    /// The accepted values, for people: the range, the words, or the kind's.
    #[must_use]
    pub fn allowed(&self) -> String {
        let unit = self.unit.map_or(String::new(), |unit| format!(" {unit}"));
        match (&self.range, self.kind) {
            (Some((low, high)), _) => format!("{low} to {high}{unit}"),
            (None, Kind::Flag) => "true, false".into(),
            (None, Kind::Choice) => self.choices.join(", "),
            (None, _) => String::new(),
        }
    }

    /// The default for people.
    #[must_use]
    pub fn default_text(&self) -> &str {
        self.default.as_deref().unwrap_or("not set")
    }
}

/// A type that `parameters!` declared.
pub(crate) trait Parameters: Default {
    /// Their names in the order of their declaration.
    const NAMES: &'static [&'static str];

    /// All parameters, as data.
    fn table() -> Vec<Parameter>;

    /// Reads the value of one of [`Self::NAMES`].
    fn read<'de, D: Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error>;

    /// A contradiction between the values, and the fix.
    fn check(&self) -> Result<(), String>;
}

/// Reads parameters as people write them: an omitted one has its default; one that is unknown, has no unit, or is out
/// of range is refused. (Records, which Quell itself has written, are read by the types' own `Deserialize`.)
pub(crate) struct Strict<T>(pub PhantomData<T>);

impl<'de, T: Parameters> DeserializeSeed<'de> for Strict<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T: Parameters> Visitor<'de> for Strict<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a table of parameters, such as { interval = \"20ms\" }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut config = T::default();
        while let Some(name) = map.next_key_seed(Name(T::NAMES))? {
            map.next_value_seed(Value { config: &mut config, name })?;
        }
        config.check().map_err(A::Error::custom)?;
        Ok(config)
    }
}

/// One of these names.
struct Name(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<&'static str, D::Error> {
        let given = String::deserialize(from)?;
        self.0.iter().find(|name| **name == given).copied().ok_or_else(|| {
            let known =
                if self.0.is_empty() { "it has none".into() } else { format!("there are: {}", self.0.join(", ")) };
            D::Error::custom(format!("there is no parameter '{given}'; {known}{}", did_you_mean(&given, self.0)))
        })
    }
}

/// `; did you mean 'interval'?`, if one of the names is like it.
pub(crate) fn did_you_mean(given: &str, names: &[&str]) -> String {
    quell_model::suggest::hint(&given.replace('-', "_"), names)
}

struct Value<'a, T> {
    config: &'a mut T,
    name: &'static str,
}

impl<'de, T: Parameters> DeserializeSeed<'de> for Value<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.config.read(self.name, from)
    }
}
