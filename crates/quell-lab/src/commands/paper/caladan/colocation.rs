//! Co-location of programs under each system, and how it is run.

use anyhow::Result;
use quell_model::{BytesPerSecond, Nanos};
use quell_policy::AnyPolicy;
use quell_policy::caladan::{Caladan, CaladanConfig, THRESH_QD, Thresholds};
use quell_policy::elfen::{Elfen, ElfenConfig, Mode};
use quell_policy::none::{NoConfig, NoPolicy};
use quell_policy::parties::{Parties, PartiesConfig};
use quell_policy::shenango::{Shenango, ShenangoConfig};
use quell_sim::WorkloadSpec;
use quell_sim::experiment::assumed::{assumed, micros, varied};
use quell_sim::experiment::caladan::{ALL, Be, Lc, MANAGED, Means, Seen, Span, THRESH_BW, Threads, outside, run};
use quell_sim::workload::{Arrivals, Dispatch, Forward};
use rayon::prelude::*;

/// A system of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum System {
    Linux,
    Shenango,
    Caladan(Tuning),
    Parties,
    /// Caladan changed to Elfen's policies (§7.3).
    Elfen(Mode),
}

/// Caladan's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// THRESH_QD of latency-critical applications; best-effort ones keep the default. The published scripts, too, set it for
    /// those alone (caladan-all, `caladan_common.py`, `configure_caladan`), and Figure 10 is of "the storage LC task".
    pub thresh_qd: Nanos,
    /// THRESH_HT of all; None: each application's own.
    pub thresh_ht: Option<Nanos>,
    /// THRESH_BW; None: without the bandwidth controller.
    pub thresh_bw: Option<f64>,
    pub has_hyperthread_controller: bool,
    /// The mechanism by which CPUs change hands.
    pub means: Means,
    /// Does the host act between two rounds? The paper's does not.
    pub rules: bool,
}

/// Caladan as evaluated (§7, "Parameter tuning").
pub const TUNED: Tuning = Tuning {
    thresh_qd: THRESH_QD,
    thresh_ht: None,
    thresh_bw: Some(THRESH_BW),
    has_hyperthread_controller: true,
    means: Means::Ksched,
    rules: false,
};
/// Caladan as evaluated.
pub const CALADAN: System = System::Caladan(TUNED);

/// The tail of memcached alone by which §2 measures its cores: "enough cores to keep its 99.9th percentile tail latency below
/// 50 μs when run in isolation".
pub const ALONE: Nanos = Nanos::from_micros(50);
/// The tails, as a client sees them, that Parties* may be asked to keep. Each run has it with all of these and takes the one that
/// serves it best, since "we also invested considerable effort in tuning Parties' latency thresholds to yield the best possible
/// performance" (§7); the paper does not say which that were.
const TARGETS: [u64; 7] = [50, 60, 80, 100, 150, 250, 500];
/// That of a quick run.
const QUICK_TARGETS: [u64; 1] = [100];

/// The targets of one run; a varied input is the only one.
pub fn targets(quick: bool) -> Vec<Nanos> {
    if let Some(only) = varied("caladan.parties-target") {
        return vec![Nanos((only * 1e3).round() as u64)];
    }
    let all: &[u64] = if quick { &QUICK_TARGETS } else { &TARGETS };
    all.iter().map(|&micros| Nanos::from_micros(micros)).collect()
}

/// Shenango's IOKernel, on the core that no system manages, forwards each request and its answer in 0.2 µs: the published script
/// asks 5 million a second of Shenango at most (caladan-all, `caladan_common.py`, `conf_get_max_pps`). The part of it that waits
/// for memory is assumed.
fn forward() -> Option<Forward> {
    let each = micros("caladan.forward");
    let memory = Nanos((each.0 as f64 * assumed("caladan.forward-memory")) as u64);
    (each > Nanos::ZERO).then_some(Forward { each, memory })
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Linux => "Linux",
            System::Shenango => "Shenango",
            System::Caladan(_) => "Caladan",
            System::Parties => "Parties*",
            System::Elfen(Mode::BorrowIdle) => "Elfen, borrow idle",
            System::Elfen(Mode::RefreshBudget) => "Elfen, refresh budget",
        }
    }

    pub fn means(self) -> Means {
        match self {
            System::Linux => Means::Linux,
            System::Shenango => Means::Syscalls,
            System::Caladan(tuning) => tuning.means,
            System::Elfen(_) => Means::Ksched,
            System::Parties => Means::Sets,
        }
    }

    /// The policy, for these applications.
    pub fn policy(self, applications: &[Lc]) -> AnyPolicy {
        match self {
            System::Linux => AnyPolicy::None(NoPolicy::new(NoConfig::default())),
            System::Shenango => AnyPolicy::Shenango(Shenango::new(ShenangoConfig::default())),
            System::Parties => AnyPolicy::Parties(Parties::new(PartiesConfig::default())),
            System::Elfen(mode) => {
                // The budget is Caladan's threshold, of which it is a special case (§7.3).
                let budget = applications.iter().find_map(|lc| lc.thresh_ht()).unwrap_or(Nanos::MAX);
                AnyPolicy::Elfen(Elfen::new(ElfenConfig { mode, budget, ..ElfenConfig::default() }))
            }
            System::Caladan(tuning) => AnyPolicy::Caladan(Caladan::new(tuning.config(applications))),
        }
    }
}

impl Tuning {
    fn config(self, applications: &[Lc]) -> CaladanConfig {
        let of = |lc: &Lc| {
            let thresh_ht = self.thresh_ht.or(lc.thresh_ht()).filter(|_| self.has_hyperthread_controller);
            (lc.name().to_owned(), Thresholds { thresh_qd: Some(self.thresh_qd), thresh_ht })
        };
        CaladanConfig {
            thresh_bw: self.thresh_bw.map(BytesPerSecond),
            rules: self.rules,
            tasks: applications.iter().map(of).collect(),
            ..CaladanConfig::default()
        }
    }
}

/// One application with its load, beside another, under a system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub system: System,
    pub lc: Lc,
    /// Requests a second.
    pub rate: f64,
    pub be: Option<Be>,
    /// Kind of the server's threads. The system Linux always uses the kernel's network.
    pub threads: Threads,
    /// The latency that Parties* is to keep; the others do not look at it.
    pub target: Nanos,
}

impl Cell {
    pub fn new(system: System, lc: Lc, rate: f64, be: impl Into<Option<Be>>) -> Cell {
        let threads = if system == System::Linux { Threads::Linux } else { Threads::Runtime };
        Cell { system, lc, rate, be: be.into(), threads, target: ALONE }
    }

    pub fn policy(&self) -> AnyPolicy {
        self.system.policy(&[self.lc])
    }

    pub fn workloads(&self) -> Vec<WorkloadSpec> {
        let cpus = if self.system == System::Linux { ALL } else { MANAGED };
        let slo = Some(self.target - outside());
        let mut lc = self.lc.spec(Arrivals::Poisson(self.rate), MANAGED, (self.threads, cpus), slo);
        if self.system == System::Shenango
            && let Some(Dispatch::WorkStealing(runtime)) = lc.server.as_mut().map(|server| &mut server.dispatch)
        {
            runtime.forward = forward();
        }
        // "We run BE tasks with low-priority using SCHED_IDLE" (§7).
        let be = self.be.map(|be| WorkloadSpec { idle: self.system == System::Linux, ..be.spec(cpus) });
        std::iter::once(lc).chain(be).collect()
    }

    /// Runs it until about this many requests are answered.
    pub fn run(&self, seed: u64, requests: f64, least: Nanos) -> Result<Seen> {
        let measured = Nanos((1e9 * requests / self.rate) as u64).max(least);
        let span = Span { seed, warm_up: WARM_UP, measured };
        Ok(run(self.system.means(), &self.workloads(), &mut self.policy(), span)?)
    }
}

/// Caches are full, and the policy has found its way.
pub const WARM_UP: Nanos = Nanos::from_millis(40);

/// Runs all cells, on as many CPUs as there are.
pub fn run_all(seed: u64, cells: &[Cell], requests: f64, least: Nanos) -> Result<Vec<Seen>> {
    cells.par_iter().with_max_len(1).map(|cell| cell.run(seed, requests, least)).collect()
}

/// Requests a second that an application answers at most under a system.
pub fn most(seed: u64, system: System, lc: Lc, be: impl Into<Option<Be>>, threads: Option<Threads>) -> Result<f64> {
    // The rate of 22 CPUs at full speed, each without neighbours: more than they can serve.
    let asked = f64::from(MANAGED) * 1e9 / lc.service().mean();
    let mut cell = Cell::new(system, lc, asked, be);
    cell.threads = threads.unwrap_or(cell.threads);
    let span = Span { seed, warm_up: Nanos::from_millis(20), measured: Nanos::from_millis(20) };
    Ok(run(system.means(), &cell.workloads(), &mut cell.policy(), span)?.rate(0))
}
