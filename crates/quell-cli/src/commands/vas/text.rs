//! The answer for people.

use quell_model::Nanos;
use quell_policy::vas::{Interface, Releases};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

use super::answer::{Answer, Stream, Tasks};
use crate::commands::cells::NOTHING;

const HEAD: [&str; 6] = ["", "budget", "period", "share of a CPU", "others wait", "enforced"];

pub fn of(answer: &Answer, screen: &Screen) -> String {
    let conforming = answer.conforming.map_or(NOTHING.to_owned(), Nanos::exact);
    let row = |name: &str, interface: Interface| {
        let enforced = interface.blackout().map_or(NOTHING.to_owned(), Nanos::exact);
        let share = format!("{:.2} %", interface.share() * 100.0);
        [name.to_owned(), interface.budget.exact(), interface.period.exact(), share, conforming.clone(), enforced]
    };
    let mut rows = vec![row("minimum", answer.interface)];
    rows.extend(answer.shorter.map(|shorter| row("with a shorter period", shorter)));
    rows.push(row("recommended", answer.recommended));
    let mut lines = vec![screen.wrap(&what(answer)), table(HEAD, rows).least(["others wait"]).fit(screen)];
    lines.extend(remarks(answer).iter().map(|remark| screen.wrap(remark)));
    lines.join("\n")
}

/// The service's demand.
fn what(answer: &Answer) -> String {
    let asks = format!("{:.2} % of a CPU", answer.utilisation * 100.0);
    if let Some(Stream { poisson, .. }) = &answer.stream {
        return format!("{} at random, {} each: {asks}", human::rate(poisson.rate), poisson.service);
    }
    let Some(Tasks { set, .. }) = &answer.tasks else { return asks };
    let (count, how) = (set.tasks().len(), if set.releases() == Releases::Sporadic { "sporadic" } else { "periodic" });
    let tasks = if count == 1 { "task" } else { "tasks" };
    format!(
        "{count} {how} {tasks}: {asks}; hyperperiod {}, {} releases",
        set.hyperperiod().exact(),
        set.release_count()
    )
}

/// Meaning of the numbers, and caveats.
fn remarks(answer: &Answer) -> Vec<String> {
    let mut remarks = Vec::new();
    match &answer.stream {
        None => remarks.push(
            "others wait: at most this long at once while the tasks behave as declared; enforced: whatever they do"
                .into(),
        ),
        Some(stream) => {
            remarks.push(format!(
                "p{} of the latency: {} (± {:.1} %), within {}; enforced: others wait at most this long at once",
                stream.quantile * 100.0,
                human::nanoseconds(stream.reached.latency.0),
                stream.reached.uncertainty * 100.0,
                stream.bound.exact(),
            ));
        }
    }
    if answer.recommended.is_whole() {
        remarks.push(
            "! the recommendation is a whole CPU, which leaves nothing to others; give a smaller --margin".into(),
        );
    }
    if answer.tasks.as_ref().is_some_and(|tasks| !tasks.is_exact) {
        remarks.push(
            "! too many releases to check every period: a sample was checked; another period may need a smaller share"
                .into(),
        );
    }
    remarks
}
