//! The types that parameters have: how each is read, and how it is shown.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use quell_model::{BytesPerSecond, Nanos};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::input::Input;
use super::{Kind, Parameter, Parameters, Strict};

/// The range of a type's values; None: it has none.
pub(crate) type Limits<T> = Option<RangeInclusive<<T as ParameterValue>::Bound>>;

/// `Some(range)`, or None without one.
macro_rules! limits {
    () => {
        None
    };
    ($range:expr) => {
        Some($range)
    };
}
pub(crate) use limits;

/// A type that a parameter can have.
pub(crate) trait ParameterValue: Sized {
    /// Type of its range's ends.
    type Bound: Scalar;

    /// Its kind and its words.
    fn kind(limits: &Limits<Self>) -> (Kind, Vec<&'static str>);

    /// In the configuration's form; None: not set.
    fn text(&self) -> Option<String>;

    /// Reads it; `name` is for messages.
    fn read<'de, D: Deserializer<'de>>(name: &str, limits: Limits<Self>, from: D) -> Result<Self, D::Error>;

    /// The parameters below it, if it is tables.
    fn below() -> Vec<Parameter> {
        Vec::new()
    }
}

/// A single value.
pub(crate) trait Scalar: Sized + PartialOrd + fmt::Debug {
    /// Its kind, within this range.
    fn kind_of(limits: Option<&RangeInclusive<Self>>) -> Kind;

    /// In the configuration's form, without quotes.
    fn show(&self) -> String;

    /// Reads it.
    ///
    /// # Errors
    /// The expected form.
    fn parse(input: &Input) -> Result<Self, String>;

    /// The words, if there are only some.
    const WORDS: &'static [&'static str] = &[];
}

/// Adds one parameter, and those below it, to a table.
pub(crate) fn declared<T: ParameterValue>(
    name: &str,
    default: &T,
    limits: Limits<T>,
    unit: Option<&'static str>,
    meaning: &'static str,
    table: &mut Vec<Parameter>,
) {
    let (kind, choices) = T::kind(&limits);
    let range = limits.map(|range| (range.start().show(), range.end().show()));
    table.push(Parameter { name: name.to_owned(), kind, unit, default: default.text(), range, choices, meaning });
    table
        .extend(T::below().into_iter().map(|below| Parameter { name: format!("{name}.NAME.{}", below.name), ..below }));
}

/// Reads one parameter.
pub(crate) fn read<'de, T: ParameterValue, D: Deserializer<'de>>(
    name: &str,
    limits: Limits<T>,
    from: D,
) -> Result<T, D::Error> {
    T::read(name, limits, from)
}

impl<T: Scalar> ParameterValue for T {
    type Bound = T;

    fn kind(limits: &Limits<T>) -> (Kind, Vec<&'static str>) {
        (T::kind_of(limits.as_ref()), T::WORDS.to_vec())
    }

    fn text(&self) -> Option<String> {
        Some(self.show())
    }

    fn read<'de, D: Deserializer<'de>>(name: &str, limits: Limits<T>, from: D) -> Result<T, D::Error> {
        let input = Input::deserialize(from)?;
        let bad = |why: String| D::Error::custom(format!("{name} = {input}: {why}"));
        let allowed = |range: &RangeInclusive<T>| format!("give {} to {}", range.start().show(), range.end().show());
        let value = T::parse(&input).map_err(|why| match &limits {
            Some(range) => bad(format!("{why}; {}", allowed(range))),
            None => bad(why),
        })?;
        match limits {
            Some(range) if !range.contains(&value) => Err(bad(format!("out of range: {}", allowed(&range)))),
            _ => Ok(value),
        }
    }
}

impl<T: Scalar> ParameterValue for Option<T> {
    type Bound = T;

    fn kind(limits: &Limits<Option<T>>) -> (Kind, Vec<&'static str>) {
        T::kind(limits)
    }

    fn text(&self) -> Option<String> {
        self.as_ref().map(Scalar::show)
    }

    fn read<'de, D: Deserializer<'de>>(name: &str, limits: Limits<T>, from: D) -> Result<Option<T>, D::Error> {
        T::read(name, limits, from).map(Some)
    }
}

impl Scalar for Nanos {
    fn kind_of(_: Option<&RangeInclusive<Nanos>>) -> Kind {
        Kind::Duration
    }

    fn show(&self) -> String {
        let units = [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units.into_iter().find(|&(unit, _)| self.0 > 0 && self.0.is_multiple_of(unit));
        whole.map_or_else(|| format!("{}ns", self.0), |(unit, name)| format!("{}{name}", self.0 / unit))
    }

    fn parse(input: &Input) -> Result<Nanos, String> {
        match input {
            Input::Text(text) => text.parse().map_err(|error: quell_model::ModelError| error.to_string()),
            Input::Integer(0) => Ok(Nanos::ZERO),
            Input::Integer(number) => Err(format!("a time needs a unit, as in \"{number}ms\" or \"{number}us\"")),
            _ => Err("a time is a text with its unit, as in \"20ms\"".into()),
        }
    }
}

impl Scalar for bool {
    fn kind_of(_: Option<&RangeInclusive<bool>>) -> Kind {
        Kind::Flag
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(input: &Input) -> Result<bool, String> {
        match input {
            Input::Flag(flag) => Ok(*flag),
            _ => Err("give true or false".into()),
        }
    }
}

macro_rules! whole_numbers {
    ($($type:ty),+) => {
        $(impl Scalar for $type {
            fn kind_of(_: Option<&RangeInclusive<$type>>) -> Kind {
                Kind::Count
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn parse(input: &Input) -> Result<$type, String> {
                match input {
                    // Beyond its type it is out of range as well.
                    Input::Integer(number) if *number > 0 => Ok(<$type>::try_from(*number).unwrap_or(<$type>::MAX)),
                    Input::Integer(0) => Ok(0),
                    _ => Err("not a whole number, 0 or more".into()),
                }
            }
        })+
    };
}
whole_numbers!(u8, u32);

impl Scalar for f64 {
    fn kind_of(limits: Option<&RangeInclusive<f64>>) -> Kind {
        match limits {
            Some(range) if *range.start() >= 0.0 && *range.end() <= 1.0 => Kind::Share,
            _ => Kind::Number,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(input: &Input) -> Result<f64, String> {
        match input {
            Input::Float(number) => Ok(*number),
            Input::Integer(number) => Ok(*number as f64),
            _ => Err("not a number".into()),
        }
    }
}

impl Scalar for BytesPerSecond {
    fn kind_of(_: Option<&RangeInclusive<BytesPerSecond>>) -> Kind {
        Kind::BytesPerSecond
    }

    fn show(&self) -> String {
        let units = [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
        let unit = units.into_iter().find(|&(unit, _)| self.0 >= unit);
        unit.map_or_else(|| format!("{}B/s", self.0), |(unit, name)| format!("{}{name}", self.0 / unit))
    }

    fn parse(input: &Input) -> Result<BytesPerSecond, String> {
        let expected = || "not bytes per second, as in \"25GB/s\" or 25e9".to_owned();
        match input {
            Input::Text(text) => {
                let bytes =
                    text.trim().strip_suffix("/s").ok_or_else(expected)?.trim_end().parse::<bytesize::ByteSize>();
                bytes.map(|bytes| BytesPerSecond(bytes.as_u64() as f64)).map_err(|_| expected())
            }
            number => f64::parse(number).map(BytesPerSecond).map_err(|_| expected()),
        }
    }
}

/// A choice among words: those of the type's own `serde` names, with its variants.
macro_rules! choices {
    ($type:ty { $($variant:path = $word:literal,)+ }) => {
        impl $crate::parameter::Scalar for $type {
            const WORDS: &'static [&'static str] = &[$($word,)+];

            fn kind_of(_: Option<&std::ops::RangeInclusive<$type>>) -> $crate::parameter::Kind {
                $crate::parameter::Kind::Choice
            }

            fn show(&self) -> String {
                match self { $($variant => $word.to_owned(),)+ }
            }

            fn parse(input: &$crate::parameter::Input) -> Result<$type, String> {
                match input {
                    $($crate::parameter::Input::Text(text) if text == $word => Ok($variant),)+
                    $crate::parameter::Input::Text(text) => {
                        Err(format!("none of {}{}", Self::WORDS.join(", "), $crate::parameter::did_you_mean(text, Self::WORDS)))
                    }
                    _ => Err(format!("give one of {}", Self::WORDS.join(", "))),
                }
            }
        }
    };
}
pub(crate) use choices;

/// Tables of parameters by name.
impl<T: Parameters> ParameterValue for BTreeMap<String, T> {
    type Bound = bool;

    fn kind(_: &Limits<Self>) -> (Kind, Vec<&'static str>) {
        (Kind::Tables, Vec::new())
    }

    fn text(&self) -> Option<String> {
        Some("{}".into())
    }

    fn read<'de, D: Deserializer<'de>>(_: &str, _: Limits<Self>, from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Tables(PhantomData))
    }

    fn below() -> Vec<Parameter> {
        T::table()
    }
}

struct Tables<T>(PhantomData<T>);

impl<'de, T: Parameters> Visitor<'de> for Tables<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a table by name, such as { web = { … } }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tables = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let table = map.next_value_seed(Strict(PhantomData))?;
            tables.insert(name, table);
        }
        Ok(tables)
    }
}
