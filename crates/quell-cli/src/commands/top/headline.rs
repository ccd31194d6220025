//! The view's first line: what is wrong and the command for it, else that nothing is.

use quell_agent::api::wire::{Class, State, Workload};
use quell_linux::target::quoted;
use quell_model::amount;
use ratatui::style::Style;
use ratatui::text::Line;

use super::model::Model;
use super::render::{BAD, GOOD};
use crate::commands::cells;

/// From this average on, threads that have no CPU are worth a line.
const WAITING: f64 = 0.5;

/// The line.
pub fn line(model: &Model) -> Line<'static> {
    let (text, style) = words(model);
    Line::styled(text, style)
}

fn words(model: &Model) -> (String, Style) {
    let status = &model.status;
    let agent = &status.agent;
    if let Some(problem) = &model.problem {
        return (format!("{problem}; trying again"), BAD);
    }
    if let Some(what) = &agent.starting {
        return (what.clone(), Style::new());
    }
    if let Some(why) = &agent.degraded {
        return (why.clone(), BAD);
    }
    if let Some(line) = trouble(model) {
        return (line, BAD);
    }
    if let Some(why) = agent.recording.as_ref().and_then(|recording| recording.failed.as_ref()) {
        return (format!("the record ended: {why}"), BAD);
    }
    missed(&status.workloads)
        .or_else(|| nothing_managed(model))
        .or_else(|| waiting(&status.workloads))
        .map_or_else(|| (all_well(&status.workloads), GOOD), |line| (line, BAD))
}

/// What does not stand as it was set: of the agent, else of the first workload that has some.
fn trouble(model: &Model) -> Option<String> {
    let status = &model.status;
    let refused = status.agent.not_reloaded.as_ref();
    let refused = refused.map(|_| "! the configuration on disk is refused: see `quell status`".to_owned());
    let of_workloads = status.configured.iter().flat_map(|configured| {
        let workload = status.workloads.iter().find(|workload| workload.name == configured.name);
        cells::remarks(configured, workload).into_iter().filter(|line| line.starts_with('!'))
    });
    let warnings = status.agent.warnings.iter().map(|warning| format!("! {warning}"));
    cells::exceptions(&status.agent, status.now_ns)
        .into_iter()
        .chain(refused)
        .chain(of_workloads)
        .chain(warnings)
        .next()
}

/// The workload that misses its SLO by most.
fn missed(workloads: &[Workload]) -> Option<String> {
    let missed = || workloads.iter().filter(|workload| workload.slo_met == Some(false));
    let ratio = |workload: &&Workload| workload.slo_ratio.unwrap_or(0.0);
    let worst = missed().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let name = &worst.name;
    let more = match missed().count() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let latency = cells::latency(worst).trim_start_matches("! ").replace('/', " of ");
    Some(format!("! {name} misses its SLO, {latency}: `quell why {name}`, `quell gap {name}`{more}"))
}

fn nothing_managed(model: &Model) -> Option<String> {
    let status = &model.status;
    let is_there = |name: &str| !status.configured.iter().any(|of| of.name == name && of.state != State::Attached);
    (!status.workloads.iter().any(|workload| is_there(&workload.name)))
        .then(|| "! no workload is managed: `quell status` shows the selectors".to_owned())
}

/// The latency-critical workload that waits most, without an SLO that says if that matters.
fn waiting(workloads: &[Workload]) -> Option<String> {
    let waits = |workload: &Workload| workload.threads_waiting.map_or(0.0, |waiting| waiting.value);
    let of =
        |workload: &&Workload| workload.class == Class::Lc && workload.slo_met.is_none() && waits(workload) >= WAITING;
    let worst = workloads.iter().filter(of).max_by(|a, b| waits(a).total_cmp(&waits(b)))?;
    Some(format!(
        "! {0}: {1} threads wait for a CPU, on average: `quell gap {0}` says what took it",
        worst.name,
        cells::waiting(worst)
    ))
}

/// The command that says whether Quell helps the first latency-critical one.
fn prove(workloads: &[Workload]) -> String {
    let first = workloads.iter().find(|workload| workload.class == Class::Lc);
    first.map_or_else(String::new, |first| format!("; does it help? `quell prove --workload {}`", quoted(&first.name)))
}

fn all_well(workloads: &[Workload]) -> String {
    let with_slo = workloads.iter().filter(|workload| workload.slo.is_some()).count();
    let kept = workloads.iter().filter(|workload| workload.slo_met == Some(true)).count();
    let all = amount(workloads.len() as u32, "workload", "workloads");
    match (with_slo, kept) {
        (0, _) => format!("no problem: {all}, none waits long; no SLO is set{}", prove(workloads)),
        (1, 1) => "the only workload with an SLO meets it".to_owned(),
        (with_slo, kept) if kept == with_slo => format!("all {with_slo} workloads with an SLO meet it"),
        (with_slo, kept) => format!("{kept} of {with_slo} SLOs are met; the other latencies are unknown"),
    }
}

#[cfg(test)]
mod tests {
    use quell_agent::api::wire::Slo;

    use super::*;
    use crate::commands::sample::{measured, status, workload};

    fn said(workloads: Vec<Workload>) -> String {
        let mut status = status(2);
        status.workloads = workloads;
        let said = words(&Model::new(status)).0;
        crate::commands::pasted::within(&said).for_each(crate::commands::pasted::assert_taken);
        said
    }

    fn with_slo(name: &str, kept: Option<bool>, ratio: f64) -> Workload {
        Workload {
            slo: Some(Slo { quantile: 0.99, bound_ns: 1_000_000 }),
            slo_met: kept,
            slo_ratio: kept.map(|_| ratio),
            ..workload(name, Class::Lc, 1.0, 0.5)
        }
    }

    #[test]
    fn the_worst_missed_slo_comes_with_its_command() {
        let line = said(vec![
            with_slo("a", Some(false), 1.1),
            with_slo("b", Some(false), 3.0),
            with_slo("c", Some(true), 0.5),
        ]);
        assert!(line.starts_with("! b misses its SLO") && line.contains("(and 1 more)"), "{line}");
        assert!(line.contains("`quell why b`") && line.contains("`quell gap b`"), "{line}");
    }

    #[test]
    fn what_waits_without_an_slo_is_said() {
        let mut web = workload("web", Class::Lc, 1.0, 0.5);
        web.threads_waiting = measured(1.25);
        let line = said(vec![web.clone(), workload("batch", Class::Be, 0.0, 1.0)]);
        assert_eq!(line, "! web: 1.25 threads wait for a CPU, on average: `quell gap web` says what took it");
        web.class = Class::Be;
        assert!(said(vec![web.clone()]).starts_with("no problem: 1 workload,"), "best-effort work may wait");
        (web.class, web.threads_waiting) = (Class::Lc, measured(0.1));
        assert!(said(vec![web]).ends_with("`quell prove --workload web`"));
    }

    #[test]
    fn nothing_wrong_is_said_as_plainly() {
        assert_eq!(said(vec![with_slo("a", Some(true), 0.5)]), "the only workload with an SLO meets it");
        let two = vec![with_slo("a", Some(true), 0.5), with_slo("b", Some(true), 0.9)];
        assert_eq!(said(two), "all 2 workloads with an SLO meet it");
        let unknown = said(vec![with_slo("a", Some(true), 0.5), with_slo("b", None, 0.0)]);
        assert_eq!(unknown, "1 of 2 SLOs are met; the other latencies are unknown");
        assert!(said(vec![]).starts_with("! no workload is managed"));
    }
}
