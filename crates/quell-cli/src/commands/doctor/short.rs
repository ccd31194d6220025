//! `quell doctor`: one screen, which ends with a recommendation.

use quell_model::amount;
use quell_report::screen::Screen;

use super::super::recommend;
use super::text::concern;
use super::{Fidelity, Report};

/// Findings that are shown; `--all` has the rest.
const FINDINGS: usize = 6;

/// One screen.
pub fn text(report: &Report, screen: &Screen) -> String {
    let works = report.policies.iter().filter(|policy| policy.fidelity != Fidelity::Cannot).count();
    let findings = match report.findings.len() {
        0 => "no problem found".to_owned(),
        count => amount(count, "finding", "findings"),
    };
    let all = report.policies.len();
    let mut lines = vec![screen.wrap(&match report.has_rights {
        true => format!("{} host: {works} of {all} policies work; {findings}", report.host),
        false => format!("{} host: what works here, only root may see: `sudo quell doctor`; {findings}", report.host),
    })];
    for finding in report.findings.iter().take(FINDINGS) {
        lines.push(screen.hang(&format!("  {}  {}", concern(finding.concern), finding.what), 17));
    }
    if report.findings.len() > FINDINGS {
        lines.push(format!("  and {} more", report.findings.len() - FINDINGS));
    }
    let cannot = report.policies.iter().filter(|policy| report.has_rights && policy.fidelity == Fidelity::Cannot);
    let cannot: Vec<&str> = cannot.map(|policy| policy.name).collect();
    if !cannot.is_empty() {
        lines.push(screen.hang(&format!("  cannot work    {}", cannot.join(", ")), 17));
    }
    lines.push(screen.wrap("Details, evidence and fixes: `quell doctor --all`; of one policy: `quell doctor POLICY`"));
    lines.push(String::new());
    lines.push(recommend::text(&report.recommendation, screen));
    lines.push(screen.wrap("For your own service: `quell recommend NAME`"));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::report;
    use super::*;

    #[test]
    fn the_short_form_is_one_screen() {
        let mut many = report();
        let one = many.findings.pop().unwrap();
        many.findings = (0..9).map(|_| one.clone()).collect();
        for columns in [80, 200] {
            let screen = Screen::columns(columns);
            let text = text(&report(), &screen);
            quell_report::testing::assert_fits(&text, columns);
            insta::assert_snapshot!(format!("doctor_short_{columns}"), text);
            assert!(super::text(&many, &screen).lines().count() <= 24, "{}", super::text(&many, &screen));
        }
    }
}
