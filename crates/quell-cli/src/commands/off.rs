//! `quell off`: everything put back, while the agent goes on observing.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use quell_agent::api::wire::{Command, Controlled};

use super::agent_socket::AgentSocket;
use quell_command::{output, signals};

/// Put everything back now; the agent observes only, until `quell on`.
///
/// For a quick comparison, or while debugging something else. A restarted worker stays off; a restarted agent starts on. Only root and the
/// agent's own user may do this.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// Stay off only while this command runs, however it ends (Ctrl-C, kill -9)
    #[arg(long)]
    lease: bool,
    /// Print the answer as JSON (`POST /v1/control`)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let client = arguments.agent.client()?;
    if !arguments.lease {
        return print(&client.control(Command::Off)?, arguments.json);
    }
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    let mut leased = client.lease()?;
    let code = print(&leased.answer, arguments.json)?;
    io::stdout().flush()?;
    while !stop.load(Ordering::Acquire) {
        if client.is_over_within(&mut leased, Duration::from_millis(200)) {
            anyhow::bail!("the agent's worker has ended, and with it the lease: everything is set again");
        }
    }
    client.release(leased);
    Ok(code)
}

/// Says what the agent answered; the exit status is 1 if something could not be put back.
pub fn print(answer: &Controlled, json: bool) -> Result<ExitCode> {
    if json {
        output::json_line(answer)?;
    } else {
        write!(io::stdout(), "{}", text(answer))?;
    }
    answer.left.iter().for_each(|left| eprintln!("quell: {left}"));
    Ok(if answer.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(answer: &Controlled) -> String {
    let put_back = match answer.put_back {
        1 => "1 value put back".to_owned(),
        count => format!("{count} values put back"),
    };
    match &answer.off {
        Some(off) if off.leased => format!("off while {} is connected: {put_back}\n", off.by.join(" or ")),
        Some(_) => format!("off: {put_back}; `quell on` sets everything again\n"),
        None => "on: everything is set again\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_agent::api::wire::Off;

    #[test]
    fn the_answer_says_what_stands_now() {
        let off = |leased| Some(Off { since_ns: 1, by: vec!["root (process 7)".into()], leased });
        let said = |off, put_back| text(&Controlled { off, put_back, left: vec![] });
        assert_eq!(said(off(false), 1), "off: 1 value put back; `quell on` sets everything again\n");
        assert_eq!(said(off(true), 2), "off while root (process 7) is connected: 2 values put back\n");
        assert_eq!(said(None, 0), "on: everything is set again\n");
    }
}
