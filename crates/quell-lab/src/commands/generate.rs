//! `quell-lab generate`: man pages and shell completions, for packages.

use std::process::ExitCode;

use anyhow::Result;
pub use quell_command::generate::Arguments;
use quell_command::generate::manual::Manual;

use super::completions::values;

const MANUAL: Manual = Manual {
    formats: &[("quell-scenario", "what is simulated and played", include_str!("../../../../docs/lab/scenarios.md"))],
    files: &[("~/.cache/quell/lab", "kernels and QEMU", &["boot", "run"])],
    statuses: include_str!("../../../../docs/reference/exit-statuses.md"),
    see_also: &["quell-lab(1)", "quell-scenario(5)", "quell(1)"],
};

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    arguments.run(crate::command(), &MANUAL, values())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quell_command::generate::without_help;

    use super::*;

    #[test]
    fn man_pages_name_statuses_and_keys() {
        let directory = tempfile::tempdir().unwrap();
        MANUAL.write(without_help(crate::command()), directory.path()).unwrap();
        let page = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(page("quell-lab-boot-run.1").contains("125") && page("quell-lab-paper.1").contains("SEE ALSO"));
        assert!(page("quell-scenario.5").contains("warm_up"));
    }
}
