//! A match: one service, however many processes it has.

use std::path::PathBuf;

use quell_model::{Selector, ThreadId, amount, foreign};

use crate::members::user_name;

/// What holds the processes of a match together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A unit of systemd.
    Unit(String),
    /// A container, by its id.
    Container(String),
    /// A cgroup, by its path from the root.
    Cgroup(String),
    /// Processes with their descendants.
    Tree,
}

/// A match of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What holds it together.
    pub what: What,
    /// A name for people and for a workload; safe to print.
    pub name: String,
    /// The processes that are no others' descendants.
    pub roots: Vec<ThreadId>,
    /// All of its processes now.
    pub processes: Vec<ThreadId>,
    /// The command line of the first root; safe to print.
    pub command: String,
    /// The user of the first root.
    pub user: Option<u32>,
    /// Was it found by a name alone, and is it another ordinary user's?
    pub is_strangers: bool,
}

impl Found {
    /// Words for a command line that mean exactly this.
    #[must_use]
    pub fn target(&self) -> String {
        match &self.what {
            What::Unit(name) => quoted(name),
            What::Container(id) => format!("container:{}", id.get(..12).unwrap_or(id)),
            What::Cgroup(path) => quoted(path),
            What::Tree => self.roots.iter().map(|root| root.tid.to_string()).collect::<Vec<_>>().join(" "),
        }
    }

    /// One line: the command line, the number of processes, the user.
    #[must_use]
    pub fn in_words(&self) -> String {
        let command = if self.command.is_empty() { &self.name } else { &self.command };
        let short: String = command.chars().take(40).collect();
        let user = self.user.map_or_else(|| "several users".into(), |user| format!("user {}", user_name(user)));
        format!("{short} ({}, {user})", amount(self.processes.len(), "process", "processes"))
    }

    /// The selectors of its processes, where `is_there` says whether a selector names a cgroup on this machine: without one the
    /// processes themselves are selected.
    #[must_use]
    pub fn selectors(&self, is_there: &dyn Fn(&Selector) -> bool) -> Vec<Selector> {
        let by_group = match &self.what {
            What::Unit(name) => Some(Selector::Unit(name.clone())),
            What::Container(id) => Some(Selector::Container(id.clone())),
            What::Cgroup(path) => Some(Selector::Cgroup(PathBuf::from(path))),
            What::Tree => None,
        };
        match by_group.filter(is_there) {
            Some(selector) => vec![selector],
            None => self.roots.iter().map(|root| Selector::Pid(root.tid)).collect(),
        }
    }
}

/// As a shell takes it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:@,+=%".contains(letter);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", foreign::text(&text.replace('\'', "'\\''")))
    }
}
