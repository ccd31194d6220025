//! `quell lab peers`: what Linux's own means and published schedulers reach.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_lab::peers::{Bench, Cell, PEERS, Peer, SCENES, Scene, Spread, Summary, summarise};
use quell_lab::{Lab, ToStderr};
use quell_report::screen::Screen;
use quell_report::table::table;

use super::measure::measure_missing;
use crate::commands::output::stamped;

/// Compare what Linux's own means and published sched_ext schedulers reach, in lock-step time
///
/// By default memcached -t 1 under 1,200 requests a second, beside two spinning threads a CPU, on CPUs of 125 million
/// instructions a second; other scenes: --list. Each peer, number of CPUs and seed is one boot, as many of them at once as
/// this machine has CPUs. Results are kept: an interrupted comparison goes on where it was. Use a release build: the load
/// generator's own instructions count.
#[derive(Args)]
pub struct Arguments {
    /// Numbers of CPUs
    #[arg(long, value_delimiter = ',', default_value = "2,4", value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Vec<u32>,
    /// Seeds of the load's schedule: 1 to this number
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Only these peers
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    only: Vec<String>,
    /// What runs beside what
    #[arg(long, default_value = "spin", value_name = "ID", value_parser = scene)]
    scene: &'static Scene,
    /// Each cell's load lasts so long
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// CPUs and load so many times as fast: nearer to a real CPU, and so many times as dear
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    speed: u32,
    /// Kernel version, as in 6.18.15 [default: the best that can be had]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// List the peers and the scenes and end
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Print what was measured before, and measure nothing
    #[arg(long)]
    cached: bool,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

/// Measures what is not in the cache and prints the table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let peers = chosen(&arguments.only)?;
    if arguments.list {
        let screen = Screen::here();
        let mut out = io::stdout().lock();
        let of_peers = table(["peer", "what it is"], peers.iter().map(|peer| [peer.id, peer.title]));
        let of_scenes = table(["scene", "what it is"], SCENES.iter().map(|scene| [scene.id, scene.title]));
        writeln!(out, "{}\n\n{}", of_peers.fit(&screen), of_scenes.fit(&screen))?;
        return Ok(ExitCode::SUCCESS);
    }
    let lab = Lab::new(&ToStderr)?;
    let bench =
        Bench::new(&lab, &std::env::current_exe()?, arguments.kernel.as_deref(), arguments.speed, arguments.seconds)?;
    let cells: Vec<_> = arguments
        .cpus
        .iter()
        .flat_map(|&cpus| peers.iter().map(move |peer| (cpus, peer)))
        .flat_map(|(cpus, peer)| {
            (1..=arguments.seeds).map(move |seed| Cell { scene: arguments.scene, peer, cpus, seed })
        })
        .collect();
    if !arguments.cached {
        measure_missing(&bench, &cells)?;
    }
    let mut rows = Vec::new();
    for of_one in cells.chunks(arguments.seeds as usize) {
        let results: Vec<_> = of_one.iter().filter_map(|&cell| bench.cached(cell)).collect();
        rows.extend(summarise(arguments.scene, of_one[0].peer, of_one[0].cpus, &results));
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows.iter().map(stamped).collect::<Vec<_>>())?)?;
    } else {
        writeln!(out, "{}", text(&rows, &Screen::here()))?;
        if out.is_terminal() {
            writeln!(out, "kernel {}; median over the seeds (smallest to largest)", bench.kernel_release())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn scene(id: &str) -> Result<&'static Scene, String> {
    let known = || SCENES.map(|scene| scene.id).join(", ");
    Scene::find(id).ok_or_else(|| format!("there is no such scene; there are {}", known()))
}

fn chosen(only: &[String]) -> Result<Vec<Peer>> {
    if let Some(unknown) = only.iter().find(|id| PEERS.iter().all(|peer| peer.id != **id)) {
        let known: Vec<_> = PEERS.iter().map(|peer| peer.id).collect();
        bail!("--only {unknown}: there is no such peer; there are {}", known.join(", "));
    }
    Ok(PEERS.into_iter().filter(|peer| only.is_empty() || only.iter().any(|id| id == peer.id)).collect())
}

fn text(rows: &[Summary], screen: &Screen) -> String {
    let head = ["", "CPUs", "seeds", "server", "answers/s", "p50 µs", "p99 µs", "p99.9 µs", "work, blocks/s"];
    let lines = rows.iter().map(|row| {
        let microseconds = |spread: &Spread| spread_text(spread, 1e3);
        [
            row.peer.title.to_owned(),
            row.cpus.to_string(),
            row.seeds.to_string(),
            row.server.to_owned(),
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
        let error = chosen(&["nobody".into()]).unwrap_err().to_string();
        assert!(error.contains("nobody") && error.contains("fifo"), "{error}");
        assert_eq!(chosen(&["fifo".into(), "alone".into()]).unwrap().len(), 2);
        assert_eq!(chosen(&[]).unwrap().len(), PEERS.len());
        assert!(scene("nothing").unwrap_err().contains("spin, phased"));
    }

    #[test]
    fn spreads_are_read_at_a_glance() {
        let spread = |median, min, max| spread_text(&Spread { median, min, max }, 1e3);
        assert_eq!(spread(136_400.0, 134_000.0, 2_000_000.0), "136 (134–2000)");
        assert_eq!(spread(136_400.0, 135_900.0, 136_499.0), "136");
    }
}
