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
    if let Some(effect) = effect {
        write!(out, "{}", effect.text(&Screen::of_output()))?;
    }
    let number = quell_model::amount(processes, "process", "processes");
    let until = match course.arguments.length {
        Some(length) => format!("for {length}; Ctrl-C ends it before"),
        None => "until Ctrl-C".to_owned(),
    };
    let kind = if workload.is_lc() { format!("protected, {} CPUs", workload.cpus) } else { "best-effort".to_owned() };
    writeln!(
        out,
        "{} ({}, {number}) is {kind} under {} {until}; for good: quell protect {} --keep",
        workload.name, subject.words, course.policy, subject.words
    )?;
    Ok(out.flush()?)
}
