//! The second set of columns: servers without Caladan's runtime. Their threads are the kernel's and take requests from
//! one queue; the scheduler knows when threads wait for a CPU and when a request began. Quell's own claim.

use anyhow::Result;
use quell_model::Nanos;
use quell_sim::experiment::caladan::{Be, Lc, Seen, Span, Threads, WINDOW, windows};
use quell_sim::workload::Latencies;

use super::colocation::{CALADAN, Cell, System, TUNED, Tuning, most, run_all};
use super::phases::RATE;
use super::{Figure, Trial, measure, micros};

/// Caladan with its rules: guaranteed CPUs are taken at the wake-up, and a yielded CPU goes to the next holder at once.
/// Otherwise a thread that sleeps after every request would wait for a round each time.
const WITH_RULES: System = System::Caladan(Tuning { rules: true, ..TUNED });
/// Load, as a part of the server's highest rate alone, with the runtime.
const LOAD: f64 = 0.3;

fn tail(seen: &Seen) -> f64 {
    seen.p999(0).0 as f64 / 1e3
}

pub fn unmodified(trial: Trial) -> Result<Figure> {
    let requests = if trial.quick { 8e3 } else { 150e3 };
    let mut measures = Vec::new();
    for (lc, rate) in [(Lc::Memcached, Some(RATE)), (Lc::Silo, None), (Lc::Storage, None)] {
        let peak = most(trial.seed, CALADAN, lc, None, None)?;
        let pools = most(trial.seed, WITH_RULES, lc, None, Some(Threads::Pool))?;
        let rate = rate.unwrap_or(LOAD * peak);
        let cell = |system, threads, be: Option<Be>| Cell { threads, ..Cell::new(system, lc, rate, be) };
        let cells = [
            cell(CALADAN, Threads::Runtime, None),
            cell(CALADAN, Threads::Runtime, Some(Be::StreamDram)),
            cell(WITH_RULES, Threads::Pool, None),
            cell(WITH_RULES, Threads::Pool, Some(Be::StreamDram)),
            cell(CALADAN, Threads::Pool, Some(Be::StreamDram)),
            cell(System::Linux, Threads::Pool, Some(Be::StreamDram)),
        ];
        let seen = run_all(trial.seed, &cells, requests, Nanos::from_millis(20))?;
        let [alone, runtime, pool_alone, pool, no_rules, linux] = &seen[..] else { unreachable!("six cells") };
        let note = format!(
            "at {:.0} k/s: runtime {} ({} alone), unmodified {} ({} alone), unmodified without rules {}, unmodified under \
             Linux {}; stream-DRAM's throughput {:.2} of that beside the runtime",
            rate / 1e3,
            micros(tail(runtime)),
            micros(tail(alone)),
            micros(tail(pool)),
            micros(tail(pool_alone)),
            micros(tail(no_rules)),
            micros(tail(linux)),
            pool.instructions(1) / runtime.instructions(1)
        );
        let name = lc.name();
        // The device is simulated for the runtime alone.
        let tail_of = |seen: &Seen| tail(seen) + lc.device().0 as f64 / 1e3;
        measures.push(measure(&format!("unmodified.{name}"), tail_of(pool) / tail_of(pool_alone), note)?);
        measures.push(measure(&format!("unmodified.{name}-linux"), tail_of(pool) / tail_of(linux), "")?);
        // Of memcached's few microseconds that would say nothing: no plausible result could be twice the runtime's.
        if lc != Lc::Memcached {
            measures.push(measure(&format!("unmodified.{name}-runtime"), tail_of(pool) / tail(runtime), "")?);
        }
        let note = format!("{:.2} M/s against {:.2} M/s", pools / 1e6, peak / 1e6);
        measures.push(measure(&format!("unmodified.{name}-most"), peak / pools, note)?);
    }
    measures.push(collector(trial)?);
    Ok(Figure { measures, blocks: Vec::new() })
}

/// Figure 5 again, under Caladan.
fn collector(trial: Trial) -> Result<quell_evidence::Measure> {
    let measured = Nanos::from_millis(if trial.quick { 2_000 } else { 8_000 });
    let span = Span { seed: trial.seed, warm_up: Nanos::from_millis(200), measured };
    let cell = Cell { threads: Threads::Pool, ..Cell::new(WITH_RULES, Lc::Memcached, RATE, Be::SwaptionsGc) };
    let seen = windows(WITH_RULES.means(), &cell.workloads(), &mut cell.policy(), span, WINDOW)?;
    let (mut collecting, mut calm) = (Latencies::default(), Latencies::default());
    for window in &seen {
        let of = if window.collecting { &mut collecting } else { &mut calm };
        of.merge(&window.latencies[0]);
    }
    let tail = |of: &Latencies| (of.quantile(0.999).0 + 10_000) as f64 / 1e3;
    let note = format!("{} while it collects, {} else", micros(tail(&collecting)), micros(tail(&calm)));
    measure("unmodified.collector", tail(&collecting) / tail(&calm), note)
}
