//! The words for what latency is measured by: what has another form is refused before anything is measured.

use std::net::SocketAddr;

use quell_effect::source::Probe;
use quell_model::Selector;
use quell_scrape::{Source as Page, Unit};

/// A service's own histogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    address: SocketAddr,
    path: String,
    metric: String,
    unit: Unit,
}

impl Histogram {
    /// As the page of a workload.
    pub fn of(&self, name: &str, selectors: &[Selector]) -> Page {
        Page {
            workload: name.to_owned(),
            selectors: selectors.to_vec(),
            address: self.address,
            path: self.path.clone(),
            metric: self.metric.clone(),
            unit: self.unit,
        }
    }
}

/// `memcached://127.0.0.1:11211`
pub fn url(text: &str) -> Result<String, String> {
    Probe::check(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// `127.0.0.1:9102/metrics#http_request_duration_seconds`
pub fn histogram(text: &str) -> Result<Histogram, String> {
    let example = "127.0.0.1:9102/metrics#http_request_duration_seconds";
    let text = text.strip_prefix("http://").unwrap_or(text);
    let parts = text.split_once('#').and_then(|(page, metric)| {
        let (address, path) = page.split_once('/').map_or((page, "metrics"), |(address, path)| (address, path));
        Some((address.parse().ok()?, format!("/{path}"), metric.to_owned()))
    });
    let Some((address, path, metric)) = parts else {
        return Err(format!("expected an address in numbers, a path and the histogram's name, such as {example}"));
    };
    let Some(unit) = Unit::of_metric(&metric) else {
        return Err(format!("the name {metric} does not include its unit, as {example} does with _seconds"));
    };
    Ok(Histogram { address, path, metric, unit })
}
