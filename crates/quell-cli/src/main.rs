//! The `quell` command: one file a subcommand, under `commands/`.

mod commands;
mod host;

use std::process::ExitCode;

use clap::Parser;

/// Latency-critical services keep the latency that they have alone; best-effort work gets the rest.
#[derive(Parser)]
#[command(name = "quell", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    match commands::run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("quell: {error:#}");
            ExitCode::FAILURE
        }
    }
}
