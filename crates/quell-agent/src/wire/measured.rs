//! Measured numbers, named by the table of signals.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quell_model::signal::Subject;
use quell_model::{Sample, Signal, SignalInfo};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

/// A measured number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The value, in the unit that the field's name says.
    pub value: f64,
    /// How long ago it was read, in nanoseconds.
    pub age_ns: u64,
    /// The span that it describes, in nanoseconds; zero for a momentary value.
    pub window_ns: u64,
    /// `exact`, `estimated` or `stale`. What is absent is null.
    pub quality: Quality,
}

/// How far a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// Measured too long ago to act on.
    Stale,
    /// Derived from something else.
    Estimated,
    /// Measured.
    Exact,
}

impl Measured {
    /// A sample for readers; None where nothing was measured.
    #[must_use]
    pub fn of(sample: &Sample<f64>, now: quell_model::Nanos) -> Option<Measured> {
        let quality = match sample.quality {
            quell_model::Quality::Absent => return None,
            quell_model::Quality::Stale => Quality::Stale,
            quell_model::Quality::Estimated => Quality::Estimated,
            quell_model::Quality::Exact => Quality::Exact,
        };
        let Sample { value, at, window, .. } = *sample;
        value.is_finite().then_some(Measured { value, age_ns: (now - at).0, window_ns: window.0, quality })
    }
}

/// What measurements are of, in types: [`OfWorkload`], [`OfMachine`].
pub trait Of {
    /// The type's name in the schema.
    const NAME: &'static str;
    /// The subjects of its signals.
    const SUBJECTS: &'static [Subject];
}

/// Of a workload: its signals, and those of its threads summed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfWorkload;
/// Of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfMachine;

impl Of for OfWorkload {
    const NAME: &'static str = "WorkloadMeasurements";
    const SUBJECTS: &'static [Subject] = &[Subject::Workload, Subject::Thread];
}

impl Of for OfMachine {
    const NAME: &'static str = "MachineMeasurements";
    const SUBJECTS: &'static [Subject] = &[Subject::Machine];
}

/// One field for each signal of the table, named as it is there with the unit; null where nothing is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Measurements<O> {
    by_field: BTreeMap<String, Option<Measured>>,
    #[serde(skip)]
    of: std::marker::PhantomData<O>,
}

impl<O: Of> Measurements<O> {
    /// The signals that have a field, in the table's order.
    pub fn signals() -> impl Iterator<Item = &'static SignalInfo> {
        Signal::TABLE.iter().filter(|line| !line.key.is_empty() && O::SUBJECTS.contains(&line.of))
    }

    /// All of them, each measured so.
    pub fn by(mut measure: impl FnMut(Signal) -> Option<Measured>) -> Measurements<O> {
        let by_field = Self::signals().map(|line| (line.field(), measure(line.signal))).collect();
        Measurements { by_field, of: std::marker::PhantomData }
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, signal: Signal) -> Option<Measured> {
        self.by_field.get(&signal.info().field()).copied().flatten()
    }

    /// With another value of one of them.
    #[must_use]
    pub fn with(mut self, signal: Signal, measured: Option<Measured>) -> Measurements<O> {
        self.by_field.insert(signal.info().field(), measured);
        self
    }
}

impl<O: Of> Default for Measurements<O> {
    fn default() -> Measurements<O> {
        Measurements::by(|_| None)
    }
}

/// Fields that are not in the table are somebody else's, or of a later version, and are left out.
impl<'de, O: Of> Deserialize<'de> for Measurements<O> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Measurements<O>, D::Error> {
        let mut fields = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
        Ok(Measurements::by(|signal| {
            let value = fields.remove(&signal.info().field())?;
            serde_json::from_value(value).ok()?
        }))
    }
}

impl<O: Of> JsonSchema for Measurements<O> {
    fn schema_name() -> Cow<'static, str> {
        O::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let measured = generator.subschema_for::<Option<Measured>>();
        let property = |line: &SignalInfo| {
            let mut property = measured.clone();
            property.insert("description".to_owned(), line.help.into());
            (line.field(), property.to_value())
        };
        let properties: serde_json::Map<_, _> = Self::signals().map(property).collect();
        schemars::json_schema!({ "type": "object", "properties": properties })
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_flat_fields_and_unknown_ones_are_left_out() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct All {
            name: String,
            #[serde(flatten)]
            measured: Measurements<OfWorkload>,
        }
        let one = Measured { value: 3.0, age_ns: 1, window_ns: 2, quality: Quality::Exact };
        let measured = Measurements::default().with(Signal::QueueingDelay, Some(one));
        let mut json = serde_json::to_value(All { name: "w".into(), measured: measured.clone() }).unwrap();
        assert_eq!(json["queueing_delay_ns"]["value"], 3.0);
        assert!(json["memory_bandwidth"].is_null() && json.get("latency_ns").is_some(), "{json}");
        json["later"] = "something".into();
        assert_eq!(serde_json::from_value::<All>(json).unwrap(), All { name: "w".into(), measured });
    }
}
