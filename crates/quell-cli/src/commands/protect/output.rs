//! The result, for people and for programs.

use std::io::{self, Write as _};

use anyhow::Result;
use quell_command::output;
use quell_effect::Effect;
use quell_model::Class;
use quell_report::screen::Screen;
use serde::Serialize;

use super::course::Course;

/// `quell protect --json`.
#[derive(Serialize)]
struct Protected<'a> {
    workload: &'a str,
    /// `lc` or `be`.
    class: &'static str,
    /// Words that mean the target on a command line.
    target: &'a str,
    processes: usize,
    policy: &'a str,
    cpus_requested: f64,
    /// `agent`, or `this process`.
    by: &'a str,
    /// What it did; null: nothing was measured.
    effect: Option<&'a Effect>,
}

/// Prints what is protected, and what that did.
///
/// # Errors
/// If it cannot be written.
pub fn print(course: &Course<'_>, effect: Option<&Effect>, by: &str) -> Result<()> {
    let (workload, subject) = (course.workload, course.subject);
    let processes = subject.found.iter().map(|found| found.processes.len()).sum();
    if course.arguments.json {
        return output::json_line(Protected {
            workload: &workload.name,
            class: if workload.class == Class::LatencyCritical { "lc" } else { "be" },
            target: &subject.words,
            processes,
            policy: course.policy,
            cpus_requested: workload.cpus.as_f64(),
            by,
            effect,
        });
    }
    let mut out = io::stdout().lock();
    write!(out, "{}", text(course, effect, &Screen::of_output()))?;
    Ok(out.flush()?)
}

/// What it did, and what stands now.
pub fn text(course: &Course<'_>, effect: Option<&Effect>, screen: &Screen) -> String {
    let (workload, subject) = (course.workload, course.subject);
    let processes = subject.found.iter().map(|found| found.processes.len()).sum::<usize>();
    let number = quell_model::amount(processes, "process", "processes");
    let until = match course.arguments.length {
        Some(length) => format!("for {length}; Ctrl-C ends it before"),
        None => "until Ctrl-C".to_owned(),
    };
    let (name, words, policy) = (&workload.name, &subject.words, course.policy);
    let line = if course.sets_nothing() {
        format!("{name} ({words}, {number}) is watched and not protected, as policy none sets nothing, {until}")
    } else {
        let kind =
            if workload.is_lc() { format!("protected, {} CPUs", workload.cpus) } else { "best-effort".to_owned() };
        let keep = course.arguments.keep_line();
        format!("{name} ({words}, {number}) is {kind} under {policy} {until}; for good: {keep}")
    };
    let effect = effect.map_or_else(String::new, |effect| effect.text(screen));
    format!("{effect}{}\n", screen.hang(&line, 2))
}
