//! The files' shape, before anything is checked. Every table's keys are optional, so that a drop-in can override one.

use quell_model::{Class, CpuCount, CpuSet, Grace, Nanos, Reservation, Selector, Slo, Workload};
use serde::Deserialize;
use toml::Spanned;

use super::{Api, Metrics, Poll, Scheduler};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFile {
    pub machine: RawMachine,
    pub agent: RawAgent,
    pub api: Option<Api>,
    pub metrics: Option<Spanned<Metrics>>,
    pub policy: Vec<RawPolicy>,
    pub workload: Vec<RawWorkload>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawMachine {
    pub cpus: Option<Spanned<CpuSet>>,
    pub scheduler: Option<Scheduler>,
    pub partition: Option<bool>,
    pub preemption: Option<bool>,
    pub enable_controllers: Option<bool>,
    pub solo_runs: RawSoloRuns,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSoloRuns {
    pub longest: Option<Nanos>,
    pub duty_per_mille: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAgent {
    pub interval_floor: Option<Nanos>,
    pub poll: Option<Poll>,
    pub realtime: Option<bool>,
    pub hung_after: Option<Spanned<Nanos>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicy {
    pub name: Spanned<String>,
    #[serde(default)]
    pub workloads: RawOwned,
    /// Read a second time with its places when the policy is built.
    #[serde(default)]
    #[allow(dead_code, reason = "named so that it is no unknown key")]
    pub parameters: Option<serde::de::IgnoredAny>,
}

/// `"all"`, or a list of names.
#[derive(Clone, Debug, Default)]
pub(super) enum RawOwned {
    #[default]
    All,
    Some(Vec<Spanned<String>>),
}

impl<'de> Deserialize<'de> for RawOwned {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RawOwned, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = RawOwned;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("\"all\", or a list of names of workloads such as [\"web\", \"db\"]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawOwned, E> {
                if text == "all" {
                    return Ok(RawOwned::All);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<RawOwned, A::Error> {
                Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(RawOwned::Some)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkload {
    pub name: Spanned<String>,
    pub class: Class,
    pub slo: Option<Spanned<Slo>>,
    #[serde(default)]
    pub cpus: Option<Spanned<CpuCount>>,
    pub limit: Option<Spanned<CpuCount>>,
    pub reservation: Option<Spanned<Reservation>>,
    #[serde(default)]
    pub pausable: bool,
    pub grace: Option<Spanned<Grace>>,
    #[serde(rename = "match", default)]
    pub selectors: Vec<Spanned<Selector>>,
}

impl RawWorkload {
    /// The workload, unchecked.
    pub fn workload(&self) -> Workload {
        Workload {
            name: self.name.get_ref().clone(),
            class: self.class,
            slo: self.slo.as_ref().map(|slo| *slo.get_ref()),
            cpus: self.cpus.as_ref().map_or(CpuCount::ZERO, |cpus| *cpus.get_ref()),
            limit: self.limit.as_ref().map(|limit| *limit.get_ref()),
            reservation: self.reservation.as_ref().map(|reservation| *reservation.get_ref()).unwrap_or_default(),
            pausable: self.pausable,
            grace: self.grace.as_ref().map(|grace| *grace.get_ref()),
            selectors: self.selectors.iter().map(|selector| selector.get_ref().clone()).collect(),
        }
    }

    /// Where the key stands that makes the workload impossible: the one without which it is possible.
    pub fn culprit(&self) -> usize {
        let without = |change: fn(&mut RawWorkload)| {
            let mut other = self.clone();
            change(&mut other);
            other.workload().check().is_ok()
        };
        let start = |span: std::ops::Range<usize>| span.start;
        let found = [
            self.slo.as_ref().filter(|_| without(|raw| raw.slo = None)).map(|slo| start(slo.span())),
            self.limit.as_ref().filter(|_| without(|raw| raw.limit = None)).map(|limit| start(limit.span())),
            self.reservation
                .as_ref()
                .filter(|_| without(|raw| raw.reservation = None))
                .map(|reservation| start(reservation.span())),
            self.grace.as_ref().filter(|_| without(|raw| raw.grace = None)).map(|grace| start(grace.span())),
        ];
        found.into_iter().flatten().next().unwrap_or(self.name.span().start)
    }
}
