//! `quell-lab boot shell`: a shell in the lab.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_guest::{Input, Job, Lab, Machine, Root, ToStderr};
use rustix::termios;

/// A shell on a kernel with sched_ext: on this terminal, or for what is piped in
///
/// Exit status: the shell's; 125 if the lab failed.
#[derive(Args)]
pub struct Arguments {
    /// Virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Kernel version, as in 6.18.15 [default: the best available]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Put these programs, what they load and these files into memory, and nothing else of the host
    #[arg(long, value_name = "FILE", num_args = 0..)]
    pack: Option<Vec<PathBuf>>,
}

/// Runs the shell.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut job = match (is_terminal, termios::tcgetwinsize(io::stdin())) {
        (true, Ok(size)) if size.ws_row > 0 => {
            Job::new(["sh", "-c", &format!("stty rows {} cols {}; exec sh -i", size.ws_row, size.ws_col)])
        }
        (true, _) => Job::new(["sh", "-i"]),
        (false, _) => Job::new(["sh"]),
    };
    job.input = if is_terminal { Input::Terminal } else { stdin() };
    let machine = Machine {
        cpus: arguments.cpus,
        kernel: arguments.kernel.clone(),
        root: arguments.pack.clone().map_or(Root::Host, Root::Packed),
        ..Machine::default()
    };
    let ending = Lab::new(&ToStderr)?.run(&machine, &job, &mut io::stdout(), &mut io::stderr())?;
    Ok(ExitCode::from(ending.status))
}

/// What a command reads: this process's input, unless it is a terminal on which another job is at work, where reading
/// would stop this one.
pub fn stdin() -> Input {
    let elsewhere = termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group != rustix::process::getpgrp());
    if elsewhere { Input::Nothing } else { Input::Stdin }
}
