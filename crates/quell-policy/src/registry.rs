//! Every policy under its name: one line a policy.

use quell_model::{Description, Event, KnobKind, Plan, Policy, SignalSet, View, Wake};
use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize};
use std::marker::PhantomData;
use thiserror::Error;

use crate::invariant::{Calm, Invariants};
use crate::parameter::{Parameter, Parameters, Strict, did_you_mean};

/// Failures to make a policy from its name and parameters.
#[derive(Debug, Error)]
pub enum PolicyError<E> {
    /// There is no such policy.
    #[error("there is no policy '{name}'; there are: {known}{hint}")]
    Unknown {
        /// The given name.
        name: String,
        /// `; did you mean …?`, or nothing.
        hint: String,
        /// The names that exist.
        known: String,
    },
    /// The policy does not accept its parameters.
    #[error("the parameters of policy '{name}': {problem}")]
    Parameters {
        /// The policy.
        name: &'static str,
        /// The parameters' format error, with the place.
        problem: E,
    },
}

macro_rules! policies {
    ($($variant:ident($policy:ty, $config:ty),)+) => {
        /// Any of the policies. Clone and Serialize, so that a recorded run can be replayed and a decision explained.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "each is the policy of the same name")]
        #[allow(clippy::large_enum_variant, reason = "there is one policy an instance, not a list of them")]
        pub enum AnyPolicy { $($variant($policy),)+ }

        impl AnyPolicy {
            /// The description of every policy.
            pub const ALL: &'static [Description] = &[$(<$policy>::DESCRIPTION,)+];

            /// The names of all policies, each with [the parameters](Invariants::VARIANTS) that property tests give it.
            pub const VARIANTS: &'static [(&'static str, &'static [&'static str])] =
                &[$((<$policy>::DESCRIPTION.name, <$policy as Invariants>::VARIANTS),)+];

            /// The policy of this name, with parameters from any format; omitted ones have their defaults.
            ///
            /// # Errors
            /// If there is no such policy, or it does not accept these parameters.
            pub fn build<'de, D: Deserializer<'de>>(name: &str, parameters: D) -> Result<AnyPolicy, PolicyError<D::Error>> {
                $(if name == <$policy>::DESCRIPTION.name {
                    let config = Strict::<$config>(PhantomData)
                        .deserialize(parameters)
                        .map_err(|problem| PolicyError::Parameters { name: <$policy>::DESCRIPTION.name, problem })?;
                    return Ok(AnyPolicy::$variant(<$policy>::new(config)));
                })+
                Err(Self::unknown(name))
            }

            /// The parameters of the policy of this name, if it exists.
            #[must_use]
            pub fn parameters(name: &str) -> Option<Vec<Parameter>> {
                $(if name == <$policy>::DESCRIPTION.name {
                    return Some(<$config>::table());
                })+
                None
            }

            /// The policy of this name with its default parameters, if it exists.
            #[must_use]
            pub fn named(name: &str) -> Option<AnyPolicy> {
                $(if name == <$policy>::DESCRIPTION.name {
                    return Some(AnyPolicy::$variant(<$policy>::new(<$config>::default())));
                })+
                None
            }
        }

        impl Policy for AnyPolicy {
            fn describe(&self) -> &'static Description {
                match self { $(AnyPolicy::$variant(policy) => policy.describe(),)+ }
            }

            fn signals(&self) -> SignalSet {
                match self { $(AnyPolicy::$variant(policy) => policy.signals(),)+ }
            }

            fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
                match self { $(AnyPolicy::$variant(policy) => policy.step(view, events, plan),)+ }
            }
        }

        impl Invariants for AnyPolicy {
            fn check(&self, calm: &Calm<'_>) {
                match self { $(AnyPolicy::$variant(policy) => policy.check(calm),)+ }
            }
        }
    };
}

policies! {
    None(crate::none::NoPolicy, crate::none::NoConfig),
    Rkube(crate::rkube::Rkube, crate::rkube::RkubeConfig),
    Guard(crate::guard::Guard, crate::guard::GuardConfig),
    Caladan(crate::caladan::Caladan, crate::caladan::CaladanConfig),
    Shenango(crate::shenango::Shenango, crate::shenango::ShenangoConfig),
    Elfen(crate::elfen::Elfen, crate::elfen::ElfenConfig),
    His(crate::his::His, crate::his::HisConfig),
    Edgeiso(crate::edgeiso::EdgeIso, crate::edgeiso::EdgeIsoConfig),
    Parties(crate::parties::Parties, crate::parties::PartiesConfig),
    Heracles(crate::heracles::Heracles, crate::heracles::HeraclesConfig),
    Vas(crate::vas::Vas, crate::vas::VasConfig),
    Dasec(crate::dasec::Dasec, crate::dasec::DasecConfig),
    SdcLocal(crate::sdc::SdcLocal, crate::sdc::SdcLocalConfig),
}

impl AnyPolicy {
    /// The message for a name that no policy has.
    #[must_use]
    pub fn unknown<E>(name: &str) -> PolicyError<E> {
        let names: Vec<&str> = Self::ALL.iter().map(|policy| policy.name).collect();
        PolicyError::Unknown { name: name.to_owned(), hint: did_you_mean(name, &names), known: Self::names() }
    }

    /// The highest real-time priority that it gives to others, if it gives any.
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        match self {
            AnyPolicy::Guard(guard) => Some(guard.priority()),
            _ => None,
        }
    }

    /// The place of `guard` in a stack on Linux's scheduler: before the first policy that grants CPUs. There a grant is
    /// an affinity and cannot be quick, so latency-critical threads run before all others. None: no policy grants CPUs,
    /// or one sets scheduling classes already.
    #[must_use]
    pub fn place_of_guard<'a>(policies: impl IntoIterator<Item = &'a AnyPolicy>) -> Option<usize> {
        let (mut place, mut sets_classes) = (None, false);
        for (at, policy) in policies.into_iter().enumerate() {
            let described = policy.describe();
            place = place.or(described.grants.then_some(at));
            sets_classes |= described.knobs.iter().any(|need| need.what == KnobKind::Class);
        }
        place.filter(|_| !sets_classes)
    }

    /// All names, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_build() {
        for (at, policy) in AnyPolicy::ALL.iter().enumerate() {
            assert!(AnyPolicy::ALL[..at].iter().all(|other| other.name != policy.name));
            assert_eq!(AnyPolicy::named(policy.name).unwrap().describe().name, policy.name);
        }
    }

    fn build(name: &str, text: &str) -> Result<AnyPolicy, String> {
        AnyPolicy::build(name, &mut serde_json::Deserializer::from_str(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn unknown_names_and_parameters_are_refused_with_what_is_like_them() {
        for (name, text, parts) in [
            ("nine", "{}", &["'nine'", "there are: none"][..]),
            ("gaurd", "{}", &["'gaurd'; there are: none", "; did you mean 'guard'?"]),
            ("none", r#"{"speed": 3}"#, &["'speed'", "'none'", "it has none"]),
            ("guard", r#"{"runbudget": "1ms"}"#, &["; did you mean 'run_budget'?", "interval, run_budget, no_pause"]),
            ("guard", r#"{"zzz": 1}"#, &["there is no parameter 'zzz'; there are: interval"]),
            (
                "caladan",
                r#"{"tasks": {"web": {"tresh_qd": "1us"}}}"#,
                &["'tresh_qd'; there are: thresh_qd, thresh_ht; did you mean 'thresh_qd'?"],
            ),
            ("elfen", r#"{"mode": "borrow"}"#, &["mode = \"borrow\"", "borrow-idle, refresh-budget"]),
        ] {
            let error = build(name, text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn a_time_without_a_unit_and_absurd_values_are_refused_with_the_range() {
        for (name, text, parts) in [
            (
                "guard",
                r#"{"interval": 20}"#,
                &["'guard'", "interval = 20:", "a time needs a unit", "\"20ms\"", "1ms to 1s"][..],
            ),
            ("guard", r#"{"priority": 100}"#, &["priority = 100: out of range", "1 to 95"]),
            ("guard", r#"{"priority": 0}"#, &["1 to 95"]),
            ("guard", r#"{"priority": 1000}"#, &["1 to 95"]),
            ("guard", r#"{"priority": -1}"#, &["not a whole number", "1 to 95"]),
            ("guard", r#"{"run_budget": "0s"}"#, &["run_budget = \"0s\": out of range", "1ms to 10s"]),
            ("guard", r#"{"interval": "1000s"}"#, &["interval = \"1000s\": out of range", "1ms to 1s"]),
            ("guard", r#"{"interval": "1 fortnight"}"#, &["'1 fortnight' is not a time", "ns, us, ms", "1ms to 1s"]),
            ("guard", r#"{"interval": true}"#, &["as in \"20ms\""]),
            ("guard", r#"{"no_pause": 1.5}"#, &["0.1 to 1"]),
            ("guard", r#"{"idle_best_effort": "yes"}"#, &["true or false"]),
            ("guard", r#"{"run_budget": "5ms"}"#, &["a run_budget of 5 ms", "20 ms"]),
            ("rkube", r#"{"system_reserve": 1.5}"#, &["not a whole number", "0 to 1023"]),
            ("caladan", r#"{"interval": 10}"#, &["\"10us\""]),
            ("caladan", r#"{"thresh_ht": 25}"#, &["\"25us\""]),
            ("caladan", r#"{"thresh_bw": 25}"#, &["1MB/s to 10TB/s"]),
            ("caladan", r#"{"thresh_bw": "25GiB"}"#, &["\"25GB/s\""]),
            ("caladan", r#"{"thresh_slowdown": 1.0}"#, &["1.001 to 1000"]),
            ("caladan", r#"{"tasks": {"web": {"thresh_qd": 5}}}"#, &["thresh_qd = 5", "unit"]),
            ("shenango", r#"{"interval": 5}"#, &["unit"]),
            ("elfen", r#"{"budget": 0}"#, &["out of range"]),
            ("his", r#"{"outdated": "500ms"}"#, &["outdated (500 ms)"]),
            ("his", r#"{"stop": 0.5}"#, &["above threshold"]),
            ("edgeiso", r#"{"slice": "3s"}"#, &["longer than the solo run"]),
            ("parties", r#"{"upsize_below": 0.5}"#, &["upsize_below = 0.5"]),
        ] {
            let error = build(name, text).expect_err(text);
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn only_guard_makes_others_real_time_and_says_at_which_priority() {
        assert_eq!(build("guard", r#"{"priority": 7}"#).unwrap().priority(), Some(7));
        for policy in AnyPolicy::ALL.iter().filter(|policy| policy.name != "guard") {
            assert_eq!(AnyPolicy::named(policy.name).unwrap().priority(), None, "{}", policy.name);
        }
    }

    #[test]
    fn bytes_per_second_have_units_too() {
        let number = build("caladan", r#"{"thresh_bw": 25e9}"#).unwrap();
        assert_eq!(build("caladan", r#"{"thresh_bw": "25 GB/s"}"#).unwrap(), number);
    }

    /// A policy's declaration is consistent: its names are the fields that it writes, its defaults the initial values.
    #[test]
    fn the_declared_parameters_are_those_of_the_type() {
        for policy in AnyPolicy::ALL {
            let plain = AnyPolicy::named(policy.name).unwrap();
            let declared = AnyPolicy::parameters(policy.name).unwrap();
            let written = serde_json::to_value(&plain).unwrap();
            if let Some(config) = written[policy.name]["config"].as_object() {
                let mut fields: Vec<&str> = config.keys().map(String::as_str).collect();
                let mut names: Vec<&str> =
                    declared.iter().map(|parameter| &parameter.name[..]).filter(|name| !name.contains('.')).collect();
                fields.sort_unstable();
                names.sort_unstable();
                assert_eq!(fields, names, "{}", policy.name);
            }
            let defaults = declared.iter().filter(|parameter| !parameter.name.contains('.')).filter_map(|parameter| {
                let text = parameter.default.clone()?;
                Some((parameter.name.clone(), serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))))
            });
            let given = serde_json::Value::Object(defaults.collect());
            assert_eq!(AnyPolicy::build(policy.name, given).unwrap(), plain, "{}", policy.name);
            for parameter in &declared {
                assert!(!parameter.meaning.is_empty() && parameter.name.is_ascii(), "{parameter:?}");
            }
        }
    }

    #[test]
    fn what_was_recorded_with_numbers_is_still_read() {
        let guard = AnyPolicy::named("guard").unwrap();
        let written = serde_json::to_string(&guard).unwrap();
        assert!(written.contains("\"interval\":20000000"), "{written}");
        assert_eq!(serde_json::from_str::<AnyPolicy>(&written).unwrap(), guard);
    }
}
