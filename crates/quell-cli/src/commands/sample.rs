//! Data for tests of screens: an agent's status of their own making.

use quell_agent::api::wire::*;
use quell_model::Signal;

pub fn measured(value: f64) -> Option<Measured> {
    Some(Measured { value, age_ns: 0, window_ns: 0, quality: Quality::Exact })
}

pub fn workload(name: &str, class: Class, asked: f64, got: f64) -> Workload {
    Workload {
        name: name.into(),
        class,
        policies: vec!["guard".into()],
        cpus_requested: asked,
        cpus_limit: None,
        cpus_used: measured(got),
        cpus_granted: None,
        cpus_granted_count: None,
        threads: measured(3.0),
        threads_waiting: measured(0.25),
        slo: None,
        slo_met: None,
        slo_ratio: None,
        demotions: 0,
        demotions_last_minute: 0,
        refused: None,
        budgets_exhausted: 0,
        longest_overrun_ns: 0,
        cpus_exclusive: None,
        waited: None,
        measured: Measurements::default(),
        knobs: vec![],
    }
}

/// An attached workload of the configuration.
pub fn configured(name: &str) -> Configured {
    Configured {
        name: name.into(),
        class: Class::Lc,
        cpus_requested: 2.0,
        state: State::Attached,
        since_ns: 0,
        threads: Some(5),
        selectors: vec![],
        why: None,
        leased_by: None,
        latency: None,
        departed: vec![],
        overridden: None,
        remarks: vec![],
    }
}

fn decision(workload: Option<&str>, kind: DecisionKind, text: &str, at_ns: u64) -> Decision {
    Decision {
        at_ns,
        times: 1,
        since_ns: at_ns,
        policy: "guard".into(),
        plan: 1,
        workload: workload.map(str::to_owned),
        kind,
        text: text.into(),
        observed: Observed::default(),
        trial: None,
    }
}

pub fn status(cpus: u32) -> Status {
    let db = Workload {
        measured: Measurements::default().with(Signal::Latency, measured(1.5e6)).with(
            Signal::QueueingDelay,
            Some(Measured { value: 12e3, age_ns: 0, window_ns: 0, quality: Quality::Estimated }),
        ),
        slo: Some(Slo { quantile: 0.99, bound_ns: 1_000_000 }),
        slo_met: Some(false),
        slo_ratio: Some(1.5),
        cpus_granted: Some("0-1".into()),
        ..workload("db", Class::Lc, 2.0, 0.5)
    };
    let runs = |cpu| match cpu % 4 {
        0 => (CpuState::Busy, Some("db".to_owned())),
        1 => (CpuState::Busy, Some("batch".to_owned())),
        2 => (CpuState::Idle, None),
        _ => (CpuState::Unknown, None),
    };
    Status {
        agent: Agent {
            version: "0.1.0".into(),
            pid: 1,
            mode: "run".into(),
            host: "linux".into(),
            limits: vec!["guard: knob 'idle-only': no permission".into()],
            warnings: Vec::new(),
            notices: Vec::new(),
            off: None,
            not_reloaded: None,
            stale: None,
            degraded: None,
            starting: None,
            unplaced_cgroups: 0,
            attribution: None,
            cpu_seconds: 1.0,
            resident_bytes: 12 << 20,
            recording: None,
        },
        now_ns: 10_000_000_000,
        turns: 42,
        layers: vec![Layer {
            policy: "guard".into(),
            workloads: None,
            pool: "0-3".into(),
            steps: 42,
            knobs: 2,
            grants: 0,
            others: 0,
            refused: 0,
            trials: TrialCounts::default(),
        }],
        configured: vec![],
        workloads: vec![workload("batch", Class::Be, 0.0, 2.75), db],
        cpus: (0..cpus)
            .map(|cpu| {
                let (state, runs) = runs(cpu);
                Cpu { cpu, core: cpu, state, workload: runs }
            })
            .collect(),
        kubernetes: None,
        measured: Measurements::default(),
        decisions: vec![
            decision(Some("batch"), DecisionKind::Knob, "runs only on idle CPUs", 9_000_000_000),
            decision(Some("db"), DecisionKind::Refused, "the plan's knobs were refused", 8_500_000_000),
            decision(None, DecisionKind::Warning, "something to fix", 1_000_000_000),
        ],
        decisions_lost: 0,
    }
}
