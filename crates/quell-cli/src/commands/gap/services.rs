//! The report on services, for people.

use quell_gap::services::{Cause, Loss, Row, Services};
use quell_model::{Nanos, amount};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use unicode_width::UnicodeWidthStr;

/// Services that are shown.
const SHOWN: usize = 10;
/// Causes that are named; what the others took is one sum.
const CAUSES: usize = 4;
/// A service that takes this many times what it loses is to give way, not to be protected.
const TAKES: u64 = 2;

/// Would `quell protect` take a target?
pub type Offers<'a> = &'a dyn Fn(&str) -> bool;

/// The report. `is_asked`: were these services asked for, so that they are shown whatever they lost?
pub fn text(report: &Services, is_asked: bool, offers: Offers<'_>, screen: &Screen) -> String {
    let is_shown = |row: &&Row| is_asked || row.losses.is_noticeable(report.window);
    let shown: Vec<&Row> = report.services.iter().filter(is_shown).collect();
    let (shown, more) = shown.split_at(shown.len().min(SHOWN));
    let mut text = String::new();
    let mut line = |words: &str| {
        for part in words.split('\n') {
            text.push_str(&screen.wrap(part));
            text.push('\n');
        }
    };
    line(&headline(report, shown, more.len(), is_asked));
    for row in shown {
        let name = display(row, report);
        let words = sentence(row, &name, screen);
        // One of those asked for has its command in the table.
        let command = if is_asked { None } else { command(row, report, offers) };
        with_command(&words, command, screen, &mut line);
    }
    // What takes most loses little, so that it is not among them.
    if let Some(most) = taker(report).filter(|most| !is_asked && !shown.iter().any(|row| std::ptr::eq(*row, *most))) {
        let words = format!("{} took {} s of that", display(most, report), seconds(taken_by(most, report)));
        with_command(&words, command(most, report, offers), screen, &mut line);
    }
    let mut notes = Vec::new();
    if !more.is_empty() {
        notes.push(format!("{} more lost less; --json has all", more.len()));
    }
    if shown.iter().any(|row| is_among_its_like(row)) {
        notes.push("no command where others of one name take most: to protect one takes from them".into());
    }
    notes.push(means(report));
    if report.interrupted {
        notes.push("ended before its time".into());
    }
    if report.interrupts.0 * 50 > report.window.0 * u64::from(report.cpus) {
        notes.push(format!("interrupts took {} s of the CPUs, from whatever ran there", seconds(report.interrupts)));
    }
    if report.steal.0 * 50 > report.window.0 * u64::from(report.cpus) {
        notes.push(format!("the hypervisor took {} s away; it counts as run time", seconds(report.steal)));
    }
    if is_asked && !shown.is_empty() {
        text.push_str(&in_a_table(shown, report, offers, screen));
        text.push('\n');
    }
    for note in notes {
        text.push_str(&screen.wrap(&note));
        text.push('\n');
    }
    text
}

fn headline(report: &Services, shown: &[&Row], more: usize, is_asked: bool) -> String {
    let (window, cpus) = (seconds(report.window), amount(report.cpus as usize, "CPU", "CPUs"));
    if shown.is_empty() {
        let most = report.services.first().filter(|most| most.losses.waited > Nanos::ZERO);
        let most = most.map_or("no service waited at all".into(), |most| {
            format!("the most, {}, {:.3} s", most.name, most.losses.waited.as_secs_f64())
        });
        return format!("nothing waited noticeably in {window} s on {cpus}: {most}");
    }
    if is_asked {
        return format!("CPU time that others took, of what it wanted, in {window} s on {cpus}:");
    }
    let count = shown.len() + more;
    let verb = if count == 1 { "service waited" } else { "services waited" };
    let most = shown.first().map_or(String::new(), |row| display(row, report));
    format!("{count} {verb} for CPUs in {window} s on {cpus}; {most} lost most")
}

/// Between what a service lost and the command that protects it.
const GAP: &str = "  → ";

/// A name that no other service has: with its process where several have it.
fn display(row: &Row, report: &Services) -> String {
    let is_alone = report.services.iter().filter(|other| other.name == row.name).count() == 1;
    if is_alone { row.name.clone() } else { format!("{} {}", row.name, row.target) }
}

/// Words, and the command beside or below them.
fn with_command(words: &str, command: Option<String>, screen: &Screen, line: &mut impl FnMut(&str)) {
    match command {
        Some(command) if fits(words, command.len() + GAP.len(), screen) => line(&format!("{words}{GAP}{command}")),
        Some(command) => line(&format!("{words}\n    {command}")),
        None => line(words),
    }
}

/// Was most of what it lost taken by others of its name? To protect one of them takes from the others.
fn is_among_its_like(row: &Row) -> bool {
    let own = row.losses.to.iter().filter(|loss| loss.cause == Cause::Service && loss.name == row.name);
    own.map(|loss| loss.time.0).sum::<u64>() * 2 > row.losses.waited.0
}

/// The command that protects it; what takes much more than it loses is made to give way instead.
fn command(row: &Row, report: &Services, offers: Offers<'_>) -> Option<String> {
    if is_among_its_like(row) || !offers(&row.target) {
        return None;
    }
    let takes = taken_by(row, report).0 >= TAKES * row.losses.waited.0.max(1);
    let be = if takes { " --be" } else { "" };
    (!row.target.is_empty()).then(|| format!("quell protect {}{be}", row.target))
}

/// What it took from all others. Losses have names alone: of one that several services have, nothing is known.
fn taken_by(row: &Row, report: &Services) -> Nanos {
    if report.services.iter().filter(|other| other.name == row.name).count() > 1 {
        return Nanos::ZERO;
    }
    let losses = report.services.iter().flat_map(|other| &other.losses.to);
    let to_it = losses.filter(|loss| loss.cause == Cause::Service && loss.name == row.name);
    to_it.fold(Nanos::ZERO, |sum, loss| sum + loss.time)
}

/// The one that took most, if that was noticeable and far more than it lost.
fn taker(report: &Services) -> Option<&Row> {
    let most = report.services.iter().max_by_key(|row| taken_by(row, report))?;
    let taken = taken_by(most, report).0;
    (taken * 50 >= report.window.0 && taken >= TAKES * most.losses.waited.0.max(1)).then_some(most)
}

/// Has a line room for these words and this number of columns more?
fn fits(words: &str, more: usize, screen: &Screen) -> bool {
    screen.width.is_none_or(|width| words.width() + more <= width)
}

/// `web waited 0.46 s of 3.00: 0.41 stress-ng, 0.05 kworker`, with as many causes as a line has room for.
fn sentence(row: &Row, name: &str, screen: &Screen) -> String {
    let with = |causes| sentence_of(row, name, causes);
    (1..=CAUSES).rev().map(with).find(|words| fits(words, 0, screen)).unwrap_or_else(|| with(1))
}

fn sentence_of(row: &Row, name: &str, causes: usize) -> String {
    let losses = &row.losses;
    let hundredths = |time: &Nanos| (time.0 + 5_000_000) / 10_000_000;
    let named: Vec<&Loss> = losses.to.iter().filter(|loss| hundredths(&loss.time) > 0).take(causes).collect();
    let rest = Nanos(losses.waited.0 - named.iter().map(|loss| loss.time.0).sum::<u64>());
    let mut parts: Vec<String> = named.iter().map(|loss| format!("{} {}", seconds(loss.time), loss.name)).collect();
    if hundredths(&rest) > 0 {
        parts.push(format!("{} others", seconds(rest)));
    }
    let to = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{name} waited {} s of {}{to}", seconds(losses.waited), seconds(losses.wanted()))
}

fn in_a_table(rows: &[&Row], report: &Services, offers: Offers<'_>, screen: &Screen) -> String {
    let head = ["service", "waited", "waited s", "ran s", "own threads s", "is", "processes", "command"];
    let rows = rows.iter().map(|row| {
        let losses = &row.losses;
        let share = losses.waited.0 as f64 / losses.wanted().0.max(1) as f64;
        [
            display(row, report),
            human::percent(share),
            seconds(losses.waited),
            seconds(losses.ran),
            seconds(losses.behind_own),
            row.kind.to_owned(),
            row.processes.to_string(),
            command(row, report, offers).unwrap_or_default(),
        ]
    });
    table(head, rows).least(["processes", "is", "own threads s", "waited s"]).fit(screen)
}

/// How to measure this is known.
fn means(report: &Services) -> String {
    match &report.inexact {
        Some(reason) => format!("estimated from schedstat, which does not say what a wait was for: {reason}"),
        None if report.losses.events + report.losses.members > 0 => format!(
            "NOT exact: {} events and {} new threads were lost in tracing",
            report.losses.events, report.losses.members
        ),
        None if report.losses.switches > 0 => format!(
            "exact but for {} that the kernel did not report",
            amount(report.losses.switches, "switch", "switches")
        ),
        None => format!("exact: {} scheduling events, none lost", report.events),
    }
}

fn seconds(time: Nanos) -> String {
    format!("{:.2}", time.as_secs_f64())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use quell_gap::services::{Cause, Losses};

    fn row(name: &str, target: &str, ran: u64, own: u64, to: &[(Cause, &str, u64)]) -> Row {
        let to: Vec<Loss> = to
            .iter()
            .map(|(cause, name, millis)| Loss {
                cause: *cause,
                name: (*name).into(),
                time: Nanos::from_millis(*millis),
            })
            .collect();
        Row {
            name: name.into(),
            kind: if target.ends_with(".service") { "unit" } else { "command" },
            target: target.into(),
            user: Some(33),
            pids: vec![10, 11],
            processes: 2,
            losses: Losses {
                ran: Nanos::from_millis(ran),
                waited: to.iter().fold(Nanos::ZERO, |sum, loss| sum + loss.time),
                behind_own: Nanos::from_millis(own),
                to,
            },
        }
    }

    fn report(services: Vec<Row>) -> Services {
        Services {
            window: Nanos::from_secs(5),
            cpus: 2,
            services,
            inexact: None,
            losses: Default::default(),
            events: 48_213,
            interrupts: Nanos::from_millis(20),
            steal: Nanos::ZERO,
            interrupted: false,
        }
    }

    /// Twelve services that lost, one of them with a long name, and one that did not.
    pub fn busy() -> Services {
        use Cause::{Kernel, Limit, Service};
        let mut rows = vec![
            row("web", "web.service", 2540, 120, &[(Service, "stress-ng", 1410), (Kernel, "kworker", 50)]),
            row(
                "postgres@4f66ad9a4f66",
                "container:4f66ad9a4f66",
                900,
                0,
                &[(Limit, "its own CPU limit", 700), (Service, "web", 200)],
            ),
            row(
                "stress-ng",
                "4242",
                5100,
                4000,
                &[
                    (Service, "web", 400),
                    (Service, "postgres@4f66ad9a4f66", 90),
                    (Service, "a", 40),
                    (Service, "b", 30),
                    (Service, "c", 20),
                ],
            ),
        ];
        rows.extend((0..9).map(|number| {
            row(&format!("job-{number}"), &format!("{}", 5000 + number), 100, 0, &[(Service, "stress-ng", 90 - number)])
        }));
        rows.push(row("idle", "9", 0, 0, &[]));
        report(rows)
    }

    #[test]
    fn the_report_fits_a_terminal_of_80_columns_and_24_lines() {
        for columns in [80, 200] {
            let text = text(&busy(), false, &|_| true, &Screen::columns(columns));
            quell_report::testing::assert_fits(&text, columns);
            // A line is left for the prompt.
            assert!(text.lines().count() < 24, "{text}");
            let offered = text.lines().filter_map(|line| Some(line.split_once("→ ")?.1));
            assert!(offered.inspect(|line| crate::commands::pasted::assert_taken(line)).count() > 2, "{text}");
            assert!(text.contains("web waited 1.46 s of 4.00: 1.41 stress-ng, 0.05 kworker"), "{text}");
            insta::assert_snapshot!(format!("services_{columns}"), text);
        }
    }

    #[test]
    fn what_takes_much_more_than_it_loses_is_made_to_give_way() {
        use Cause::Service;
        let taken = |name| row("web", "web.service", 900, 0, &[(Service, name, 800)]);
        let said = |losses: &[(Cause, &str, u64)]| {
            text(
                &report(vec![taken("stress"), row("stress", "42", 5000, 0, losses)]),
                false,
                &|_| true,
                &Screen::columns(80),
            )
        };
        // It loses too little for a line of its own, or some; and what loses as much as it takes is a service like others.
        for losses in [&[][..], &[(Service, "web", 300)]] {
            let text = said(losses);
            assert!(
                text.contains("→ quell protect web.service\n") && text.contains("quell protect 42 --be\n"),
                "{text}"
            );
        }
        assert!(said(&[]).contains("stress took 0.80 s of that  → quell protect 42 --be"), "{}", said(&[]));
        let both = said(&[(Service, "web", 700)]);
        assert!(both.contains("quell protect 42\n") && !both.contains("--be"), "{both}");
    }

    #[test]
    fn services_of_one_name_are_shown_with_their_processes() {
        let rows =
            [("5", 40), ("6", 50)].map(|(target, millis)| row("job", target, 9, 0, &[(Cause::Service, "web", millis)]));
        let text = text(&report(rows.into()), false, &|_| true, &Screen::columns(80));
        assert!(text.contains("job 5 waited 0.04") && text.contains("job 6 waited 0.05"), "{text}");
    }

    #[test]
    fn services_that_take_from_others_of_their_name_have_no_command() {
        let rows = ["5", "6"].map(|target| row("rustc", target, 900, 0, &[(Cause::Service, "rustc", 400)]));
        let text = text(&report(rows.into()), false, &|_| true, &Screen::columns(80));
        assert!(!text.contains("quell protect") && text.contains("to protect one takes from them"), "{text}");
    }

    #[test]
    fn what_protect_would_refuse_is_not_offered() {
        for is_asked in [false, true] {
            let text = text(&busy(), is_asked, &|target| target != "web.service", &Screen::columns(200));
            assert!(text.contains("web waited 1.46") && !text.contains("protect web.service"), "{text}");
            assert!(text.contains("quell protect container:4f66ad9a4f66"), "{text}");
        }
    }

    #[test]
    fn services_that_were_asked_for_have_their_headline_before_the_table() {
        let asked = Services { services: busy().services[..1].to_vec(), ..busy() };
        let text = text(&asked, true, &|_| true, &Screen::columns(80));
        quell_report::testing::assert_fits(&text, 80);
        insta::assert_snapshot!("service_80", text);
        assert!(text.find("web waited").unwrap() < text.find("quell protect web.service").unwrap(), "{text}");
    }

    #[test]
    fn where_nothing_waited_noticeably_the_most_is_said_with_its_figure() {
        let calm = report(vec![row("web", "web.service", 900, 0, &[(Cause::Service, "cron", 4)])]);
        let text = text(&calm, false, &|_| true, &Screen::columns(80));
        assert!(text.starts_with("nothing waited noticeably in 5.00 s on 2 CPUs: the most, web, 0.004 s\n"), "{text}");
        assert!(!text.contains("quell protect"), "{text}");
        let text = super::text(&report(Vec::new()), false, &|_| true, &Screen::columns(80));
        assert!(text.contains("no service waited at all"), "{text}");
    }

    #[test]
    fn a_service_that_was_asked_for_is_shown_whatever_it_lost() {
        let calm = report(vec![row("web", "web.service", 900, 0, &[])]);
        let text = text(&calm, true, &|_| true, &Screen::columns(80));
        assert!(text.contains("web waited 0.00 s of 0.90\n"), "{text}");
    }

    #[test]
    fn an_estimate_says_that_it_is_one() {
        let estimate = Services { inexact: Some("no right to trace".into()), interrupted: true, ..busy() };
        let text = text(&estimate, false, &|_| true, &Screen::columns(200));
        assert!(text.contains("estimated from schedstat") && text.contains("no right to trace"), "{text}");
        assert!(text.contains("ended before its time"), "{text}");
    }
}
