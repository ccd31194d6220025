//! `quell-lab paper`: runs what Quell claims about itself or repeats from a paper, and says what came out.

pub mod bands;
mod caladan;
mod check;
mod dasec;
mod edgeiso;
mod fairness;
pub mod figure;
mod gap;
mod his;
mod page;
mod queueing;
mod results;
mod rkube;
mod sdc;
pub mod table;
pub mod trial;
mod trials;
mod vas;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use quell_command::output::stamped;
use quell_evidence::{Claim, Measure, Row, Topic, assumptions, topic, topics};
use quell_report::screen::Screen;
use quell_sim::experiment::usual::leave_out;

use figure::seen::Seen;
pub use figure::{Runner, figure_in, is_figure};
use trial::Figure;
pub use trial::{Kept, SEEDS};

/// Run what Quell claims about itself or repeats from a paper, one row a claim.
///
/// A number is "reproduced" within a fifth of its value and of its effect, a "shape" within a factor of two; a direction or
/// a bound "holds" if all of the interval does; else a row "differs". The exit status is 1 if a row differs that is not
/// listed as known to. `docs/lab/reproduce.md` has the rules.
#[derive(Args)]
pub struct Arguments {
    /// What to run, see --list
    #[arg(value_name = "ID", required_unless_present_any = ["list", "check", "tables"])]
    ids: Vec<String>,
    /// List every claim and every assumption; run nothing
    #[arg(long)]
    list: bool,
    /// Hold the claims' quotations and the lists of sentences against the papers' texts in this directory, run nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["ids", "list"])]
    check: Option<PathBuf>,
    /// A shortened run of one seed, a minute or two an ID: no intervals, and so no verdicts
    #[arg(long)]
    quick: bool,
    /// For caladan run only these figures: table1, fig1, fig4 …, unmodified, scale
    #[arg(long, value_name = "FIGURE,…", num_args = 1.., require_equals = true, value_delimiter = ',')]
    only: Vec<String>,
    /// Run those rows, too, that need a real kernel: in the lab; all, or of caladan those of these scenes (`quell-lab run spin --on programs --in lab
    /// --list`)
    #[arg(
        long,
        value_name = "SCENE,…",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = caladan::ALL_SCENES
    )]
    real: Vec<String>,
    /// Run the figures with each assumption, or these, at other values of its range, and with 20 draws of them together at
    /// random: which rows depend on which. With --keep it goes on after a stop
    #[arg(
        long,
        value_name = "NAME,…",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = bands::ALL,
        conflicts_with_all = ["list", "check", "real", "html"]
    )]
    bands: Vec<String>,
    /// Run with another value of an assumption, as in --assume between=1000 (see --list)
    #[arg(long, value_name = "NAME=VALUE")]
    assume: Vec<String>,
    /// Leave mechanisms out of the simulated kernel, to find out which rows they change: lazy-resched-on-irq,
    /// delayed-requeue-before-charge, slice-protection-at-pick, random-newidle-balance, sis-util, tick-phase, decaying-loads
    #[arg(long, value_name = "NAME,…", num_args = 1.., require_equals = true, value_delimiter = ',')]
    without: Vec<String>,
    /// Runs with other random numbers
    #[arg(long, hide = true, default_value_t = trial::SEEDS)]
    seeds: u64,
    /// Keep the results of each part in this directory, and do not run again what is kept there, by whatever build
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write each topic's results to DIR/TOPIC/results.toml
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "only", "list", "check", "bands", "assume", "without"])]
    results: Option<PathBuf>,
    /// Print the results kept in DIR/TOPIC/results.toml as Markdown tables; run nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["ids", "list", "check", "json", "html"])]
    tables: Option<PathBuf>,
    /// Print the rows as one line of JSON
    #[arg(long)]
    json: bool,
    /// Write the rows and their values as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Topics of which single figures can be run.
const SINGLE: [&str; 6] = ["caladan", "his", "edgeiso", "trials", "dasec", "sdc"];

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let chosen = chosen(&arguments.ids)?;
    let mut out = io::stdout().lock();
    if let Some(directory) = &arguments.check {
        return check::run(&mut out, directory);
    }
    if let Some(directory) = &arguments.tables {
        write!(out, "{}", results::page(directory)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        let listed = if chosen.is_empty() { topics().iter().collect() } else { chosen };
        list(&mut out, &listed, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.only.is_empty() && chosen.iter().any(|topic| !SINGLE.contains(&topic.id.as_str())) {
        let only = arguments.only.join(",");
        bail!("--only={only}: single figures can be run only for {}", SINGLE.join(", "));
    }
    if !arguments.bands.is_empty() {
        return bands::run(arguments, &chosen, &mut out);
    }
    bands::assume(&chosen, &arguments.assume)?;
    if !arguments.without.is_empty() {
        leave_out(&arguments.without).map_err(|why| anyhow!("--without: {why}"))?;
    }
    let kept = Kept::new(arguments.keep.as_deref(), arguments.seeds)?;
    let (mut rows, mut pictures, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for topic in &chosen {
        let Figure { measures, blocks } = measured(topic, arguments.quick, &arguments.only, &arguments.real, &kept)?;
        rows.extend(judged(topic, &measures, !arguments.only.is_empty()));
        pictures.extend(blocks);
        if !arguments.real.is_empty() {
            let (judged, seen) = figure::real::run(&topic.id, arguments.quick, &kept)?;
            rows.extend(judged);
            tables.extend(seen);
        }
    }
    if let Some(directory) = &arguments.results {
        results::write(directory, &chosen, &rows, arguments.seeds)?;
    }
    if let Some(path) = &arguments.html {
        pictures.extend(tables.iter().map(Seen::block));
        std::fs::write(path, page::of(&rows, pictures).to_html())
            .with_context(|| format!("write {}", path.display()))?;
    }
    print(&mut out, &rows, &tables, arguments.json)?;
    Ok(if rows.iter().any(Row::surprises) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs a figure's scene and prints its rows and what was seen of it.
pub fn run_figure(file: &Path, runner: Runner, quick: bool, kept: &Kept, json: bool) -> Result<ExitCode> {
    let (rows, tables) = figure::run(file, runner, quick, kept)?;
    print(&mut io::stdout().lock(), &rows, &tables, json)?;
    Ok(if rows.iter().any(Row::surprises) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, rows: &[Row], tables: &[Seen], json: bool) -> Result<()> {
    if json {
        let rows: Vec<_> = rows.iter().map(stamped).collect();
        serde_json::to_writer(&mut *out, &rows)?;
        return Ok(writeln!(out)?);
    }
    let screen = Screen::here();
    write!(out, "{}", table::text(rows, &screen))?;
    for seen in tables {
        write!(out, "{}", seen.text(&screen))?;
    }
    Ok(())
}

/// What an experiment finds.
fn measured(topic: &Topic, quick: bool, only: &[String], real: &[String], kept: &Kept) -> Result<Figure> {
    match topic.id.as_str() {
        "gap" => gap::run(quick, kept),
        "queueing" => queueing::run(quick, kept),
        "fairness" => fairness::run(quick, kept),
        "rkube" => rkube::run(quick, kept),
        "sdc" => sdc::run(quick, only, kept),
        "edgeiso" => edgeiso::run(quick, only, kept),
        "dasec" => dasec::run(quick, only, kept),
        "his" => his::run(quick, only, kept),
        "trials" => trials::run(quick, only, kept),
        "vas" => vas::run(quick, kept),
        "caladan" => caladan::run(quick, only, real, kept),
        id => bail!("nothing can run '{id}'"),
    }
}

/// The topic's claims in their order with what was found. A claim without a value was not run; of a part of a topic it is
/// left out.
fn judged(topic: &'static Topic, measures: &[Measure], is_part: bool) -> Vec<Row> {
    let row = |claim: &'static Claim| {
        let found = measures.iter().find(|measure| measure.id == claim.id);
        match (found, &claim.missing) {
            (Some(measure), _) => Some(Row::of(claim, measure)),
            (None, _) if is_part => None,
            (None, missing) => Some(Row::not_run(claim, missing.as_deref().unwrap_or("not part of this run"))),
        }
    };
    topic.claims.iter().filter_map(row).collect()
}

/// Progress of simulations, for people.
fn progress_bar(length: u64) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{wide_bar} {percent} % simulated, {eta} to go");
    indicatif::ProgressBar::new(length).with_style(style.expect("constant template"))
}

fn chosen(ids: &[String]) -> Result<Vec<&'static Topic>> {
    let known = || topics().iter().map(|topic| topic.id.as_str()).collect::<Vec<_>>().join(", ");
    ids.iter()
        .map(|id| {
            topic(id).with_context(|| {
                format!("there is no '{id}'; there is: {} (a figure's file: quell-lab run FILE)", known())
            })
        })
        .collect()
}

fn list(out: &mut impl Write, topics: &[&Topic], json: bool) -> Result<()> {
    if json {
        let claims: Vec<_> = topics.iter().flat_map(|topic| &topic.claims).map(stamped).collect();
        serde_json::to_writer(&mut *out, &claims)?;
        writeln!(out)?;
        return Ok(());
    }
    for topic in topics {
        writeln!(out, "{}: {}", topic.id, topic.title)?;
        for claim in &topic.claims {
            write!(out, "  {}: {} {}\n{}", claim.id, table::kind(claim), table::claimed(claim), table::words(claim))?;
        }
        for of in assumptions(&topic.id) {
            let source = of.source.as_deref().unwrap_or("no source");
            writeln!(out, "  assumed: {}: {}, {} to {} ({source}; {})", of.what, of.value, of.from, of.to, of.id)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_is_answered_with_the_known_ones() {
        let error = chosen(&["nonsense".into()]).unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("gap"), "{error}");
    }

    #[test]
    fn a_claim_without_a_value_was_not_run_and_is_left_out_of_a_part() {
        let gap = topic("gap").unwrap();
        let measure = trial::measure(gap, "burstable", 0.66, "quiet").unwrap();
        let all = judged(gap, std::slice::from_ref(&measure), false);
        assert_eq!(all.len(), gap.claims.len());
        assert_eq!(all.iter().filter(|row| row.ours.is_some()).count(), 1);
        assert_eq!(judged(gap, &[measure], true).len(), 1);
    }
}
