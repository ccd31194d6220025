//! Text of `quell --help`: the commands by purpose, and two examples of each.

use clap::Command;
use quell_report::screen::{Mark, Screen};

/// Columns of the help: at most, and where the output has no bound; as clap has them.
const WIDEST: usize = 110;
const UNBOUNDED: usize = 100;

/// The commands of one purpose, each with two examples.
struct Group {
    title: &'static str,
    commands: &'static [(&'static str, [&'static str; 2])],
}

const GROUPS: [Group; 6] = [
    Group {
        title: "Agent",
        commands: &[
            ("run", ["quell run", "quell run --config quell.toml --dry-run --once"]),
            (
                "exec",
                [
                    "quell exec --class lc --cpus 1 -- memcached -t 1 -u nobody",
                    "quell exec --class be --limit 0.5 -- make -j8",
                ],
            ),
            ("check", ["quell check quell.toml", "quell check --example > quell.toml"]),
            ("restore", ["quell restore", "quell restore --run-dir /tmp/quell --json"]),
            ("status", ["quell status", "quell status --socket /tmp/quell.sock --json"]),
            ("top", ["quell top", "quell top --interval 500ms"]),
            ("why", ["quell why memcached", "quell why memcached --last 5 --json"]),
            ("verify", ["quell verify", "quell verify --socket /tmp/quell.sock --json"]),
            ("off", ["quell off", "quell off --lease"]),
            ("on", ["quell on", "quell on --json"]),
        ],
    },
    Group {
        title: "Look",
        commands: &[
            ("doctor", ["quell doctor", "quell doctor caladan --cpus 2-7"]),
            (
                "gap",
                [
                    "quell gap --for 10s --workload web=pid:4242,cpus=1",
                    "quell gap --workload web=cgroup:/system.slice/web.service,cpus=2 --json",
                ],
            ),
        ],
    },
    Group {
        title: "Measure",
        commands: &[
            ("demo", ["quell demo", "quell demo runaway"]),
            (
                "load",
                [
                    "quell load --target 127.0.0.1:11211 --rate 20000 --duration 10s",
                    "quell load --target redis://127.0.0.1:6379 --rate 5k --post cache",
                ],
            ),
            ("antagonist", ["quell antagonist cpu", "quell antagonist stream --threads 2 --duration 30s"]),
        ],
    },
    Group {
        title: "Simulate",
        commands: &[
            ("sim", ["quell sim memcached-2cpus", "quell sim memcached-2cpus --policies none,guard --html page.html"]),
            (
                "vas",
                [
                    "quell vas --task 0,1ms,4ms --task 2ms,2ms,10ms",
                    "quell vas --poisson 2k,exponential:100us --period 10ms --bound 3ms",
                ],
            ),
            (
                "play",
                ["quell play memcached-2cpus --duration 5s", "quell lab run -- quell play memcached-2cpus --json"],
            ),
            ("validate", ["quell validate memcached-2cpus", "quell validate scenes/spin.toml --seeds 2 --json"]),
            ("reproduce", ["quell reproduce --list", "quell reproduce queueing --quick"]),
            ("replay", ["quell replay run.record", "quell replay run.record --policy none --json"]),
        ],
    },
    Group { title: "Lab", commands: &[("lab", ["quell lab run -- uname -r", "quell lab shell"])] },
    Group {
        title: "Other",
        commands: &[(
            "completions",
            ["quell completions bash > /etc/bash_completion.d/quell", "quell completions fish"],
        )],
    },
];

const STATUS: &str = "Exit status: 0 done; 1 it failed, or the answer is no; 2 the command line is wrong; 130 ended by Ctrl-C \
                      without a result; 141 the reader closed the pipe. `exec` and `lab run`: the command's own.";

/// The command with its help for this screen.
pub fn with_help(command: Command, screen: &Screen) -> Command {
    let width = screen.width.unwrap_or(UNBOUNDED).min(WIDEST);
    let screen = &Screen { width: Some(width), ..*screen };
    let listed = listed(&command, screen);
    let command = command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{}\n{{options}}{{after-help}}",
        screen.mark(Mark::Head, "Options:")
    ));
    let command =
        command.after_help(format!("{}\n`quell COMMAND --help` says more, with examples.", screen.wrap(STATUS)));
    GROUPS.iter().flat_map(|group| group.commands).fold(command, |command, (name, examples)| {
        let lines = examples.map(|example| format!("  {example}"));
        let text = format!("{}\n{}", screen.mark(Mark::Head, "Examples:"), lines.join("\n"));
        command.mut_subcommand(name, |subcommand| subcommand.after_help(text))
    })
}

/// The commands, group by group, with the first line of each description.
fn listed(command: &Command, screen: &Screen) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        text += &format!("{}\n", screen.mark(Mark::Head, format!("{}:", group.title)));
        for (name, _) in group.commands {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            text += &screen.hang(&format!("  {name:<12} {}", about.unwrap_or_default()), 15);
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_stands_in_one_group_with_examples_that_are_understood() {
        let command = with_help(crate::bare_command(), &Screen::UNBOUNDED);
        let grouped: Vec<_> = GROUPS.iter().flat_map(|group| group.commands).collect();
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let count = grouped.iter().filter(|(name, _)| *name == subcommand.get_name()).count();
            assert_eq!(count, 1, "{}", subcommand.get_name());
        }
        for example in grouped.iter().flat_map(|(_, examples)| examples) {
            let words = example.split(" > ").next().unwrap().split(' ');
            let parsed = command.clone().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn the_help_fits_the_terminal() {
        for columns in [80, 200] {
            let mut command = with_help(crate::bare_command(), &Screen::columns(columns)).term_width(columns);
            let text = command.render_long_help().to_string();
            crate::commands::sample::assert_fits(&text, columns);
            insta::assert_snapshot!(format!("help_{columns}"), text);
        }
    }
}
