//! Load and antagonists over time, as charts.

use quell_report::chart::{Axis, Chart, Form, Scale, Series, Unit};

use crate::antagonist::AntagonistReport;
use crate::load::{WINDOW_NS, Window};

/// The 99 % quantile over time, several runs from their own beginnings.
#[must_use]
pub fn latency_timeline<'a>(series: impl IntoIterator<Item = (&'a str, usize, &'a [Window])>) -> Chart {
    let mut chart = Chart::new(
        "p99 in each 100 ms",
        Axis::new("time since the measurement's beginning", Scale::Linear, Unit::Nanoseconds),
        Axis::new("p99 latency", Scale::Log, Unit::Nanoseconds),
    );
    for (name, colour, windows) in series {
        let mut points: Vec<_> = windows.iter().map(|w| (w.start_ns as f64, w.p99_ns as f64)).collect();
        // The last window has a length, too.
        points.extend(windows.last().map(|w| ((w.start_ns + WINDOW_NS) as f64, w.p99_ns as f64)));
        chart.series.push(Series { name: name.into(), form: Form::Steps, colour, points });
    }
    chart
}

/// An antagonist's work over time, each from an instant of its own (CLOCK_MONOTONIC ns).
#[must_use]
pub fn work_timeline<'a>(series: impl IntoIterator<Item = (&'a str, usize, u64, &'a AntagonistReport)>) -> Chart {
    let mut chart = Chart::new(
        "Antagonist work",
        Axis::new("time since the measurement's beginning", Scale::Linear, Unit::Nanoseconds),
        Axis::new("blocks per second", Scale::Linear, Unit::PerSecond),
    );
    for (name, colour, from_ns, report) in series {
        let points = report
            .timeline
            .windows(2)
            .filter(|pair| pair[0].at_ns >= from_ns && pair[1].at_ns > pair[0].at_ns)
            .map(|pair| {
                let seconds = (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9;
                ((pair[0].at_ns - from_ns) as f64, (pair[1].blocks - pair[0].blocks) as f64 / seconds)
            })
            .collect();
        chart.series.push(Series { name: name.into(), form: Form::Steps, colour, points });
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::antagonist::{AntagonistSpec, Kind, Sample};

    #[test]
    fn the_last_window_is_as_long_as_the_others() {
        let window = |start_ns| Window { start_ns, answered: 1, p50_ns: 1, p99_ns: 7, max_ns: 9 };
        let chart = latency_timeline([("alone", 0, [window(0), window(100_000_000)].as_slice())]);
        assert_eq!(chart.series[0].points, [(0.0, 7.0), (1e8, 7.0), (2e8, 7.0)]);
    }

    #[test]
    fn work_is_a_rate_between_samples() {
        let sample = |at_ns, blocks| Sample { at_ns, blocks };
        let second = 1_000_000_000;
        let report = AntagonistReport {
            spec: AntagonistSpec::usual(Kind::Cpu, 1, 0),
            started_ns: 0,
            elapsed_ns: 3 * second,
            blocks: 60,
            blocks_per_s: 20.0,
            bytes_per_s: 0.0,
            cpus: 1.0,
            thread_blocks: vec![60],
            longest_pause_ns: 0,
            timeline: vec![sample(0, 0), sample(second, 10), sample(3 * second, 60), sample(3 * second, 60)],
        };
        let chart = work_timeline([("cpu", 0, 0, &report)]);
        assert_eq!(chart.series[0].points, [(0.0, 10.0), (1e9, 25.0)]);
        let later = work_timeline([("cpu", 0, second, &report)]);
        assert_eq!(later.series[0].points, [(0.0, 25.0)]);
    }
}
