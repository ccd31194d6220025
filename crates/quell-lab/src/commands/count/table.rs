//! Counts for people: sums first, then the functions that matter most, place by place.

use std::collections::BTreeSet;

use quell_model::CpuSet;
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

use super::result::{Conditions, Count, PROGRAMS, Place};

/// All tables; of each place `top` functions.
pub fn text(conditions: &Conditions, counts: &[Count], top: usize, screen: &Screen) -> String {
    let Conditions { scene, kernel, million_instructions_per_s, round_ns, seed, .. } = conditions;
    let round = human::nanoseconds(u64::from(*round_ns));
    let head = format!(
        "{scene}: instructions a request; kernel {kernel}, {million_instructions_per_s} million instructions a second, \
         rounds of {round}, seed {seed}"
    );
    let mut parts = vec![format!("{}\n{}", screen.wrap(&head), sums(counts, screen))];
    let places = counts.first().map(|count| &count.a_request[..2]).unwrap_or_default();
    parts.extend(places.iter().map(|place| functions(place, counts, top, screen)));
    parts.join("\n\n")
}

fn sums(counts: &[Count], screen: &Screen) -> String {
    let head = ["treatment", "CPUs", "", "kernel", "BPF", "kernel + BPF", "programs", "requests"];
    let rows = counts.iter().flat_map(|count| {
        count.a_request.iter().map(|place| {
            let whole = |value: f64| format!("{value:.0}");
            [
                count.treatment.clone(),
                place.cpus.to_string(),
                place.place.to_owned(),
                whole(place.kernel),
                whole(place.bpf),
                whole(place.kernel_and_bpf()),
                whole(place.programs),
                count.requests.to_string(),
            ]
        })
    });
    table(head, rows).least(["requests", "programs"]).fit(screen)
}

/// A function's instructions a request under each treatment.
struct Line {
    part: &'static str,
    name: String,
    instructions: Vec<f64>,
    calls: Vec<f64>,
}

impl Line {
    /// Of two treatments what the second one adds.
    fn difference(&self) -> Option<f64> {
        match self.instructions[..] {
            [first, second] => Some(second - first),
            _ => None,
        }
    }

    /// What its place in the table follows.
    fn weight(&self) -> f64 {
        self.difference().map_or_else(|| self.instructions.iter().copied().fold(0.0, f64::max), f64::abs)
    }
}

/// The functions of the kernel and of BPF programs that have most on these CPUs, or between whose treatments most lies.
fn lines(cpus: &CpuSet, counts: &[Count]) -> Vec<Line> {
    let all = counts.iter().flat_map(|count| &count.functions).filter(|function| function.part != PROGRAMS);
    let names: BTreeSet<_> = all.map(|function| (function.part, function.name.as_str())).collect();
    let line = |(part, name): (&'static str, &str)| {
        let found: Vec<_> = counts.iter().map(|count| count.of(part, name, cpus)).collect();
        let [instructions, calls] = [0, 1].map(|at| found.iter().map(|both| both[at]).collect());
        Line { part, name: name.to_owned(), instructions, calls }
    };
    let mut lines: Vec<_> = names.into_iter().map(line).filter(|line| line.weight() > 0.0).collect();
    lines.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    lines
}

fn functions(place: &Place, counts: &[Count], top: usize, screen: &Screen) -> String {
    let lines = lines(&place.cpus, counts);
    let names = counts.iter().map(|count| count.treatment.clone());
    let mut head: Vec<_> = ["function".to_owned(), "part".to_owned()].into_iter().chain(names).collect();
    head.push(if counts.len() == 2 { "difference" } else { "calls" }.to_owned());
    let rows = lines.iter().take(top).map(|line| {
        let last = match line.difference() {
            Some(difference) => format!("{difference:+.1}"),
            None => line.calls.iter().map(|calls| format!("{calls:.2}")).collect::<Vec<_>>().join(", "),
        };
        let of_each = line.instructions.iter().map(|value| format!("{value:.1}"));
        [line.name.clone(), line.part.to_owned()].into_iter().chain(of_each).chain([last]).collect::<Vec<_>>()
    });
    let text = table(head, rows).fit(screen);
    let left = lines.len().saturating_sub(top);
    let rest = if left > 0 { format!("\nand {left} more (--top)") } else { String::new() };
    format!("On {} ({}), a request:\n{text}{rest}", cpus(&place.cpus), place.place)
}

fn cpus(cpus: &CpuSet) -> String {
    format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
}

#[cfg(test)]
mod tests {
    use super::super::result::tests::count;
    use super::*;

    fn shown(counts: &[Count], top: usize) -> String {
        let conditions = Conditions {
            scene: "spin".into(),
            kernel: "6.18.15".into(),
            cpus: 2,
            million_instructions_per_s: 500,
            round_ns: 1000,
            duration_s: 2,
            seed: 1,
        };
        text(&conditions, counts, top, &Screen::columns(100))
    }

    /// The words of each line.
    fn words(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn two_treatments_are_compared_function_by_function() {
        let text = shown(&[count("fifo", 0), count("caladan", 700)], 1);
        quell_report::testing::assert_fits(&text, 100);
        let lines = words(&text);
        assert!(text.starts_with("spin: instructions a request; kernel 6.18.15, 500 million instructions"), "{text}");
        for line in [
            vec!["fifo", "0-1", "managed", "50", "0", "50", "300", "100"],
            vec!["caladan", "2", "generators", "10", "0", "10", "300", "100"],
            vec!["On", "CPUs", "0-1", "(managed),", "a", "request:"],
            vec!["function", "part", "fifo", "caladan", "difference"],
            vec!["running", "BPF", "0.0", "7.0", "+7.0"],
            vec!["On", "CPU", "2", "(generators),", "a", "request:"],
        ] {
            assert!(lines.contains(&line), "{line:?} in\n{text}");
        }
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let text = shown(&[count("caladan", 700)], 1);
        assert!(text.contains("and 1 more (--top)"), "{text}");
    }

    #[test]
    fn one_treatment_has_its_calls() {
        let text = shown(&[count("caladan", 700)], 9);
        quell_report::testing::assert_fits(&text, 100);
        assert!(text.contains("calls") && text.contains("5.00") && !text.contains("difference"), "{text}");
    }

    #[test]
    fn the_largest_difference_comes_first() {
        let counts = [count("fifo", 0), count("caladan", 700)];
        let names = |counts: &[Count]| -> Vec<String> {
            lines(&"0-1".parse().unwrap(), counts).into_iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&counts), ["running"], "schedule has no difference");
        assert_eq!(names(&counts[1..]), ["schedule", "running"]);
    }
}
