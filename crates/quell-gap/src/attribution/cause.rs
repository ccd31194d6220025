//! What a workload waited for.

use quell_model::foreign;
use serde::{Deserialize, Serialize};

/// No name is longer than this, in characters.
const LONGEST: usize = 64;

/// Why a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Threads of its own had the CPU.
    OwnThreads,
    /// Its own CPU limit, or that of a cgroup around it.
    OwnLimit,
    /// Another workload.
    Workload,
    /// Threads of the kernel.
    Kernel,
    /// A cgroup that is no workload's, or a program in the root cgroup.
    Unmanaged,
    /// Interrupts.
    Interrupts,
    /// The hypervisor ran something else.
    Steal,
    /// The CPU was idle: on its way to the thread.
    IdleCpu,
    /// Named causes beyond those that are counted one by one.
    Other,
    /// Not known.
    Unknown,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 10] = [
        Cause::OwnThreads,
        Cause::OwnLimit,
        Cause::Workload,
        Cause::Kernel,
        Cause::Unmanaged,
        Cause::Interrupts,
        Cause::Steal,
        Cause::IdleCpu,
        Cause::Other,
        Cause::Unknown,
    ];

    /// As labels and JSON have it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Cause::OwnThreads => "own-threads",
            Cause::OwnLimit => "own-limit",
            Cause::Workload => "workload",
            Cause::Kernel => "kernel",
            Cause::Unmanaged => "unmanaged",
            Cause::Interrupts => "interrupts",
            Cause::Steal => "steal",
            Cause::IdleCpu => "idle-cpu",
            Cause::Other => "other",
            Cause::Unknown => "unknown",
        }
    }

    /// For people, where no name follows.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Cause::OwnThreads => "its own threads",
            Cause::OwnLimit => "its own CPU limit",
            Cause::Workload => "a workload",
            Cause::Kernel => "kernel threads",
            Cause::Unmanaged => "unmanaged work",
            Cause::Interrupts => "interrupts",
            Cause::Steal => "the hypervisor (steal)",
            Cause::IdleCpu => "CPUs out of idle",
            Cause::Other => "others",
            Cause::Unknown => "unknown",
        }
    }

    /// Did something else than the workload itself take the time?
    #[must_use]
    pub fn is_others(self) -> bool {
        matches!(
            self,
            Cause::Workload | Cause::Kernel | Cause::Unmanaged | Cause::Interrupts | Cause::Steal | Cause::Other
        )
    }
}

/// A cause, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The cause.
    pub cause: Cause,
    /// The name of the workload, the cgroup or the kernel's threads, safe to print; empty where the cause says all.
    pub by: String,
}

impl Key {
    /// A cause that needs no name.
    #[must_use]
    pub fn of(cause: Cause) -> Key {
        Key { cause, by: String::new() }
    }

    /// A cause with a name, which may be a stranger's choice: it is made safe to print, and cut.
    #[must_use]
    pub fn by(cause: Cause, name: &str) -> Key {
        let cut: String = name.chars().take(LONGEST).collect();
        Key { cause, by: foreign::text(&cut).into_owned() }
    }

    /// Does it take one of the places for names?
    #[must_use]
    pub fn is_named(&self) -> bool {
        !self.by.is_empty()
    }

    /// For people.
    #[must_use]
    pub fn words(&self) -> &str {
        if self.is_named() { &self.by } else { self.cause.words() }
    }
}
