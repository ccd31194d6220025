//! `quell reproduce`: runs what Quell claims about itself or repeats from a paper, and says what came out.

mod caladan;
mod fairness;
mod gap;
mod page;
mod queueing;
mod rkube;
mod vas;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_evidence::{Row, TOPICS, Topic, Verdict, topic};
use quell_report::screen::Screen;
use quell_report::table::table;

use super::output::stamped;

/// Run what Quell claims about itself or repeats from a paper, one row a claim.
///
/// A row is "reproduced" within the tolerance of its claim, "shape" if direction and order of magnitude are the claim's,
/// else "differs". The exit status is 0 if no row differs.
#[derive(Args)]
pub struct Arguments {
    /// What to run, see --list
    #[arg(value_name = "ID", required_unless_present = "list")]
    ids: Vec<String>,
    /// Name every claim, run nothing
    #[arg(long)]
    list: bool,
    /// A shortened run: a minute or two an ID
    #[arg(long)]
    quick: bool,
    /// Of caladan run these figures only: table1, fig1, fig4 …, unmodified, scale
    #[arg(long, value_name = "FIGURE,…", num_args = 1.., require_equals = true, value_delimiter = ',')]
    only: Vec<String>,
    /// Run those rows, too, that need a real kernel: in the lab; all, or of these scenes (`quell lab peers --list`)
    #[arg(
        long,
        value_name = "SCENE,…",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = caladan::ALL_SCENES
    )]
    real: Vec<String>,
    /// Print the rows as one line of JSON
    #[arg(long)]
    json: bool,
    /// Write the rows and their values as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let chosen = chosen(&arguments.ids)?;
    let mut out = io::stdout().lock();
    if arguments.list {
        let topics = if chosen.is_empty() { TOPICS.iter().collect() } else { chosen };
        list(&mut out, &topics, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.only.is_empty() && chosen.iter().any(|topic| topic.id != "caladan") {
        bail!("--only={}: of caladan alone single figures can be run", arguments.only.join(","));
    }
    let (mut rows, mut pictures) = (Vec::new(), Vec::new());
    for topic in chosen {
        rows.extend(match topic.id {
            "gap" => gap::run(arguments.quick)?,
            "queueing" => queueing::run(arguments.quick)?,
            "fairness" => fairness::run(arguments.quick)?,
            "rkube" => rkube::run(arguments.quick)?,
            "vas" => vas::run(arguments.quick)?,
            "caladan" => {
                let all = caladan::run(arguments.quick, &arguments.only, &arguments.real)?;
                pictures.extend(all.blocks);
                all.rows
            }
            id => bail!("nobody knows how to run '{id}'"),
        });
    }
    if let Some(path) = &arguments.html {
        std::fs::write(path, page::of(&rows, pictures).to_html())
            .with_context(|| format!("write {}", path.display()))?;
    }
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(stamped).collect();
        serde_json::to_writer(&mut out, &rows)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&rows, &Screen::here()))?;
    }
    let differs = rows.iter().any(|row| row.verdict == Verdict::Differs);
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Progress of simulations, for people.
fn progress_bar(length: u64) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{wide_bar} {percent} % simulated, {eta} to go");
    indicatif::ProgressBar::new(length).with_style(style.expect("constant template"))
}

fn chosen(ids: &[String]) -> Result<Vec<&'static Topic>> {
    let known = || TOPICS.iter().map(|topic| topic.id).collect::<Vec<_>>().join(", ");
    ids.iter()
        .map(|id| topic(id).with_context(|| format!("there is no '{id}' to reproduce; there is: {}", known())))
        .collect()
}

fn list(out: &mut impl Write, topics: &[&Topic], json: bool) -> Result<()> {
    if json {
        let claims: Vec<_> = topics.iter().flat_map(|topic| topic.claims).map(stamped).collect();
        serde_json::to_writer(&mut *out, &claims)?;
        writeln!(out)?;
        return Ok(());
    }
    for topic in topics {
        writeln!(out, "{}: {}", topic.id, topic.title)?;
        for claim in topic.claims {
            writeln!(
                out,
                "  {}\n    {}\n    {}, {}",
                claim.id, claim.statement, claim.source.text, claim.source.place
            )?;
            writeln!(out, "    tolerance {:.0} %: {}", 100.0 * claim.tolerance.relative, claim.tolerance.reason)?;
        }
    }
    Ok(())
}

/// The rows for people: a table, then what each claim says and what is to be known about the run.
fn text(rows: &[Row], screen: &Screen) -> String {
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
    let cells = rows.iter().map(|row| {
        [
            row.claim.id.to_owned(),
            claimed(row),
            number(row.ours),
            number(row.ratio()),
            format!("± {:.0} %", 100.0 * row.claim.tolerance.relative),
            row.verdict.to_string(),
        ]
    });
    let head = ["claim", "claimed", "ours", "ratio", "tolerance", "verdict"];
    let mut text = table(head, cells).least(["ratio", "tolerance"]).fit(screen) + "\n\n";
    for row in rows {
        let claim = row.claim;
        text += &format!("{}: {}\n  {}, {}\n", claim.id, claim.statement, claim.source.text, claim.source.place);
        if !row.note.is_empty() {
            text += &format!("  {}\n", row.note);
        }
    }
    text
}

/// The claimed value, with the sign of a bound.
fn claimed(row: &Row) -> String {
    use quell_evidence::Expected;
    let value = row.claim.expected.value();
    match row.claim.expected {
        Expected::Number(_) | Expected::Computed(_) => format!("{value:.3}"),
        Expected::Below(_) => format!("< {value:.3}"),
        Expected::AtMost(_) => format!("≤ {value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_evidence::gap;

    #[test]
    fn an_unknown_id_is_answered_with_the_known_ones() {
        let error = chosen(&["nonsense".into()]).unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("gap"), "{error}");
    }

    #[test]
    fn rows_are_shown_with_what_is_missing() {
        let rows = [Row::measured(&gap::BURSTABLE, 0.66, "quiet"), Row::not_run(&gap::BURSTABLE3, "needs 3 CPUs")];
        let text = text(&rows, &Screen::UNBOUNDED);
        for part in ["gap.burstable", "0.667", "0.660", "reproduced", "not run", "needs 3 CPUs", "quiet"] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(page::of(&rows, Vec::new()).to_html().contains("needs 3 CPUs"));
    }
}
