//! A recommendation, for people.

use quell_policy::recommend::{Advice, Looks};
use quell_report::human;
use quell_report::screen::Screen;

/// Headline, why, the line to paste, what was not known. Without an end of line.
pub fn text(advice: &Advice, screen: &Screen) -> String {
    let mut lines = vec![screen.wrap(&advice.headline)];
    lines.push(screen.hang(&format!("why      {}", advice.why), 9));
    if let Some(paste) = &advice.paste {
        // Never broken: it is to be pasted.
        lines.push(format!("run      {paste}"));
    }
    for lack in &advice.not_here {
        lines.push(screen.hang(&format!("not here {lack}"), 9));
    }
    if !advice.unknown.is_empty() {
        lines.push(screen.hang(&format!("unknown  {}", advice.unknown.join("; ")), 9));
    }
    if let Some(configuration) = &advice.configuration {
        lines.push("with this file, adapted to your names and numbers:".into());
        lines.extend(configuration.lines().map(|line| format!("    {line}").trim_end().to_owned()));
    }
    lines.join("\n")
}

/// What the looks found, in a line.
pub fn found(looks: &Looks) -> String {
    let asked = looks.ran + looks.waited;
    let share = if asked.0 == 0 { 0.0 } else { looks.waited.0 as f64 / asked.0 as f64 };
    let swing = looks.swing.map_or("too few samples".into(), |swing| format!("{swing:.2} CPUs between samples"));
    let run = looks.run().map_or("not known".into(), |run| run.to_string());
    format!(
        "found    in {}: asked for {:.2} CPUs, waited for {} of that; longest run {run}; load moves by {swing}",
        looks.watched,
        looks.asked,
        human::percent(share),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quell_model::{Class, CpuCount, Nanos};
    use quell_policy::recommend::{MachineFacts, OwnScheduler, WorkloadFacts, recommend};

    use super::*;

    #[test]
    fn a_recommendation_fits_the_terminal_and_its_paste_is_one_line() {
        let machine = MachineFacts {
            cpus: 8,
            own_scheduler: OwnScheduler::No(
                "this kernel has no sched_ext; boot one with CONFIG_SCHED_CLASS_EXT=y".into(),
            ),
            alone: false,
            has_rights: true,
            cannot: BTreeMap::new(),
            counters: false,
            resctrl: false,
        };
        let web = WorkloadFacts {
            cpus: Some(CpuCount(1500)),
            disturbed: Some(true),
            longest_run: Some(Nanos::from_millis(3)),
            moves: Some(true),
            ..WorkloadFacts::unknown("nginx.service", "{ unit = \"nginx.service\" }", Class::LatencyCritical)
        };
        let vas = WorkloadFacts { demand_known: Some(true), ..web.clone() };
        let looks = Looks {
            watched: Nanos::from_secs(3),
            ran: Nanos::from_millis(900),
            waited: Nanos::from_millis(600),
            longest_run: Nanos::from_millis(3),
            mean_run: Some(Nanos::from_micros(150)),
            asked: 0.5,
            swing: Some(1.2),
        };
        let spins = Looks { mean_run: Some(Nanos::from_millis(2870)), ..looks };
        assert!(found(&spins).contains("longest run 2.87 s;"), "no average above the longest: {}", found(&spins));
        for columns in [80, 200] {
            let screen = Screen::columns(columns);
            let of = |facts: &WorkloadFacts| text(&recommend(&machine, Some(facts)), &screen);
            let all = format!("{}\n\n{}\n\n{}\n", of(&web), of(&vas), screen.hang(&found(&looks), 9));
            quell_report::testing::assert_fits(&all, columns);
            insta::assert_snapshot!(format!("recommend_{columns}"), all);
        }
    }
}
