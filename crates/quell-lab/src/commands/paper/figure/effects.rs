//! How soon knobs act (`quell doctor --effects`) as a figure, in the lab: a treatment is a knob, the workload `thread`.

use anyhow::{Context, Result, bail};
use quell_bench::settling::{Effect, Turn};
use quell_evidence::{Cell, Figure};
use quell_guest::{Job, Lab, Lockstep, Machine, ToStderr};
use quell_report::stats::Histogram;
use serde::Deserialize;

/// As the figures of programs.
const LOCKSTEP: Lockstep = Lockstep { serial: true, mips: 125, quantum_ns: 20_000 };
const CPUS: u32 = 2;

/// What `quell doctor --effects --json` prints.
#[derive(Deserialize)]
struct Printed {
    effects: Vec<Effect>,
}

/// One boot; the kernel's clock has another phase with each seed.
pub fn in_guest(figure: &Figure, seed: u64) -> Result<Vec<Cell>> {
    if let Some(unknown) = figure.treatments.iter().find(|one| Turn::ALL.iter().all(|turn| turn.name() != one.name)) {
        bail!("treatment '{}': there are {}", unknown.name, Turn::ALL.map(Turn::name).join(", "));
    }
    let quell = crate::product::file()?;
    let mut job = Job::new([quell.as_os_str(), "doctor".as_ref(), "--effects".as_ref(), "--json".as_ref()]);
    job.directory = "/".into();
    let machine = Machine::measuring(CPUS, LOCKSTEP, Vec::new());
    let machine = Machine { settle_s: machine.settle_s + seed as u32, ..machine };
    let output = Lab::new(&ToStderr)?.output(&machine, &job)?;
    if output.ending.status != 0 {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("exit status {} in the guest: {}", output.ending.status, said.trim());
    }
    cells(&output.stdout)
}

fn cells(printed: &[u8]) -> Result<Vec<Cell>> {
    let Printed { effects } = serde_json::from_slice(printed).context("read what was measured")?;
    let cell = |effect: &Effect| {
        let mut all = Histogram::default();
        effect.after_ns.iter().for_each(|ns| all.record(*ns));
        let micros = |q: f64| (all.count() > 0).then(|| all.quantile(q) as f64 / 1e3);
        Cell {
            policy: effect.turn.name().to_owned(),
            workload: "thread".to_owned(),
            p50: micros(0.5),
            p99: micros(0.99),
            mean: (all.count() > 0).then(|| all.mean() / 1e3),
            latencies: all.cells().collect(),
            ..Cell::default()
        }
    };
    Ok(effects.iter().map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_a_treatment_of_the_thread() {
        let printed = br#"{"effects": [{"turn": "cpu-set", "after_ns": [40000, 50000, 90000], "unseen": 1}]}"#;
        let cells = cells(printed).unwrap();
        assert_eq!((cells[0].policy.as_str(), cells[0].workload.as_str()), ("cpu-set", "thread"));
        assert!((cells[0].p50.unwrap() - 50.0).abs() < 1.0, "{:?}", cells[0].p50);
    }
}
