//! Text of `quell-lab --help`: its commands by purpose, and two examples of each.

use quell_command::help::{Group, Help};

/// What `quell-lab --help` says beside the options.
pub const HELP: Help = Help {
    groups: &GROUPS,
    below: "Options: --wide (every column of tables), --help, --version. Exit status: 0 done; \
            1 failed, or the answer is no; 2 wrong command line; 130 Ctrl-C.",
};

const GROUPS: [Group; 4] = [
    Group {
        what: "Scenarios on a simulated machine, or as real threads",
        commands: &[
            (
                "sim",
                [
                    "quell-lab sim memcached-2cpus",
                    "quell-lab sim memcached-2cpus --policies none,guard --html page.html",
                ],
            ),
            (
                "play",
                [
                    "quell-lab play memcached-2cpus --duration 5s",
                    "quell-lab lab run -- quell-lab play memcached-2cpus --json",
                ],
            ),
            (
                "validate",
                ["quell-lab validate memcached-2cpus", "quell-lab validate scenes/spin.toml --seeds 2 --json"],
            ),
            ("replay", ["quell-lab replay run.record", "quell-lab replay run.record --policy none --json"]),
        ],
    },
    Group {
        what: "What is claimed, row by row",
        commands: &[("reproduce", ["quell-lab reproduce --list", "quell-lab reproduce queueing --quick"])],
    },
    Group {
        what: "A real kernel with sched_ext in a virtual machine",
        commands: &[("lab", ["quell-lab lab run -- uname -r", "quell-lab lab shell"])],
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
