//! Every policy under its name: one line a policy.

use quell_model::{Description, Event, Plan, Policy, SignalSet, View, Wake};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// What can go wrong when a policy is made from its name and parameters.
#[derive(Debug, Error)]
pub enum PolicyError<E> {
    /// There is no such policy.
    #[error("there is no policy '{name}'; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Its parameters are not what it takes.
    #[error("the parameters of policy '{name}': {problem}")]
    Parameters {
        /// The policy.
        name: &'static str,
        /// What the parameters' format says, with the place.
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
            /// What every policy says of itself.
            pub const ALL: &'static [Description] = &[$(<$policy>::DESCRIPTION,)+];

            /// The policy of this name, with parameters from any format; what they leave out has its default.
            ///
            /// # Errors
            /// If there is no such policy, or it does not take these parameters.
            pub fn build<'de, D: Deserializer<'de>>(name: &str, parameters: D) -> Result<AnyPolicy, PolicyError<D::Error>> {
                $(if name == <$policy>::DESCRIPTION.name {
                    let config = <$config>::deserialize(parameters)
                        .map_err(|problem| PolicyError::Parameters { name: <$policy>::DESCRIPTION.name, problem })?;
                    return Ok(AnyPolicy::$variant(<$policy>::new(config)));
                })+
                Err(PolicyError::Unknown { name: name.to_owned(), known: Self::names() })
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
    Parties(crate::parties::Parties, crate::parties::PartiesConfig),
}

impl AnyPolicy {
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

    #[test]
    fn unknown_names_and_parameters_are_refused() {
        let build = |name, text| AnyPolicy::build(name, &mut serde_json::Deserializer::from_str(text));
        let error = build("nine", "{}").unwrap_err().to_string();
        assert!(error.contains("'nine'") && error.contains("none"), "{error}");
        let error = build("none", r#"{"speed": 3}"#).unwrap_err().to_string();
        assert!(error.contains("speed") && error.contains("'none'"), "{error}");
    }
}
