//! `quell-lab boot fetch`: fills the cache beforehand, for CI and for machines that will be offline.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_guest::{Busybox, Cache, Kernel, Qemu, ToStderr, Virtiofsd};
use serde_json::json;

use quell_command::output;

/// Fetch kernel, QEMU and the rest into the cache, and print where they are
#[derive(Args)]
pub struct Arguments {
    /// Kernel version, as in 6.18.15 [default: the best available]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Print what there is as JSON
    #[arg(long)]
    json: bool,
}

/// Fetches what is not there yet.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let cache = Cache::of_user()?;
    let kernel = Kernel::get(&cache, arguments.kernel.as_deref(), &ToStderr)?;
    let qemu = Qemu::get(&cache, &ToStderr)?;
    let qemu_version = qemu.version()?;
    Busybox::get(&cache, &ToStderr)?;
    Virtiofsd::get(&cache, &ToStderr)?;
    if arguments.json {
        let answer = json!({
            "cache": cache.root(),
            "kernel": { "version": kernel.version, "release": kernel.release, "vmlinux": kernel.vmlinux() },
            "qemu": { "version": qemu_version, "program": qemu.program },
        });
        return output::json(answer).map(|()| ExitCode::SUCCESS);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "cache   {}", cache.root().display())?;
    writeln!(out, "kernel  {} ({})", kernel.version, kernel.vmlinux().display())?;
    writeln!(out, "QEMU    {qemu_version} ({})", qemu.program.display())?;
    Ok(ExitCode::SUCCESS)
}
