//! The chart of latency distributions.

use super::{Axis, Chart, Form, Scale, Series, Unit};
use crate::stats::Histogram;

/// Latency distributions against each other: the share of requests that are at least as fast, its upper tail
/// enlarged, over the latency. A curve further left is better. Each series has its colour, as in a table's rows.
#[must_use]
pub fn latency_chart<'a>(series: impl IntoIterator<Item = (&'a str, usize, &'a Histogram)>) -> Chart {
    let mut chart = Chart::new(
        "Latency distribution",
        Axis::new("latency from the intended send time", Scale::Log, Unit::Nanoseconds),
        Axis::new("requests at least as fast", Scale::Tail, Unit::Share),
    );
    for (name, colour, histogram) in series {
        let points = cumulative(histogram);
        chart.series.push(Series { name: name.into(), form: Form::Steps, colour, points });
    }
    chart
}

/// The cumulative distribution: (ns, share that does not exceed it). The largest value has no share above it that could
/// be shown on an enlarged tail; it is drawn half a request below one.
fn cumulative(histogram: &Histogram) -> Vec<(f64, f64)> {
    let total = histogram.count() as f64;
    let mut below = 0;
    let mut points = Vec::new();
    for (ns, count) in histogram.cells() {
        if points.is_empty() {
            points.push((ns as f64, 0.0));
        }
        below += count;
        points.push((ns as f64, (below as f64).min(total - 0.5) / total));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cumulative_curve_rises_to_just_below_one() {
        let histogram: Histogram = [100, 100, 200, 400].into_iter().collect();
        let chart = latency_chart([("alone", 3, &histogram)]);
        assert_eq!(chart.series[0].points, [(100.0, 0.0), (100.0, 0.5), (200.0, 0.75), (400.0, 0.875)]);
        assert_eq!(chart.series[0].colour, 3);
    }
}
