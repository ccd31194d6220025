//! Figures of programs that are no part of Quell, in the lab: a script in the guest, and what it prints.

use anyhow::{Context, Result, bail};
use quell_evidence::{Cell, Figure, Treatment};
use quell_guest::{Job, Lab, Lockstep, Machine, ToStderr};
use serde::Deserialize;

use quell_command::programs::found;

const SCRIPT: &str = include_str!("redis.sh");
/// Everything that the script calls and that a bare guest lacks, and the package that has it.
const TOOLS: [(&str, &str); 6] = [
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("chrt", "util-linux"),
    ("taskset", "util-linux"),
    ("paste", "coreutils"),
    ("xargs", "findutils"),
];
/// A request takes about half a millisecond at this speed, four times the paper's; the quantum is a 25th of that.
const LOCKSTEP: Lockstep = Lockstep { serial: true, mips: 125, quantum_ns: 20_000 };
const CPUS: u32 = 2;
const SECONDS: u32 = 4;

/// One boot, all columns.
pub fn in_guest(figure: &Figure, seed: u64) -> Result<Vec<Cell>> {
    let quell = crate::product::file()?;
    let mut files = vec![quell.clone()];
    for (tool, package) in TOOLS {
        files.push(found(tool, package)?);
    }
    let machine = Machine::measuring(CPUS, LOCKSTEP, files);
    let mut job = Job::new(["sh", "-c", SCRIPT]);
    job.directory = "/".into();
    job.environment = [
        ("QUELL", quell.display().to_string()),
        ("SEED", seed.to_string()),
        ("SECONDS_OF_LOAD", SECONDS.to_string()),
        ("COLUMNS", figure.treatments.iter().map(line).collect::<Result<Vec<_>>>()?.join("\n")),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    let output = Lab::new(&ToStderr)?.output(&machine, &job)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.ending.status != 0 {
        bail!("exit status {} in the guest: {}", output.ending.status, said.trim());
    }
    eprintln!("{}", said.trim());
    cells(&String::from_utf8_lossy(&output.stdout))
}

/// A treatment as the script reads it: `policy = "vas"`, or `set = ["deadline"]`; with `"share=77"`, hundredths of a CPU.
fn line(treatment: &Treatment) -> Result<String> {
    let is_deadline = treatment.set.iter().any(|word| word == "deadline");
    let share = treatment.set.iter().find_map(|word| word.strip_prefix("share="));
    let share: u32 = share.unwrap_or_default().parse().with_context(|| {
        format!("treatment '{}': give its share of a CPU, as in set = [\"share=77\"]", treatment.name)
    })?;
    Ok(format!("{} {} {share}", treatment.name, if is_deadline { "deadline" } else { treatment.policy.as_str() }))
}

#[derive(Deserialize)]
struct Load {
    served_per_s: f64,
    latency: Latency,
}

#[derive(Deserialize)]
struct Latency {
    mean_ns: f64,
    quantiles: Vec<Quantile>,
    histogram: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct Quantile {
    q: f64,
    ns: u64,
}

/// What the script printed: the service, and the neighbour, whose CPUs are a part of what the others left of the machine.
fn cells(printed: &str) -> Result<Vec<Cell>> {
    let mut lines = printed.lines();
    let mut cells = Vec::new();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["column", name, service, neighbour, own, span] = words[..] else { bail!("'{line}' is not a column") };
        let load = lines.next().and_then(|line| line.strip_prefix("load ")).context("a column without its load")?;
        let load: Load = serde_json::from_str(load).context("read the load's report")?;
        let [service, neighbour, own, span] = [service, neighbour, own, span].map(|ns| ns.parse().unwrap_or(0.0));
        let at = |q: f64| load.latency.quantiles.iter().find(|of| (of.q - q).abs() < 1e-9).map(|of| of.ns as f64 / 1e3);
        let plain = Cell {
            policy: name.to_owned(),
            workload: "service".to_owned(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            mean: Some(load.latency.mean_ns / 1e3),
            rate: load.served_per_s,
            cpus: service / span,
            latencies: load.latency.histogram,
            ..Cell::default()
        };
        let left = f64::from(CPUS) * span - service - own;
        let of_neighbour = Cell {
            workload: "neighbour".to_owned(),
            policy: name.to_owned(),
            cpus: neighbour / left,
            ..Cell::default()
        };
        cells.extend([plain, of_neighbour]);
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_prints_is_read() {
        let load = r#"{"served_per_s": 900, "latency": {"mean_ns": 2000.0, "quantiles": [{"q": 0.5, "ns": 1500}], "histogram": [[1500, 3]]}}"#;
        let cells = cells(&format!("column vas+5 700 1200 100 1000\nload {load}\n")).unwrap();
        assert_eq!((cells[0].p50, cells[0].cpus, cells[0].latencies.as_slice()), (Some(1.5), 0.7, &[(1500, 3)][..]));
        assert_eq!((cells[1].workload.as_str(), cells[1].cpus), ("neighbour", 1.0));
        assert!(super::cells("nothing").is_err());
    }

    #[test]
    fn a_column_without_its_share_is_refused() {
        let treatment = |set: &[&str]| Treatment {
            name: "x".into(),
            policy: "vas".into(),
            set: set.iter().map(|&word| word.to_owned()).collect(),
            ..Treatment::default()
        };
        assert_eq!(line(&treatment(&["share=77"])).unwrap(), "x vas 77");
        assert_eq!(line(&treatment(&["deadline", "share=77"])).unwrap(), "x deadline 77");
        assert!(line(&treatment(&[])).unwrap_err().to_string().contains("share"));
    }
}
