//! Metrics for those that do not ask for OpenMetrics: Prometheus's older text, in which a counter's lines name it as its samples do.

use std::collections::HashSet;

/// The format's media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The same metrics in it.
#[must_use]
pub fn plain(metrics: &str) -> String {
    let counter = |line: &'_ str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = metrics.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(metrics.len());
    for line in metrics.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        let comment = ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)));
        match comment.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?))) {
            Some((kind, (name, rest))) if counters.contains(name) => text += &format!("{kind}{name}_total {rest}\n"),
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_named_as_its_samples_are_and_the_rest_stays() {
        let open = "# HELP quell_a_seconds Of a.\n# TYPE quell_a_seconds counter\n# UNIT quell_a_seconds seconds\n\
                    quell_a_seconds_total{by=\"# TYPE x counter\"} 1.5\n# HELP quell_b Of quell_a_seconds.\n# TYPE quell_b gauge\n\
                    quell_b 2\n# EOF\n";
        let expected = "# HELP quell_a_seconds_total Of a.\n# TYPE quell_a_seconds_total counter\n\
                        quell_a_seconds_total{by=\"# TYPE x counter\"} 1.5\n# HELP quell_b Of quell_a_seconds.\n\
                        # TYPE quell_b gauge\nquell_b 2\n";
        assert_eq!(plain(open), expected);
    }
}
