//! `quell version`: as `--version`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_command::output;

/// Print the version, as --version does
#[derive(Args)]
pub struct Arguments {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Prints it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.json {
        output::json_line(serde_json::json!({}))?;
    } else {
        writeln!(io::stdout(), "quell {}", env!("CARGO_PKG_VERSION"))?;
    }
    Ok(ExitCode::SUCCESS)
}
