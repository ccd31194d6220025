//! Text of `quell-lab --help`: its commands by purpose, and two examples of each.

use quell_command::help::{Group, Help};

/// What `quell-lab --help` says beside the options.
pub const HELP: Help = Help {
    groups: &GROUPS,
    below: "Options: --wide (every column of tables), --help, --version. Exit status: 0 success; \
            1 failure, or problem found; 2 wrong command line; 130 Ctrl-C.",
};

const GROUPS: [Group; 5] = [
    Group {
        what: "Scenes: simulated, as threads, as programs",
        commands: &[
            (
                "run",
                [
                    "quell-lab run memcached-2cpus --against none,guard --html page.html",
                    "quell-lab run spin --on programs --in lab --against alone,fifo --cpus 2 --seeds 1",
                ],
            ),
            ("demo", ["quell-lab demo", "quell-lab demo --cpus 4 --seeds 3 --json"]),
            (
                "validate",
                ["quell-lab validate memcached-2cpus", "quell-lab validate scenes/spin.toml --seeds 2 --json"],
            ),
            (
                "count",
                ["quell-lab count spin", "quell-lab count spin --against fifo-grouped,caladan --rounds 1us --json"],
            ),
            ("replay", ["quell-lab replay run.record", "quell-lab replay run.record --policy none --json"]),
        ],
    },
    Group {
        what: "Placement over simulated hosts",
        commands: &[("cluster", ["quell-lab cluster run quiet-host", "quell-lab cluster why quiet-host 0"])],
    },
    Group {
        what: "What is claimed, row by row",
        commands: &[("paper", ["quell-lab paper --list", "quell-lab paper queueing --quick"])],
    },
    Group {
        what: "A real kernel with sched_ext, anywhere",
        commands: &[("boot", ["quell-lab boot run -- uname -r", "quell-lab boot shell"])],
    },
    Group {
        what: "Completions for a shell",
        commands: &[(
            "completions",
            ["quell-lab completions bash > /etc/bash_completion.d/quell-lab", "quell-lab completions fish"],
        )],
    },
];

#[cfg(test)]
mod tests {
    use quell_report::screen::Screen;

    use super::*;

    #[test]
    fn every_visible_command_stands_in_one_group_with_examples_that_are_understood() {
        HELP.assert_complete(&HELP.on(crate::bare_command(), &Screen::UNBOUNDED));
    }

    #[test]
    fn the_help_fits_the_terminal() {
        for columns in [80, 200] {
            let mut command = HELP.on(crate::bare_command(), &Screen::columns(columns)).term_width(columns);
            let text = command.render_long_help().to_string();
            quell_report::testing::assert_fits(&text, columns);
            assert!(text.lines().count() <= 24, "one screen: {text}");
            insta::assert_snapshot!(format!("help_{columns}"), text);
        }
    }
}
