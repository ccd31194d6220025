//! `quell top`: the agent's status, live.

mod course;
mod headline;
pub mod model;
mod panel;
pub mod render;
mod workloads;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_agent::AgentError;
use quell_agent::api::Client;
use quell_agent::api::wire::Status;
use quell_model::Nanos;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::agent_socket::AgentSocket;
use model::{Model, Then};
use quell_command::output::{self, WrongCommandLine};
use quell_command::units;

/// Watch what the running agent does: workloads, CPUs, decisions.
///
/// Keys: q quits, ↑ and ↓ choose a workload, Enter shows only its decisions, / shows only names that contain a
/// text, s changes the order, p pauses and resumes, ? shows this help.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// Time between two samples, for example 500ms
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    interval: Nanos,
    /// Print one JSON status a sample (as `GET /v1/status`), one line each, instead of the view
    #[arg(long)]
    json: bool,
    /// End after this many samples
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut client = arguments.agent.client()?;
    let interval = Duration::from(arguments.interval).max(Duration::from_millis(50));
    // An agent that does not run is said on the plain terminal, not in the view.
    let mut first = client.get::<Status>("/v1/status");
    if let Err(AgentError::NoAgent { .. }) = first {
        let mut commands = arguments.agent.commands();
        if commands.len() > 1 {
            let each = commands.iter().map(|command| format!("\n  quell top --socket {}", command.socket.display()));
            bail!(
                "no agent runs, and several commands manage without one; watch one of them:{}",
                each.collect::<String>()
            );
        }
        if let Some(only) = commands.pop() {
            client = only.client;
            first = client.get("/v1/status");
        }
    }
    let first = first?;
    if arguments.json {
        return print(&client, first, interval, arguments.count);
    }
    if !std::io::stdout().is_terminal() {
        let why = "the output is not a terminal: use `quell status`, or `quell top --json`";
        return Err(WrongCommandLine(why.to_owned()).into());
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = watch(&mut terminal, &client, first, interval, arguments.count);
    ratatui::restore();
    result
}

fn print(client: &Client, mut status: Status, interval: Duration, count: Option<u64>) -> Result<ExitCode> {
    for look in 1.. {
        output::json_line(&status)?;
        if count.is_some_and(|most| look >= most) {
            break;
        }
        std::thread::sleep(interval);
        status = client.get("/v1/status")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    client: &Client,
    first: Status,
    interval: Duration,
    count: Option<u64>,
) -> Result<ExitCode> {
    let mut model = Model::new(first);
    let mut looked = Instant::now();
    for look in 1.. {
        terminal.draw(|frame| render::render(frame, &model)).context("draw the view")?;
        if count.is_some_and(|most| look >= most) {
            break;
        }
        while let Some(left) = interval.checked_sub(looked.elapsed()).filter(|left| !left.is_zero()) {
            if !event::poll(left).context("wait for a key")? {
                continue;
            }
            match event::read().context("read a key")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match model.press(key) {
                    Then::Quit => return Ok(ExitCode::SUCCESS),
                    Then::Draw => {
                        terminal.draw(|frame| render::render(frame, &model)).context("draw the view")?;
                    }
                },
                Event::Resize(..) => {
                    terminal.draw(|frame| render::render(frame, &model)).context("draw the view")?;
                }
                _ => {}
            }
        }
        looked = Instant::now();
        if !model.paused {
            model.take(client.get("/v1/status").map_err(|error| error.to_string()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
