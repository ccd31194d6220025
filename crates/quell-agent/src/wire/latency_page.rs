//! Where a service's own histogram is read.

use quell_model::Selector;
use quell_scrape::{Source, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page with a service's own histogram, as in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPage {
    /// Address of the service's metrics.
    pub address: String,
    /// The page.
    pub path: String,
    /// The histogram's name.
    pub metric: String,
    /// The unit of its bounds: `s`, `ms`, `us`, `ns`.
    pub unit: String,
}

impl From<&Source> for LatencyPage {
    fn from(source: &Source) -> LatencyPage {
        LatencyPage {
            address: source.address.to_string(),
            path: source.path.clone(),
            metric: source.metric.clone(),
            unit: source.unit.word().to_owned(),
        }
    }
}

impl LatencyPage {
    /// As the source of a workload's latency; None: it is of an agent that knows other words.
    #[must_use]
    pub fn source(&self, workload: &str, selectors: &[Selector]) -> Option<Source> {
        Some(Source {
            workload: workload.to_owned(),
            selectors: selectors.to_vec(),
            address: self.address.parse().ok()?,
            path: self.path.clone(),
            metric: self.metric.clone(),
            unit: Unit::named(&self.unit)?,
        })
    }
}
