//! Text of a program's `--help`: a line for each group of commands, so that it fits one screen; and two examples of each
//! command in its own.

use clap::Command;
use quell_report::screen::{Mark, Screen};

/// Columns of the help: at most, and where the output has no bound; as clap has them.
const WIDEST: usize = 110;
const UNBOUNDED: usize = 100;

/// The commands of one purpose, each with two examples.
pub struct Group {
    /// The purpose, in half a line.
    pub what: &'static str,
    /// The commands by their names.
    pub commands: &'static [(&'static str, [&'static str; 2])],
}

/// What a program's help says beside its options.
pub struct Help {
    /// The groups, in their order.
    pub groups: &'static [Group],
    /// What stands below them: options of all commands, exit statuses.
    pub below: &'static str,
}

impl Help {
    /// The command with its help for this screen.
    #[must_use]
    pub fn on(&self, command: Command, screen: &Screen) -> Command {
        let width = screen.width.unwrap_or(UNBOUNDED).min(WIDEST);
        let screen = &Screen { width: Some(width), ..*screen };
        let more = format!("`{} COMMAND --help` says more, with examples.", command.get_name());
        let command = command.help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\n{}\n{more}",
            self.listed(screen),
            screen.wrap(self.below)
        ));
        self.commands().fold(command, |command, (name, examples)| {
            let lines = examples.map(|example| format!("  {example}"));
            let text = format!("{}\n{}", screen.mark(Mark::Head, "Examples:"), lines.join("\n"));
            command.mut_subcommand(name, |subcommand| subcommand.after_help(text))
        })
    }

    /// All commands, with their examples.
    pub fn commands(&self) -> impl Iterator<Item = &(&'static str, [&'static str; 2])> {
        self.groups.iter().flat_map(|group| group.commands)
    }

    /// A line a group.
    fn listed(&self, screen: &Screen) -> String {
        let names = |group: &Group| group.commands.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
        let widest = self.groups.iter().map(|group| names(group).len()).max().unwrap_or_default();
        let line = |group: &Group| {
            let names = screen.mark(Mark::Head, format!("{:<widest$}", names(group)));
            screen.hang(&format!("  {names}  {}", group.what), widest + 4) + "\n"
        };
        self.groups.iter().map(line).collect()
    }

    /// For a program's tests: each visible command stands in one group, and its examples are command lines that it takes.
    ///
    /// # Panics
    /// If not.
    pub fn assert_complete(&self, command: &Command) {
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let count = self.commands().filter(|(name, _)| *name == subcommand.get_name()).count();
            assert_eq!(count, 1, "{}", subcommand.get_name());
        }
        for example in self.commands().flat_map(|(_, examples)| examples) {
            let words = example.split(" > ").next().unwrap_or_default().split(' ');
            let parsed = command.clone().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
