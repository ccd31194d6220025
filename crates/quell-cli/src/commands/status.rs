//! `quell status`: what the agent does, once.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_agent::AgentError;
use quell_agent::api::wire::{Configured, Cpu, CpuState, Status, Workload};
use quell_report::human;
use quell_report::screen::{Mark, Screen};
use quell_report::table::{Cell, marked, table};

use super::agent_socket::{AgentSocket, Command};
use quell_command::output;

use super::{cells, pods, waits};

/// Show what the running agent does: policies, workloads, CPUs.
///
/// `quell top` shows the same, live; `quell why WORKLOAD` the last decisions. Commands that manage a workload without an agent
/// (`quell exec`) are shown, too: a single one as an agent is, others in a line each.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the whole status as JSON (`GET /v1/status`), a line for the agent and one for each command without one
    #[arg(long)]
    json: bool,
    /// List the node's pods: class, CPUs, and what is not as their labels ask
    #[arg(long)]
    pods: bool,
    /// List every limit of this host
    #[arg(long)]
    limits: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let leftovers = arguments.agent.leftovers();
    let status = arguments.agent.client()?.get::<Status>("/v1/status");
    // One that has ended meanwhile is none.
    let get = |command: Command| Some((command.client.get::<Status>("/v1/status").ok()?, command));
    let mut commands: Vec<(Status, Command)> = arguments.agent.commands().into_iter().filter_map(get).collect();
    for left in &leftovers {
        eprintln!("quell: {left}");
    }
    let status = match status {
        Err(AgentError::NoAgent { .. }) if commands.len() == 1 => commands.pop().map(|(status, _)| status),
        Err(AgentError::NoAgent { .. }) if !commands.is_empty() => None,
        Err(error @ AgentError::NoAgent { .. }) => match arguments.agent.starting() {
            Some(line) => bail!("{line}"),
            None => return Err(error.into()),
        },
        answer => Some(answer?),
    };
    if arguments.json {
        let all = status.iter().chain(commands.iter().map(|(status, _)| status));
        all.into_iter().try_for_each(output::json_line)?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = Screen::here();
    if arguments.pods {
        let Some(status) = &status else {
            bail!("only an agent has a part in Kubernetes; see docs/start/kubernetes.md")
        };
        write!(io::stdout(), "{}", pods::text(status.kubernetes.as_ref(), &screen))?;
        return Ok(ExitCode::SUCCESS);
    }
    let whole = status.iter().map(|status| text(status, arguments.limits, &screen));
    let lines = commands.iter().map(|(status, command)| screen.wrap(&command_line(status, command)) + "\n");
    write!(io::stdout(), "{}", whole.chain(lines).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// What a command manages without an agent, in a line.
fn command_line(status: &Status, command: &Command) -> String {
    let of = |workload: &Workload| {
        let state = status.configured.iter().find(|configured| configured.name == workload.name);
        let state = state.map_or("attached".to_owned(), |configured| cells::state(configured, status.now_ns));
        let (class, policies) = (cells::class(workload.class), workload.policies.join(", "));
        let set = Some(cells::knobs(workload))
            .filter(|knobs| !knobs.is_empty())
            .map_or(String::new(), |it| format!(": {it}"));
        format!("{} ({class}) under {policies}, {state}{set}", workload.name)
    };
    let workloads: Vec<String> = status.workloads.iter().map(of).collect();
    let (name, socket) = (&command.name, command.socket.display());
    format!("{name}, without an agent: {}; `quell status --socket {socket}`", workloads.join("; "))
}

/// The status for people.
pub fn text(status: &Status, all_limits: bool, screen: &Screen) -> String {
    let agent = &status.agent;
    let mut lines = vec![screen.wrap(&format!(
        "Quell {} ({}) on the {} host: process {}, {} turns, {:.1} s of CPU time, {} resident",
        agent.version,
        agent.mode,
        agent.host,
        agent.pid,
        status.turns,
        agent.cpu_seconds,
        human::bytes(agent.resident_bytes),
    ))];
    if let Some(recording) = &agent.recording {
        let trouble = recording.failed.as_ref().map_or(String::new(), |why| format!("; it ended: {why}"));
        let (turns, lost) = (recording.turns, recording.lost);
        let line = format!("recording to {}: {turns} turns, {lost} lost{trouble}", recording.file);
        lines.push(screen.wrap(&line));
    }
    lines.extend(cells::exceptions(agent, status.now_ns).iter().map(|line| screen.wrap(line)));
    lines.push(String::new());
    let layers = status.layers.iter().map(|layer| {
        let owns = layer.workloads.as_ref().map_or("all workloads".to_owned(), |names| names.join(", "));
        let counts = [layer.steps, layer.knobs, layer.grants, layer.refused].map(|count| count.to_string());
        let mut row = vec![layer.policy.clone(), owns, layer.pool.clone()];
        row.extend(counts);
        row
    });
    let head = ["policy", "owns", "CPUs", "steps", "knobs", "grants", "refused"];
    lines.push(table(head, layers).least(["refused", "grants", "knobs", "steps", "CPUs"]).fit(screen));
    lines.push(String::new());
    if status.workloads.is_empty() && status.configured.is_empty() {
        lines.push("the configuration has no workload".to_owned());
    } else {
        let head =
            ["workload", "class", "state", "granted", "CPUs used/req", "waiting", "queueing", "latency/SLO", "knobs"];
        let attached = status.workloads.iter().map(|workload| attached_row(status, workload));
        let absent = status.absent().map(|workload| absent_row(status, workload));
        let least = ["queueing", "waiting", "granted", "knobs", "state"];
        lines.push(table(head, attached.chain(absent)).least(least).fit(screen));
        lines.extend(cells::not_exclusive(&status.workloads).into_iter().map(|line| screen.wrap(&line)));
        lines.extend(status.workloads.iter().filter_map(waits::line).map(|line| screen.wrap(&line)));
        for configured in &status.configured {
            let workload = status.workloads.iter().find(|workload| workload.name == configured.name);
            lines.extend(cells::remarks(configured, workload).iter().map(|line| screen.wrap(line)));
        }
        let why =
            |absent: &Configured| Some(screen.wrap(&format!("{}: {}", absent.state.word(), absent.why.as_ref()?)));
        lines.extend(status.absent().filter_map(why));
    }
    lines.push(String::new());
    lines.extend(cpus(&status.cpus).iter().map(|line| screen.wrap(line)));
    lines.extend(cells::decisions(status).map(|line| screen.wrap(&line)));
    if status.decisions_lost > 0 {
        lines
            .push(format!("! {} decisions were lost: they came faster than they could be read", status.decisions_lost));
    }
    lines.extend(agent.starting.iter().map(|what| screen.wrap(&format!("! {what}"))));
    lines.extend(agent.degraded.iter().map(|why| screen.wrap(&format!("! {why}"))));
    lines.extend(agent.warnings.iter().map(|warning| screen.wrap(&format!("! {warning}"))));
    lines.extend(waits::trouble(agent).map(|line| screen.wrap(&line)));
    lines.extend(agent.notices.iter().map(|notice| screen.wrap(notice)));
    match agent.limits.len() {
        0 => {}
        _ if all_limits => lines.extend(agent.limits.iter().map(|limit| screen.wrap(&format!("! {limit}")))),
        1 => lines.push("1 limit of this host: `--limits` shows it".to_owned()),
        count => lines.push(format!("{count} limits of this host: `--limits` shows them")),
    }
    lines.join("\n") + "\n"
}

fn attached_row(status: &Status, workload: &Workload) -> Vec<Cell> {
    let configured = status.configured.iter().find(|configured| configured.name == workload.name);
    let latency = match workload.slo_met {
        Some(false) => marked(Mark::Bad, cells::latency(workload)),
        _ => cells::latency(workload).into(),
    };
    let state = configured.map_or("attached".to_owned(), |configured| cells::state(configured, status.now_ns));
    let state = if state.starts_with('!') { marked(Mark::Bad, state) } else { state.into() };
    let knobs = cells::knobs(workload);
    let knobs = if cells::is_flapping(workload) { marked(Mark::Bad, format!("! {knobs}")) } else { knobs.into() };
    vec![
        workload.name.as_str().into(),
        cells::class(workload.class).into(),
        state,
        cells::granted(workload).into(),
        cells::got(workload).into(),
        cells::waiting(workload).into(),
        cells::queueing(workload).into(),
        latency,
        knobs,
    ]
}

fn absent_row(status: &Status, workload: &Configured) -> Vec<Cell> {
    let known = [workload.name.as_str().into(), cells::class(workload.class).into()];
    let mut row: Vec<Cell> = known.into_iter().chain([cells::state(workload, status.now_ns).into()]).collect();
    row.resize(8, cells::NOTHING.into());
    row
}

/// CPUs by what they do, one line each.
fn cpus(cpus: &[Cpu]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for cpu in cpus {
        let what = match (&cpu.workload, cpu.state) {
            (_, CpuState::Offline) => "offline".to_owned(),
            (_, CpuState::Isolated) => "isolated, not managed".to_owned(),
            (_, CpuState::Banned) => "parked by a sibling ban".to_owned(),
            (None, CpuState::RealTime) => "a real-time thread".to_owned(),
            (Some(name), _) => name.clone(),
            (None, CpuState::Idle) => "idle".to_owned(),
            (None, _) => "unmanaged work or nothing".to_owned(),
        };
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, members)) => members.push(cpu.cpu),
            None => groups.push((what, vec![cpu.cpu])),
        }
    }
    let line = |(what, members): (String, Vec<u32>)| {
        let set: quell_model::CpuSet = members.into_iter().map(quell_model::CpuId).collect();
        format!("CPUs {set}: {what}")
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample;
    use quell_agent::api::wire::{Class, NotReloaded, Off, Overridden, Remark, RemarkKind, Stale, State};
    use quell_agent::run::remarks;
    use quell_model::Signal;

    #[test]
    fn a_small_terminal_shows_where_each_workload_stands() {
        let mut status = sample::status(4);
        let configured = |name: &str, state, threads| Configured {
            name: name.into(),
            class: Class::Lc,
            cpus_requested: 1.0,
            state,
            since_ns: status.now_ns,
            threads,
            selectors: vec![],
            why: None,
            leased_by: None,
            latency: None,
            departed: Vec::new(),
            overridden: None,
            remarks: vec![],
        };
        status.configured =
            vec![configured("db", State::Attached, Some(12)), configured("cache", State::Waiting, None)];
        let text = text(&status, false, &Screen::columns(80));
        assert!(text.contains("attached (12 threads)") && text.contains("waiting"), "{text}");
        quell_report::testing::assert_fits(&text, 80);
    }

    #[test]
    fn a_scheduler_that_is_off_is_said() {
        let mut status = sample::status(4);
        status.agent.degraded = Some("Quell's scheduler is off: a stall".into());
        assert!(text(&status, false, &Screen::columns(80)).contains("! Quell's scheduler is off: a stall"));
    }

    #[test]
    fn what_a_starting_agent_does_is_said() {
        let mut status = sample::status(4);
        status.agent.starting = Some("loading Quell's scheduler: the kernel verifies it, 12 s so far".into());
        let text = text(&status, false, &Screen::columns(80));
        assert!(text.contains("! loading Quell's scheduler: the kernel verifies it, 12 s so far"), "{text}");
    }

    #[test]
    fn what_the_scheduler_decided_is_shown_most_of_all_first() {
        let mut status = sample::status(4);
        assert!(!text(&status, false, &Screen::columns(80)).contains("scheduler:"), "nothing is measured");
        let measured = |count| sample::measured(f64::from(count));
        for (signal, count) in [(Signal::CpusTaken, 7), (Signal::Throttled, 0), (Signal::CpusRefused, 42)] {
            status.measured = status.measured.with(signal, measured(count));
        }
        let text = text(&status, false, &Screen::columns(80));
        assert!(text.contains("scheduler: CPUs refused 42, CPUs taken 7\n"), "{text}");
    }

    #[test]
    fn the_status_fits_the_terminal() {
        for columns in [80, 200] {
            let text = text(&sample::status(4), false, &Screen::columns(columns));
            quell_report::testing::assert_fits(&text, columns);
            insta::assert_snapshot!(format!("status_{columns}"), text);
        }
    }

    fn overridden(threads: u32, of: u32, difference: &str) -> Option<Overridden> {
        let then = quell_agent::watch::LEFT_SO.to_owned();
        Some(Overridden { threads, of, since_ns: 0, differences: vec![difference.into()], then })
    }

    /// A status of one service with these facts, and those of its agent.
    fn situation(change: impl FnOnce(&mut Status)) -> String {
        let mut status = sample::status(2);
        let knobs = vec!["SCHED_FIFO 1".to_owned()];
        status.workloads = vec![Workload { knobs, ..sample::workload("web", Class::Lc, 1.0, 0.5) }];
        status.configured = vec![sample::configured("web")];
        (status.decisions, status.agent.limits) = (vec![], vec![]);
        change(&mut status);
        let text = text(&status, false, &Screen::columns(110));
        quell_report::testing::assert_fits(&text, 110);
        text
    }

    fn remark(remark: Remark) -> impl FnOnce(&mut Status) {
        move |status| status.configured[0].remarks = vec![remark]
    }

    #[test]
    fn what_does_not_stand_is_said_in_each_situation() {
        let text = [
            situation(|status| {
                status.configured[0].overridden =
                    overridden(5, 5, "5 threads: SCHED_OTHER nice 0 instead of SCHED_FIFO 1");
                status.workloads[0].knobs = vec!["SCHED_OTHER nice 0 instead of SCHED_FIFO 1".into()];
            }),
            situation(|status| {
                let why = "2 threads, put back: their user is now www-data: write user = \"www-data\" to keep them";
                status.configured[0].departed = vec![why.into()];
            }),
            situation(remark(remarks::by_thread())),
            situation(|status| {
                status.workloads[0].knobs = vec![];
                status.workloads[0].refused = Some("sched_setattr of thread 7: EPERM; run as root".into());
            }),
            situation(remark(Remark {
                about: RemarkKind::Limited,
                text: "web.slice allows 0.5 CPUs (cpu.max), less than the 1 that is asked for; raise CPUQuota= there"
                    .into(),
            })),
            situation(remark(remarks::no_real_time_budget())),
            situation(|status| {
                status.configured[0].remarks = vec![remarks::not_idle_only(quell_linux::Within::Session)];
                status.workloads[0].class = Class::Be;
                status.workloads[0].knobs = vec!["SCHED_IDLE".into()];
            }),
            situation(remark(
                remarks::exports(quell_linux::Exporting { processes: 1, workers: 4, strangers: 0 }).unwrap(),
            )),
            situation(|status| {
                status.workloads[0].demotions = 9;
                status.workloads[0].demotions_last_minute = 4;
            }),
            situation(|status| {
                let why = "cannot read /proc/stat: too many open files".into();
                status.agent.stale = Some(Stale { since_ns: 2_000_000_000, why });
            }),
            situation(|status| {
                status.agent.not_reloaded = Some(NotReloaded { since_ns: 0, why: "quell.toml:3:1: error: x".into() });
                status.agent.warnings = vec![
                    "the configuration on disk is refused, the previous one remains in force: quell.toml:3:1: error: x; correct \
                     it (`quell check`), then reload (SIGHUP, systemctl reload quell)"
                        .into(),
                ];
            }),
            situation(|status| {
                let by = vec!["root (process 4711)".into()];
                status.agent.off = Some(Off { since_ns: 4_000_000_000, by, leased: false });
                status.workloads[0].knobs = vec![];
            }),
        ];
        let names = [
            "overridden",
            "left",
            "threaded",
            "refused",
            "limited",
            "no_rt_budget",
            "autogroup",
            "exports",
            "flapping",
            "stale",
            "reload_refused",
            "off",
        ];
        for (name, text) in names.iter().zip(&text) {
            insta::assert_snapshot!(format!("situation_{name}"), text);
        }
    }
}
