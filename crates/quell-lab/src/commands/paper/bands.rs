//! `quell-lab paper --bands`: how far rows depend on what is assumed.
//!
//! Each set of values is a run of its own process. A value's row is of one seed; where its verdict is another one than with the
//! usual values, both are run with five.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use quell_command::request::{Asked, Request};
use quell_evidence::{Assumption, Claim, Expected, Interval, Row, Topic, Verdict, assumptions, judge, topic};
use quell_report::screen::Screen;
use quell_report::table::table;
use quell_sim::Stream;
use quell_sim::experiment::assumed::{ASSUMED, vary};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::trial::{self, Kept};
use super::{Arguments, stamped};

/// All assumptions that touch the rows.
pub const ALL: &str = "all";
/// How often all assumptions are drawn together.
const DRAWS: usize = 20;
/// The draws' random numbers.
const SEED: u64 = 1;

/// Values of some assumptions, by name.
type Point = BTreeMap<String, f64>;

/// What a run found of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    id: String,
    ours: Option<f64>,
    interval: Option<Interval>,
}

/// A row over all points.
#[derive(Debug, PartialEq)]
struct Band {
    id: String,
    usual: (f64, Verdict),
    /// The least and the most.
    range: (f64, f64),
    /// The assumption that moves it farthest, and the values that it then has.
    decides: Option<(String, f64, f64)>,
    /// The values with which its verdict is another one: what was varied, and the verdict.
    flips: Vec<(String, Verdict)>,
}

/// Varies the inputs of this process, as `--assume` says.
pub fn assume(topics: &[&Topic], given: &[String]) -> Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let [topic] = topics else { bail!("--assume is of one topic's assumptions: name that topic alone") };
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').with_context(|| format!("--assume {text}: give NAME=VALUE"))?;
        let value: f64 = value.parse().with_context(|| format!("--assume {text}: give a number"))?;
        Ok((name.to_owned(), value))
    };
    set(topic, &given.iter().map(pair).collect::<Result<Point>>()?)
}

/// Varies the inputs of this process.
fn set(topic: &Topic, point: &Point) -> Result<()> {
    if point.is_empty() {
        return Ok(());
    }
    let point: Point = point.iter().map(|(name, value)| (format!("{}.{name}", topic.id), *value)).collect();
    let known = || varied_of(topic).iter().map(|of| of.id.as_str()).collect::<Vec<_>>().join(", ");
    vary(point).map_err(|name| anyhow!("--assume: '{name}' cannot be varied; of {} there are: {}", topic.id, known()))
}

/// The assumptions of a topic that experiments can vary.
fn varied_of(topic: &Topic) -> Vec<&'static Assumption> {
    let can = |of: &&Assumption| ASSUMED.iter().any(|(name, _)| *name == format!("{}.{}", topic.id, of.id));
    assumptions(&topic.id).iter().filter(can).collect()
}

/// Runs all points and says what came out.
pub fn run(arguments: &Arguments, topics: &[&'static Topic], out: &mut impl Write) -> Result<ExitCode> {
    let [topic] = topics else { bail!("--bands is of one topic") };
    let figure = |id: &str| {
        let name = id.strip_prefix(&format!("{}.", topic.id)).unwrap_or(id);
        arguments.only.is_empty() || arguments.only.iter().any(|figure| name.starts_with(figure.as_str()))
    };
    let claims: Vec<&Claim> = topic.claims.iter().filter(|claim| figure(&claim.id)).collect();
    let touches = |of: &&&Assumption| claims.iter().any(|claim| of.touches(&claim.id));
    let all = varied_of(topic);
    let is_asked = |of: &&&Assumption| arguments.bands.iter().any(|name| name == ALL || *name == of.id);
    let chosen: Vec<&Assumption> = all.iter().filter(touches).filter(is_asked).copied().collect();
    let can = || all.iter().filter(touches).map(|of| of.id.as_str()).collect::<Vec<_>>().join(", ");
    let is_known = |name: &&String| *name == ALL || chosen.iter().any(|of| of.id == **name);
    if let Some(unknown) = arguments.bands.iter().find(|name| !is_known(name)) {
        bail!("--bands={unknown}: that cannot be varied for these rows; there are: {}", can());
    }
    if chosen.is_empty() {
        bail!("no assumption that can be varied touches these rows of {}", topic.id);
    }
    let mut points = vec![Point::new()];
    for of in &chosen {
        points.extend(of.varied().into_iter().map(|value| Point::from([(of.id.clone(), value)])));
    }
    points.extend(draws(&chosen));
    let bar = bar(points.len());
    let runs = points.par_iter().with_max_len(1).map(|point| once(arguments, topic, point, 1).inspect(|_| bar.inc(1)));
    let runs: Vec<Vec<Found>> = runs.collect::<Result<_>>()?;
    bar.finish_and_clear();
    let mut bands: Vec<Band> = claims.iter().filter_map(|claim| band(claim, &points, &runs)).collect();
    if !arguments.quick {
        confirm(arguments, topic, &claims, &points, &mut bands)?;
    }
    let left: Vec<&str> =
        assumptions(&topic.id).iter().filter(|of| !chosen.contains(of)).map(|of| of.id.as_str()).collect();
    if arguments.json {
        let bands: Vec<_> = bands.iter().map(Band::json).collect();
        writeln!(out, "{}", serde_json::to_string(&stamped(json!({ "bands": bands, "not_varied": left })))?)?;
    } else {
        write!(out, "{}", text(&bands, &left, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All assumptions at random, evenly over their ranges' logarithms; none of a single one, which has points of its own.
fn draws(chosen: &[&Assumption]) -> Vec<Point> {
    let together = chosen.iter().filter(|of| !of.tuned).count();
    if together < 2 {
        return Vec::new();
    }
    let mut stream = Stream::new(SEED, 0);
    let mut draw = |of: &&Assumption| {
        let value = of.from * (of.to / of.from).powf(stream.unit());
        (of.id.clone(), (value * 1e4).round() / 1e4)
    };
    (0..DRAWS).map(|_| chosen.iter().filter(|of| !of.tuned).map(&mut draw).collect()).collect()
}

/// A topic's rows with values of its assumptions, in a process of its own.
#[derive(Serialize, Deserialize)]
pub struct Run {
    topic: String,
    /// This many.
    seeds: u64,
    quick: bool,
    only: Vec<String>,
    /// Where parts are kept.
    keep: Option<PathBuf>,
    point: Point,
}

impl Request for Run {
    const NAME: &'static str = "reproduce";
    type Answer = Vec<Found>;

    fn answer(self) -> Result<Vec<Found>> {
        let topic = topic(&self.topic).with_context(|| format!("there is no topic '{}'", self.topic))?;
        set(topic, &self.point)?;
        let kept = Kept::new(self.keep.as_deref(), self.seeds)?;
        let measures = super::measured(topic, self.quick, &self.only, &[], &kept)?.measures;
        let rows = super::judged(topic, &measures, !self.only.is_empty());
        let found = |row: Row| Found { id: row.claim.id.clone(), ours: row.ours, interval: row.interval };
        Ok(rows.into_iter().map(found).collect())
    }
}

fn once(arguments: &Arguments, topic: &Topic, point: &Point, seeds: u64) -> Result<Vec<Found>> {
    let request = Run {
        topic: topic.id.clone(),
        seeds,
        quick: arguments.quick,
        only: arguments.only.clone(),
        keep: arguments.keep.as_ref().map(|directory| directory.join(name_of(point))),
        point: point.clone(),
    };
    // As many processes as CPUs, each on one.
    let start = |command: &mut Command| {
        command.env("RAYON_NUM_THREADS", "1").stderr(Stdio::null()).spawn().context("run a point")
    };
    let answer = Asked::start(&request, start).and_then(Asked::answer);
    answer.with_context(|| format!("the run with {} failed", name_of(point)))
}

fn name_of(point: &Point) -> String {
    let parts: Vec<String> = point.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if parts.is_empty() { "usual".into() } else { parts.join(",") }
}

/// Of one seed: the verdict as if there were no spread.
fn verdict(expected: &Expected, found: &Found) -> Option<(f64, Verdict)> {
    let ours = found.ours?;
    let interval = found.interval.unwrap_or(Interval { low: ours, high: ours });
    Some((ours, judge(expected, ours, Some(interval))))
}

fn band(claim: &Claim, points: &[Point], runs: &[Vec<Found>]) -> Option<Band> {
    let of = |run: &Vec<Found>| {
        let found = run.iter().find(|found| found.id == claim.id)?;
        verdict(&claim.expected, found)
    };
    let usual = of(runs.first()?)?;
    let mut band = Band { id: claim.id.clone(), usual, range: (usual.0, usual.0), decides: None, flips: Vec::new() };
    let mut widest = 0.0;
    for (point, run) in points.iter().zip(runs).skip(1) {
        let Some((ours, verdict)) = of(run) else { continue };
        band.range = (band.range.0.min(ours), band.range.1.max(ours));
        if verdict != usual.1 {
            band.flips.push((name_of(point), verdict));
        }
        let single =
            if let [(name, value)] = &point.iter().collect::<Vec<_>>()[..] { Some((*name, **value)) } else { None };
        if let Some((name, value)) = single
            && (ours - usual.0).abs() > widest
        {
            widest = (ours - usual.0).abs();
            band.decides = Some((name.clone(), value, ours));
        }
    }
    Some(band)
}

/// A flip of one seed is one only if five seeds have it, too.
fn confirm(
    arguments: &Arguments,
    topic: &Topic,
    claims: &[&Claim],
    points: &[Point],
    bands: &mut [Band],
) -> Result<()> {
    let is_flip = |point: &&Point| bands.iter().any(|band| band.flips.iter().any(|(name, _)| *name == name_of(point)));
    let mut again: Vec<&Point> = points.iter().filter(is_flip).collect();
    if again.is_empty() {
        return Ok(());
    }
    again.insert(0, &points[0]);
    let bar = bar(again.len());
    let runs = again
        .par_iter()
        .with_max_len(1)
        .map(|point| once(arguments, topic, point, trial::SEEDS).inspect(|_| bar.inc(1)));
    let runs: Vec<Vec<Found>> = runs.collect::<Result<_>>()?;
    bar.finish_and_clear();
    let points: Vec<Point> = again.into_iter().cloned().collect();
    for band in bands.iter_mut().filter(|band| !band.flips.is_empty()) {
        let Some(claim) = claims.iter().find(|claim| claim.id == band.id) else { continue };
        if let Some(sure) = self::band(claim, &points, &runs) {
            (band.usual, band.flips) = (sure.usual, sure.flips);
        }
    }
    Ok(())
}

fn bar(length: usize) -> ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{wide_bar} {pos} of {len} runs, {eta} to go");
    ProgressBar::new(length as u64).with_style(style.expect("constant template"))
}

fn text(bands: &[Band], left: &[&str], screen: &Screen) -> String {
    let cells = bands.iter().map(|band| {
        let decides = band.decides.as_ref();
        [
            band.id.clone(),
            super::table::number(band.usual.0),
            format!("{} to {}", super::table::number(band.range.0), super::table::number(band.range.1)),
            band.usual.1.to_string(),
            if band.flips.is_empty() { String::new() } else { "fragile".into() },
            decides.map_or("–".into(), |(name, value, ours)| {
                format!("{name}: {value} gives {}", super::table::number(*ours))
            }),
        ]
    });
    let head = ["claim", "ours", "over all values", "verdict", "", "decides"];
    let mut text = table(head, cells).fit(screen) + "\n\n";
    for band in bands.iter().filter(|band| !band.flips.is_empty()) {
        let (draws, single): (Vec<_>, Vec<_>) = band.flips.iter().partition(|(name, _)| name.contains(','));
        let mut flips: Vec<String> = single.iter().map(|(name, verdict)| format!("{verdict} with {name}")).collect();
        for verdict in Verdict::ALL {
            let count = draws.iter().filter(|(_, flipped)| *flipped == verdict).count();
            flips.extend((count > 0).then(|| format!("{verdict} in {count} of {DRAWS} draws")));
        }
        text += &format!("{}: {}\n", band.id, flips.join("; "));
    }
    if !left.is_empty() {
        text += &format!("not varied: {}\n", left.join(", "));
    }
    text
}

impl Band {
    fn json(&self) -> serde_json::Value {
        let flips: Vec<_> =
            self.flips.iter().map(|(with, verdict)| json!({ "with": with, "verdict": verdict })).collect();
        let decides =
            self.decides.as_ref().map(|(name, value, ours)| json!({ "id": name, "value": value, "ours": ours }));
        json!({
            "id": self.id, "ours": self.usual.0, "verdict": self.usual.1, "from": self.range.0, "to": self.range.1,
            "fragile": !self.flips.is_empty(), "flips": flips, "decides": decides,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_evidence::topic;

    #[test]
    fn what_experiments_can_vary_has_the_tables_values() {
        for (name, value) in ASSUMED {
            let (topic, id) = name.split_once('.').unwrap();
            let of = assumptions(topic).iter().find(|of| of.id == id);
            assert_eq!(of.map(|of| of.value), Some(value), "{name}");
        }
    }

    #[test]
    fn a_row_has_its_range_the_assumption_that_decides_and_its_flips() {
        let claim = topic("caladan").unwrap().claims.iter().find(|claim| claim.id == "caladan.fig5.caladan").unwrap();
        let Expected::Number { value, .. } = claim.expected else { panic!("{claim:?}") };
        let point = |name: &str, to: f64| Point::from([(name.to_owned(), to)]);
        let mut both = point("a", 3.0);
        both.insert("b".into(), 4.0);
        let points = [Point::new(), point("a", 1.0), point("b", 2.0), both];
        let run = |times: f64| vec![Found { id: claim.id.clone(), ours: Some(value * times), interval: None }];
        let runs = [run(1.0), run(1.1), run(0.001), run(0.5)];
        let band = band(claim, &points, &runs).unwrap();
        assert_eq!((band.usual.1, band.range), (Verdict::Reproduced, (value * 0.001, value * 1.1)));
        assert_eq!(band.decides, Some(("b".into(), 2.0, value * 0.001)));
        let flips: Vec<&str> = band.flips.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(flips, ["b=2", "a=3,b=4"]);
        let shown = text(&[band], &["c"], &Screen::columns(100));
        assert!(shown.contains("fragile") && shown.contains("not varied: c"), "{shown}");
        assert!(shown.contains("differs with b=2; shape in 1 of 20 draws"), "{shown}");
    }

    #[test]
    fn draws_lie_within_their_ranges_and_are_the_same_each_time() {
        let all = varied_of(topic("caladan").unwrap());
        let points = draws(&all);
        assert_eq!((points.len(), &points), (DRAWS, &draws(&all)));
        let one = all.iter().copied().find(|of| !of.tuned);
        assert!(draws(&one.into_iter().collect::<Vec<_>>()).is_empty(), "nothing is together with one alone");
        for of in &all {
            let within = |point: &Point| match point.get(&of.id) {
                Some(value) => !of.tuned && (of.from * 0.999..=of.to * 1.001).contains(value),
                None => of.tuned,
            };
            assert!(points.iter().all(within), "{}", of.id);
        }
    }
}
