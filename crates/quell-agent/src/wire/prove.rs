//! An experiment that alternates: the agent switches for its caller, for as long as that is connected.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An experiment. It begins on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prove {
    /// The policies of this workload are exchanged; to be given with one of the two below.
    #[serde(default)]
    pub workload: Option<String>,
    /// While it is on, this policy; null: as configured.
    #[serde(default)]
    pub on: Option<Choice>,
    /// While it is off, this policy; null: the agent is switched off.
    #[serde(default)]
    pub off: Option<Choice>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Its name.
    pub policy: String,
    /// Its parameters; empty: the usual ones.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// The next turn of the caller's experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// On, or off?
    pub on: bool,
}
