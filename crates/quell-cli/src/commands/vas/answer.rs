//! The computed answer; and as JSON.

use anyhow::{Context, Result};
use quell_model::Nanos;
use quell_policy::vas::{Analysis, Bounds, Busy, Curve, Interface, Poisson, Reached, TaskSet, least_budget};
use serde_json::{Value, json};

use super::{Arguments, demand};

/// The answer.
pub struct Answer {
    /// The share of a CPU that the service asks for.
    pub utilisation: f64,
    /// Just enough.
    pub interface: Interface,
    /// An equally small share with a shorter period.
    pub shorter: Option<Interface>,
    /// With the margin.
    pub recommended: Interface,
    /// Longest wait of other work while the service does what it says; None: unbounded.
    pub conforming: Option<Nanos>,
    /// Of tasks.
    pub tasks: Option<Tasks>,
    /// Of a Poisson stream.
    pub stream: Option<Stream>,
}

/// Tasks, and the results about them.
pub struct Tasks {
    pub set: TaskSet,
    /// Were all periods looked at?
    pub is_exact: bool,
    /// For the page.
    pub curve: Option<Curve>,
}

/// A Poisson stream, and the latency that it will have.
pub struct Stream {
    pub poisson: Poisson,
    pub quantile: f64,
    pub bound: Nanos,
    pub reached: Reached,
}

/// The answer to the command line.
pub fn of(arguments: &Arguments) -> Result<Answer> {
    match arguments.poisson {
        Some(poisson) => of_stream(arguments, poisson),
        None => of_tasks(arguments),
    }
}

fn of_tasks(arguments: &Arguments) -> Result<Answer> {
    let set = demand::tasks(arguments.file.as_deref(), &arguments.task, arguments.sporadic)?;
    let margin = arguments.margin;
    let busy = Busy::of(&set);
    let bounds = Bounds { conforming: arguments.blackout, enforced: arguments.enforced };
    let analysis = match arguments.period {
        Some(period) => Analysis::at(&busy, margin, period)?,
        None => Analysis::within(&busy, margin, bounds)?,
    };
    Ok(Answer {
        utilisation: set.utilisation(),
        interface: analysis.interface,
        shorter: analysis.shorter,
        recommended: analysis.recommended,
        conforming: Some(analysis.conforming),
        tasks: Some(Tasks {
            set,
            is_exact: analysis.is_exact,
            curve: arguments.html.is_some().then(|| Curve::of(&busy)),
        }),
        stream: None,
    })
}

fn of_stream(arguments: &Arguments, poisson: Poisson) -> Result<Answer> {
    let bound = arguments.bound.context("--poisson needs --bound TIME")?;
    let period = arguments.period.context("--poisson needs --period TIME")?;
    let reached = least_budget(&poisson, period, arguments.quantile, bound)?;
    Ok(Answer {
        utilisation: poisson.utilisation(),
        interface: reached.interface,
        shorter: None,
        recommended: reached.interface.with(arguments.margin),
        conforming: None,
        tasks: None,
        stream: Some(Stream { poisson, quantile: arguments.quantile, bound, reached }),
    })
}

impl Answer {
    /// As data. The blackouts are those of the recommended interface; null: unbounded.
    pub fn as_json(&self) -> Value {
        let interface = |interface: Interface| json!({ "budget_ns": interface.budget, "period_ns": interface.period });
        let mut answer = json!({
            "utilisation": self.utilisation,
            "interface": interface(self.interface),
            "shorter": self.shorter.map(interface),
            "recommended": interface(self.recommended),
            "blackout": { "conforming_ns": self.conforming, "enforced_ns": self.recommended.blackout() },
        });
        if let Some(Tasks { set, is_exact, .. }) = &self.tasks {
            answer["hyperperiod_ns"] = json!(set.hyperperiod());
            answer["releases"] = json!(set.release_count());
            answer["exact"] = json!(is_exact);
        }
        if let Some(stream) = &self.stream {
            answer["quantile"] = json!(stream.quantile);
            answer["latency_ns"] = json!(stream.reached.latency);
            answer["latency_uncertainty"] = json!(stream.reached.uncertainty);
        }
        answer
    }
}
