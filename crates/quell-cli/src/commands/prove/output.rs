//! The verdict, and what it rests on.

use std::io::{self, Write as _};

use anyhow::Result;
use quell_command::output;
use quell_effect::prove::Verdict;
use quell_effect::quantile;
use quell_effect::report::Figures;
use quell_model::Policy as _;
use quell_policy::AnyPolicy;
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::{NOTHING, table};

use super::course::Course;
use super::page;
use super::plan::OFF;
use super::result::{Outcome, Proved};
use super::used::Used;
use crate::commands::protect::keep;

/// Prints it, writes the page, and keeps what helps if that was asked for; returns the exit status. Everything is put back already.
///
/// # Errors
/// If something cannot be written.
pub fn finish(course: &Course<'_>, outcome: &Outcome, policy: &AnyPolicy, by: &str) -> Result<u8> {
    let arguments = course.arguments;
    let (plan, arms) = (&course.plan, course.plan.arms(arguments));
    let headline = outcome.found.headline(&plan.workload, &arms);
    let remarks = outcome.remarks(plan.measure);
    let helps = outcome.found.verdict == Verdict::Helps;
    let kept = helps && arguments.keep_if_helps;
    if arguments.json {
        output::json_line(Proved {
            workload: &plan.workload,
            target: &course.subject.words,
            policy: policy.describe().name,
            against: &arguments.against,
            by,
            measure: plan.measure,
            headline: &headline,
            design: &plan.design,
            result: &outcome.found,
            used_off: outcome.used(false),
            used_on: outcome.used(true),
            blocks: outcome.list(),
            caveats: &remarks,
            interrupted: outcome.cut.as_deref(),
            kept,
        })?;
    } else {
        write!(io::stdout(), "{}", text(course, outcome, &headline, &remarks))?;
        if helps && !kept && arguments.is_of_a_target() && arguments.against == OFF {
            writeln!(io::stdout(), "For good: {}", arguments.keep_line(policy.describe().name))?;
        }
    }
    if let Some(file) = &arguments.html {
        page::write(file, course, outcome, &headline, &remarks)?;
    }
    if !kept {
        if !arguments.wanted.asked.say().quiet {
            eprintln!("quell: {}: everything is as before", plan.workload);
        }
    } else {
        let set = arguments.wanted.asked.parameters();
        let kept = keep::keep(&arguments.config, &course.workload, policy, course.subject, set, &arguments.agent)?;
        if !arguments.json {
            keep::print(&kept, &course.workload, policy, None, false)?;
        }
    }
    let interrupted = outcome.cut.is_some() && course.stop.load(std::sync::atomic::Ordering::Acquire);
    Ok(if interrupted { 130 } else { u8::from(!helps) })
}

fn text(course: &Course<'_>, outcome: &Outcome, headline: &str, remarks: &[String]) -> String {
    let screen = Screen::of_output();
    let arms = course.plan.arms(course.arguments);
    let mut text = format!("{}\n\n", screen.wrap(headline).trim_end());
    let head = ["", arms.off, arms.on];
    text += &table(head, rows(course, outcome)).fit(&screen);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for remark in remarks {
        text += screen.wrap(remark).trim_end();
        text.push('\n');
    }
    text
}

/// The table of both arms.
pub fn rows(course: &Course<'_>, outcome: &Outcome) -> Vec<[String; 3]> {
    let found = &outcome.found;
    let prefix = course.plan.measure.prefix();
    let at = |figures: &Figures, level: f64| {
        let value = figures.quantiles.iter().find(|value| value.quantile == level);
        value.map_or_else(|| NOTHING.to_owned(), |value| human::nanoseconds(value.ns))
    };
    // The usual ones, and the one that is judged by.
    let levels = quantile::LEVELS.into_iter().filter(|level| *level != 0.9 || found.quantile == 0.9);
    let mut rows: Vec<[String; 3]> = levels
        .map(|level| [format!("{prefix}{}", quantile::name(level)), at(&found.off, level), at(&found.on, level)])
        .collect();
    rows.push([course.plan.measure.values().to_owned(), found.off.count.to_string(), found.on.count.to_string()]);
    let [off, on] = [outcome.used(false), outcome.used(true)];
    let cpus = |name: &str, of: fn(&Used) -> f64| {
        let per_second = |used: &Used| {
            if used.seconds > 0.0 { format!("{:.3}", of(used) / used.seconds) } else { NOTHING.to_owned() }
        };
        [name.to_owned(), per_second(&off), per_second(&on)]
    };
    rows.push(cpus("CPUs: the service", |used| used.service_cpu_seconds));
    rows.push(cpus("CPUs: all other work", Used::rest));
    rows.push(cpus("CPUs: Quell", |used| used.quell_cpu_seconds));
    rows.push(cpus("CPUs: the machine", |used| used.machine_cpu_seconds));
    rows
}
