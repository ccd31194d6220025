//! Text of `quell --help`: its commands by purpose, and two examples of each.

use quell_command::help::{Group, Help};

/// What `quell --help` says beside the options.
pub const HELP: Help = Help {
    groups: &GROUPS,
    below: "Options: --wide (every column of tables), --help, --version. Exit status: 0 success; \
            1 failure, or problem found; 2 wrong command line; 130 Ctrl-C.",
};

const GROUPS: [Group; 6] = [
    Group {
        what: "Protect one service, until Ctrl-C",
        commands: &[
            ("protect", ["quell protect nginx", "quell protect 4711 --url http://127.0.0.1:8080/ --for 10m"]),
            (
                "prove",
                ["quell prove nginx", "quell prove 4711 --url http://127.0.0.1:8080/ --for 3m --html prove.html"],
            ),
            ("exec", ["quell exec -- memcached -t 1 -u nobody", "quell exec --be --limit 0.5 -- make -j8"]),
            ("enable", ["quell enable nginx.service --cpus 2", "quell enable label:app=batch --class be"]),
            ("disable", ["quell disable nginx", "quell disable --list"]),
        ],
    },
    Group {
        what: "Protect many services, by an agent",
        commands: &[
            ("run", ["quell run", "quell run quell.toml --dry-run --once"]),
            ("check", ["quell check quell.toml", "quell check --example > quell.toml"]),
            ("restore", ["quell restore", "quell restore --run-dir /tmp/quell --json"]),
            ("verify", ["quell verify", "quell verify --socket /tmp/quell.sock --json"]),
            ("off", ["quell off", "quell off --lease"]),
            ("on", ["quell on", "quell on --json"]),
        ],
    },
    Group {
        what: "What happens and why; what is possible",
        commands: &[
            ("status", ["quell status", "quell status --socket /tmp/quell.sock --json"]),
            ("top", ["quell top", "quell top --interval 500ms"]),
            ("why", ["quell why memcached", "quell why memcached --last 5 --json"]),
            ("doctor", ["quell doctor", "quell doctor caladan --cpus 2-7"]),
            ("gap", ["quell gap", "quell gap --workload web=cgroup:/system.slice/web.service,cpus=2 --json"]),
            ("recommend", ["quell recommend nginx", "quell recommend 4242 --batch-may-get-less --json"]),
        ],
    },
    Group {
        what: "Show it here; load or disturb a server",
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
        what: "A budget that keeps a service's latency",
        commands: &[(
            "vas",
            [
                "quell vas --task 0,1ms,4ms --task 2ms,2ms,10ms",
                "quell vas --poisson 2k,exponential:100us --period 10ms --bound 3ms",
            ],
        )],
    },
    Group {
        what: "Metrics for a collector, completions",
        commands: &[
            ("otlp", ["quell otlp", "quell otlp --to http://127.0.0.1:4318/v1/metrics --every 30s"]),
            ("completions", ["quell completions bash > /etc/bash_completion.d/quell", "quell completions fish"]),
        ],
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
            assert!(columns > 80 || text.lines().count() <= 24 - 5, "room for five more commands: {text}");
            insta::assert_snapshot!(format!("help_{columns}"), text);
        }
    }
}
