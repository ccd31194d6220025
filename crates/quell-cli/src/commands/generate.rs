//! `quell generate`: man pages and shell completions, for packages.

use std::process::ExitCode;

use anyhow::Result;
pub use quell_command::generate::Arguments;
use quell_command::generate::manual::Manual;

use super::completions::values;

const MANUAL: Manual = Manual {
    formats: &[(
        "quell.toml",
        "the configuration of Quell's agent",
        include_str!("../../../../docs/reference/configuration.md"),
    )],
    files: &[
        ("/etc/quell/quell.toml", "the configuration, see quell.toml(5)", &["run", "check"]),
        ("/etc/quell/quell.d/*.toml", "its drop-ins, in the order of their names", &["run", "check"]),
        ("/run/quell", "the lock, and the journal of what was there before Quell", &["run", "exec", "restore"]),
        ("/run/quell/api.sock", "where the agent answers", &["run", "status", "top", "why", "verify", "off", "on"]),
        ("./report.json, ./report.html", "what quell demo reports", &["demo"]),
    ],
    statuses: include_str!("../../../../docs/reference/exit-statuses.md"),
    see_also: &["quell(1)", "quell.toml(5)", "quell-check(1)"],
};

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    arguments.run(crate::command(), &MANUAL, values())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quell_command::generate::{completions_text, without_help};

    use super::*;

    #[test]
    fn every_visible_subcommand_has_a_man_page_and_completions() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        MANUAL.write(without_help(crate::command()), directory.path()).unwrap();
        assert!(!path("quell-help.1").exists());
        let bash = completions_text(clap_complete::Shell::Bash, crate::command(), values());
        let bash = String::from_utf8(bash).unwrap();
        let command = crate::command();
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let name = subcommand.get_name();
            let page = fs::read_to_string(path(&format!("quell-{name}.1"))).unwrap();
            assert!(page.contains(".SH \"EXIT STATUS\"") && page.contains(".SH \"SEE ALSO\""), "{name}: {page}");
            assert!(bash.contains(name), "{name}");
        }
    }

    #[test]
    fn man_pages_name_files_statuses_and_keys() {
        let directory = tempfile::tempdir().unwrap();
        MANUAL.write(without_help(crate::command()), directory.path()).unwrap();
        let page = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(page("quell-run.1").contains("/etc/quell/quell.toml") && page("quell.1").contains(".SH FILES"));
        assert!(page("quell-exec.1").contains("126") && !page("quell-check.1").contains("126"));
        for key in ["watchdog_timeout", "reservation", "enable_controllers"] {
            assert!(page("quell.toml.5").contains(key), "{key}");
        }
    }
}
