//! The rows for people: a table, the numbers of verdicts by kind, and the text of each claim.

use quell_evidence::{Claim, Expected, Interval, Row, Side, Verdict};
use quell_report::screen::Screen;
use quell_report::table::table;

/// All of it.
pub fn text(rows: &[Row], screen: &Screen) -> String {
    let cells = rows.iter().map(|row| {
        [
            row.claim.id.clone(),
            kind(row.claim).to_owned(),
            claimed(row.claim),
            row.ours.map_or("–".to_owned(), number),
            row.interval.map_or("–".to_owned(), interval),
            row.verdict.to_string(),
        ]
    });
    let head = ["claim", "kind", "claimed", "ours", "95 % interval", "verdict"];
    let mut text = table(head, cells).least(["95 % interval", "kind"]).fit(screen) + "\n\n";
    text += &summary(rows);
    text += "\n";
    for row in rows {
        text += &format!("{}: {}", row.claim.id, words(row.claim).trim_start());
        if !row.note.is_empty() {
            text += &format!("    {}\n", row.note);
        }
    }
    text
}

/// The claim's text, and its place: indented lines.
pub fn words(claim: &Claim) -> String {
    let place = match claim.source.line {
        Some(line) => format!("{}, {}, line {line}", claim.source.text, claim.source.place),
        None => format!("{}, {}", claim.source.text, claim.source.place),
    };
    let quotation = claim.quotation.as_ref().map_or(String::new(), |words| format!(": \"{words}\""));
    format!("    {}\n    {place}{quotation}\n", claim.statement)
}

/// Numbers of rows by kind and verdict: a topic's own of the text, and Quell's own, apart.
pub fn summary(rows: &[Row]) -> String {
    let mut groups: Vec<(String, &str, Vec<Verdict>)> = Vec::new();
    for row in rows {
        let topic = row.claim.id.split('.').next().unwrap_or_default();
        let whose = if row.claim.source.is_own() { "Quell's own" } else { "the texts'" };
        let (group, kind) = (format!("{topic}, {whose}"), kind(row.claim));
        match groups.iter_mut().find(|known| (known.0.as_str(), known.1) == (group.as_str(), kind)) {
            Some(known) => known.2.push(row.verdict),
            None => groups.push((group, kind, vec![row.verdict])),
        }
    }
    let mut text = String::new();
    let mut last = String::new();
    groups.sort_by_key(|(group, ..)| group.clone());
    for (group, kind, verdicts) in groups {
        if group != last {
            text += &format!("{group}:\n");
            last = group;
        }
        let count = |verdict: Verdict| verdicts.iter().filter(|it| **it == verdict).count();
        let counts = Verdict::ALL.into_iter().filter(|verdict| count(*verdict) > 0);
        let counts: Vec<String> = counts.map(|verdict| format!("{} {verdict}", count(verdict))).collect();
        text += &format!("  {} {kind}: {}\n", verdicts.len(), counts.join(", "));
    }
    let surprises = rows.iter().filter(|row| row.surprises()).count();
    if rows.iter().any(|row| row.ours.is_some() && row.interval.is_none()) {
        text += "Rows of one run have no interval, and so no verdict: run it without --quick.\n";
    }
    text + &format!("{surprises} differ without being listed as known to.\n")
}

/// The kind's name.
pub fn kind(claim: &Claim) -> &'static str {
    match claim.expected {
        Expected::Number { .. } => "number",
        Expected::Range { .. } => "range",
        Expected::Similar { .. } => "similar",
        Expected::Direction(_) => "direction",
        Expected::Bound(_) => "bound",
        Expected::Derived { .. } => "derived",
        Expected::Input { .. } => "input",
    }
}

/// The claimed value.
pub fn claimed(claim: &Claim) -> String {
    match claim.expected {
        Expected::Number { value, .. } | Expected::Derived { value } | Expected::Input { value } => number(value),
        Expected::Range { from, to } => format!("{} to {}", number(from), number(to)),
        Expected::Similar { to, within } => format!("{} ± {:.0} %", number(to), 100.0 * within),
        Expected::Direction(Side::Below(limit)) => format!("< {}", number(limit)),
        Expected::Direction(Side::Above(limit)) => format!("> {}", number(limit)),
        Expected::Bound(Side::Below(limit)) => format!("≤ {}", number(limit)),
        Expected::Bound(Side::Above(limit)) => format!("≥ {}", number(limit)),
    }
}

/// With three digits, or all before the point.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Both ends.
pub fn interval(Interval { low, high }: Interval) -> String {
    format!("{} to {}", number(low), number(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_evidence::{Found, Measure, topic};

    #[test]
    fn rows_are_shown_with_what_is_missing_and_counted_by_kind_and_whose_they_are() {
        let claim = |name: &str| topic("gap").unwrap().claim(name).unwrap();
        let of = |name: &str, found: Found| {
            Row::of(claim(name), &Measure { id: claim(name).id.clone(), found, note: "quiet".into() })
        };
        let rows = [
            of("burstable", Found::Seeds(vec![0.66, 0.661, 0.659])),
            of("unpinned", Found::Seeds(vec![0.1, 0.1])),
            of("capped", Found::Seeds(vec![0.75])),
            Row::not_run(claim("burstable3"), "needs 3 CPUs"),
        ];
        let text = text(&rows, &Screen::UNBOUNDED);
        for part in [
            "gap.burstable",
            "0.667",
            "0.660",
            "reproduced",
            "needs 3 CPUs",
            "quiet",
            "3 number: 1 reproduced, 1 not judged, 1 not run",
            "gap, Quell's own:\n  1 bound: 1 holds",
            "no interval",
            "0 differ without",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(super::super::page::of(&rows, Vec::new()).to_html().contains("needs 3 CPUs"));
    }
}
