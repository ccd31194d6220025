//! Scenes of programs under several treatments, over boots with several seeds.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use quell_command::output::stamped;
use quell_evidence::{Cell, Treatment};
use quell_guest::{Lab, ToStderr};
use quell_report::bars::{Bar, log_bars};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use quell_sim::scenario::Shipped;
use serde::Serialize;

use crate::in_guest::boots::{Bench, Boot};
use crate::programs::{self, SCENES, TREATMENTS};

/// A scene of programs under several treatments, in lock-step time: what Linux's own means, published sched_ext schedulers
/// and Quell reach.
///
/// Each treatment, number of CPUs and seed is one boot, as many of them at once as this machine has CPUs; CPUs execute 125
/// million instructions a second. Results are kept: an interrupted comparison goes on where it was.
pub struct Comparison {
    /// The scene.
    pub scene: &'static Shipped,
    /// Only these treatments; none: all.
    pub against: Vec<String>,
    /// Numbers of CPUs.
    pub cpus: Vec<u32>,
    /// Seeds of the load's schedule: 1 to this number.
    pub seeds: u64,
    /// Each cell's load lasts this long.
    pub seconds: u32,
    /// CPUs and load this many times as fast.
    pub speed: u32,
    /// Do load generators run among the programs, not on CPUs of their own?
    pub shared: bool,
    /// The kernel's version; None: the best that can be had.
    pub kernel: Option<String>,
    /// Is only shown what was measured before?
    pub cached: bool,
    /// Do bars of the p99 stand above the table?
    pub bars: bool,
    /// Are the rows printed as JSON?
    pub json: bool,
}

/// The treatment with which the others' bars are compared.
const ALONE: &str = "alone";

/// The treatments and the scenes.
pub fn list(out: &mut impl Write) -> Result<()> {
    let screen = Screen::here();
    let of_peers = table(["treatment", "what it is"], TREATMENTS.iter().map(|peer| [&peer.name, peer.title()]));
    let titled = SCENES.iter().map(|scene| Ok([scene.name.to_owned(), title(scene)?]));
    let of_scenes = table(["scene of programs", "what it is"], titled.collect::<Result<Vec<_>>>()?);
    Ok(writeln!(out, "{}\n\n{}", of_scenes.fit(&screen), of_peers.fit(&screen))?)
}

/// Measures what is not kept and prints the table.
pub fn run(asked: &Comparison) -> Result<ExitCode> {
    let peers = chosen(&asked.against)?;
    let lab = Lab::new(&ToStderr)?;
    let bench = Bench::new(&lab, asked.kernel.as_deref(), asked.speed, asked.seconds)?;
    let boots: Vec<_> = asked
        .cpus
        .iter()
        .flat_map(|&cpus| peers.iter().map(move |&peer| (cpus, peer)))
        .flat_map(|(cpus, treatment)| {
            let (scene, shared) = (asked.scene, asked.shared);
            (1..=asked.seeds).map(move |seed| Boot { scene, treatment, cpus, seed, shared })
        })
        .collect();
    if !asked.cached {
        bench.measure_missing(&boots)?;
    }
    let mut rows = Vec::new();
    for of_one in boots.chunks(asked.seeds as usize) {
        let found: Vec<_> = of_one.iter().filter_map(|&boot| bench.cached(boot)).collect();
        rows.extend(summarised(of_one[0].treatment, of_one[0].cpus, &found));
    }
    let mut out = io::stdout().lock();
    if asked.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows.iter().map(stamped).collect::<Vec<_>>())?)?;
    } else {
        if asked.bars {
            writeln!(out, "{}", bars(&title(asked.scene)?, &rows, &Screen::here()))?;
        }
        writeln!(out, "{}", text(&rows, &Screen::here()))?;
        if out.is_terminal() {
            writeln!(out, "kernel {}; median over the seeds (smallest to largest)", bench.kernel_release())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The scene of programs of this name.
///
/// # Errors
/// If there is none.
pub fn scene(name: &str) -> Result<&'static Shipped> {
    let known = || SCENES.iter().map(|scene| scene.name).collect::<Vec<_>>().join(", ");
    programs::scene(name).with_context(|| format!("there is no scene of programs '{name}'; there are {}", known()))
}

fn title(scene: &Shipped) -> Result<String> {
    let file: toml::Table = toml::from_str(scene.text)?;
    Ok(file.get("title").and_then(toml::Value::as_str).unwrap_or_default().to_owned())
}

/// The treatments of these names, in the table's order; none: all.
///
/// # Errors
/// If there is none of a name.
pub fn chosen(only: &[String]) -> Result<Vec<&'static Treatment>> {
    if let Some(unknown) = only.iter().find(|name| programs::treatment(name).is_none()) {
        let known: Vec<_> = TREATMENTS.iter().map(|treatment| treatment.name.as_str()).collect();
        bail!("--against {unknown}: there is no such treatment; there are {}", known.join(", "));
    }
    Ok(TREATMENTS.iter().filter(|treatment| only.is_empty() || only.contains(&treatment.name)).collect())
}

/// Median, smallest and largest of the seeds' values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    /// Of an even number the lower one of the two in the middle.
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Some(Self { median: values[values.len().checked_sub(1)? / 2], min: values[0], max: *values.last()? })
    }
}

/// A row of the table: measurements of one server's clients.
#[derive(Serialize)]
struct Summary {
    peer: Peer,
    cpus: u32,
    server: String,
    seeds: usize,
    p50_ns: Spread,
    p99_ns: Spread,
    p999_ns: Spread,
    /// Answers per second.
    served_per_s: Spread,
    /// The work of all that runs beside the servers, blocks per second.
    work_per_s: Option<Spread>,
    /// The generator's own lateness, 99th percentile.
    lateness_p99_ns: Spread,
}

#[derive(Serialize)]
struct Peer {
    id: &'static str,
    title: &'static str,
    scheduler: Option<&'static str>,
    policy: Option<&'static str>,
}

/// The rows of a treatment over what boots with several seeds found, one a server; none if there are none.
fn summarised(treatment: &'static Treatment, cpus: u32, found: &[Vec<Cell>]) -> Vec<Summary> {
    let is_server = |cell: &&Cell| cell.late.is_some();
    let row = |(at, server): (usize, &Cell)| {
        let seen = || found.iter().filter_map(move |cells| cells.iter().filter(is_server).nth(at));
        let spread = |us: fn(&Cell) -> Option<f64>| Spread::of(seen().map(|cell| us(cell).unwrap_or(0.0) * 1e3));
        let work = |cells: &Vec<Cell>| {
            let beside: Vec<f64> = cells.iter().filter(|cell| cell.late.is_none()).map(|cell| cell.rate).collect();
            (!beside.is_empty()).then(|| beside.iter().sum())
        };
        Some(Summary {
            peer: Peer {
                id: &treatment.name,
                title: treatment.title(),
                scheduler: treatment.sched_ext.first().map(String::as_str),
                policy: Some(treatment.policy.as_str()).filter(|policy| *policy != "none"),
            },
            cpus,
            server: server.workload.clone(),
            seeds: found.len(),
            p50_ns: spread(|cell| cell.p50)?,
            p99_ns: spread(|cell| cell.p99)?,
            p999_ns: spread(|cell| cell.p999)?,
            served_per_s: Spread::of(seen().map(|cell| cell.rate))?,
            work_per_s: Spread::of(found.iter().filter_map(work)),
            lateness_p99_ns: spread(|cell| cell.late)?,
        })
    };
    found.first().into_iter().flat_map(|cells| cells.iter().filter(is_server)).enumerate().filter_map(row).collect()
}

/// The p99 of the rows as bars, with the multiple of that alone on as many CPUs.
fn bars(title: &str, rows: &[Summary], screen: &Screen) -> String {
    let alone = |cpus: u32| rows.iter().find(|row| row.peer.id == ALONE && row.cpus == cpus);
    let is_only = |cpus: u32| rows.iter().all(|row| row.cpus == cpus);
    let bar = |row: &Summary| {
        let on = if is_only(row.cpus) { String::new() } else { format!(", {} CPUs", row.cpus) };
        let p99 = row.p99_ns.median;
        let times = alone(row.cpus).filter(|alone| alone.peer.id != row.peer.id && alone.p99_ns.median > 0.0);
        let times = times.map_or(String::new(), |alone| format!("  {:.1} ×", p99 / alone.p99_ns.median));
        Bar { label: format!("{}{on}", row.peer.title), ns: p99 as u64, text: human::nanoseconds(p99 as u64) + &times }
    };
    format!("p99 latency, {title}; shorter is better\n{}", log_bars(&rows.iter().map(bar).collect::<Vec<_>>(), screen))
}

fn text(rows: &[Summary], screen: &Screen) -> String {
    let head = ["", "CPUs", "seeds", "server", "answers/s", "p50 µs", "p99 µs", "p99.9 µs", "work, blocks/s"];
    let lines = rows.iter().map(|row| {
        let microseconds = |spread: &Spread| spread_text(spread, 1e3);
        [
            row.peer.title.to_owned(),
            row.cpus.to_string(),
            row.seeds.to_string(),
            row.server.clone(),
            spread_text(&row.served_per_s, 1.0),
            microseconds(&row.p50_ns),
            microseconds(&row.p99_ns),
            microseconds(&row.p999_ns),
            row.work_per_s.as_ref().map_or(String::new(), |spread| spread_text(spread, 1.0)),
        ]
    });
    table(head, lines).least(["seeds", "server", "p99.9 µs"]).fit(screen)
}

fn spread_text(spread: &Spread, unit: f64) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| format!("{:.0}", value / unit));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_peers_are_refused_with_those_that_exist() {
        let error = chosen(&["nothere".into()]).unwrap_err().to_string();
        assert!(error.contains("nothere") && error.contains("fifo"), "{error}");
        assert_eq!(chosen(&["fifo".into(), "alone".into()]).unwrap().len(), 2);
        assert_eq!(chosen(&[]).unwrap().len(), TREATMENTS.len());
        assert!(scene("nothing").unwrap_err().to_string().contains("spin, phased"));
    }

    #[test]
    fn a_row_has_median_and_extremes() {
        let boot = |p99, work: Option<f64>| {
            let server = Cell { workload: "server".into(), p99: Some(p99), late: Some(1.0), ..Cell::default() };
            [server].into_iter().chain(work.map(|rate| Cell { rate, ..Cell::default() })).collect::<Vec<_>>()
        };
        let row = summarised(&TREATMENTS[0], 2, &[boot(5.0, None), boot(3.0, None), boot(4.0, None)]).remove(0);
        assert_eq!(row.p99_ns, Spread { median: 4e3, min: 3e3, max: 5e3 });
        assert_eq!((row.server.as_str(), row.work_per_s), ("server", None));
        let row = summarised(&TREATMENTS[1], 2, &[boot(5.0, Some(8.0)), boot(3.0, Some(6.0))]).remove(0);
        assert_eq!(row.work_per_s, Some(Spread { median: 6.0, min: 6.0, max: 8.0 }));
        assert!(summarised(&TREATMENTS[0], 2, &[]).is_empty());
    }

    #[test]
    fn bars_come_with_the_multiple_of_the_server_alone() {
        let of = |name: &str, cpus, p99_us| {
            let cells = vec![Cell { p99: Some(p99_us), late: Some(1.0), ..Cell::default() }];
            summarised(programs::treatment(name).unwrap(), cpus, &[cells]).remove(0)
        };
        let screen = Screen::columns(80);
        let one = bars("a scene", &[of("alone", 2, 100.0), of("equal", 2, 1000.0)], &screen);
        quell_report::testing::assert_fits(&one, 80);
        assert!(one.starts_with("p99 latency, a scene; shorter is better\n"), "{one}");
        assert!(one.contains("1.00 ms  10.0 ×") && one.matches('×').count() == 1, "{one}");
        let two = bars("", &[of("alone", 2, 100.0), of("equal", 4, 50.0), of("alone", 4, 25.0)], &screen);
        assert!(two.contains(", 4 CPUs") && two.contains("50.0 µs  2.0 ×"), "{two}");
        assert!(!bars("", &[of("equal", 2, 9.0)], &screen).contains('×'), "nothing to compare with");
    }

    #[test]
    fn spreads_are_read_at_a_glance() {
        let spread = |median, min, max| spread_text(&Spread { median, min, max }, 1e3);
        assert_eq!(spread(136_400.0, 134_000.0, 2_000_000.0), "136 (134–2000)");
        assert_eq!(spread(136_400.0, 135_900.0, 136_499.0), "136");
    }
}
