//! How often threads were switched and moved, by the kernel's own counts.

use std::path::Path;

use quell_model::Nanos;
use quell_thread::clock;
use serde::{Deserialize, Serialize};

/// Counts of threads, as `/proc/PID/task/TID/sched` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// When they were read; of a difference, how long they were counted.
    pub at: Nanos,
    /// Times they gave a CPU up to sleep: `nr_voluntary_switches`. A thread that sleeps is woken once, so these are wake-ups too.
    pub sleeps: u64,
    /// Times they lost a CPU although they could have gone on: `nr_involuntary_switches`.
    pub preemptions: u64,
    /// Times they came into the queue of another CPU: `se.nr_migrations`.
    pub migrations: u64,
}

impl Counted {
    /// Both together, at the time of this one.
    pub(crate) fn and(self, other: Counted) -> Counted {
        Counted {
            at: self.at,
            sleeps: self.sleeps + other.sleeps,
            preemptions: self.preemptions + other.preemptions,
            migrations: self.migrations + other.migrations,
        }
    }

    /// What was counted since then.
    pub(crate) fn since(self, before: Counted) -> Counted {
        Counted {
            at: self.at - before.at,
            sleeps: self.sleeps.saturating_sub(before.sleeps),
            preemptions: self.preemptions.saturating_sub(before.preemptions),
            migrations: self.migrations.saturating_sub(before.migrations),
        }
    }
}

/// The counts of all threads of a process but its first one, up to now. Those that end meanwhile are left out.
pub(crate) fn counted(pid: i32) -> Option<Counted> {
    let at = clock::now();
    let first = pid.to_string();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let others = threads.filter(|thread| *thread.file_name() != *first);
    let mut sum = Counted { at, ..Counted::default() };
    for thread in others {
        match of(&thread.path()) {
            Some(one) => sum = sum.and(one),
            None if thread.path().exists() => return None,
            None => {}
        }
    }
    Some(sum)
}

/// The counts of the calling thread.
pub(crate) fn counted_of_this() -> Option<Counted> {
    of(Path::new("/proc/thread-self"))
}

fn of(thread: &Path) -> Option<Counted> {
    read(&std::fs::read_to_string(thread.join("sched")).ok()?)
}

fn read(text: &str) -> Option<Counted> {
    let number = |name: &str| {
        let mut rows = text.lines().filter_map(|line| line.split_once(':'));
        rows.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
    };
    Some(Counted {
        at: Nanos::ZERO,
        sleeps: number("nr_voluntary_switches")?,
        preemptions: number("nr_involuntary_switches")?,
        migrations: number("se.nr_migrations")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        let text = "quell (4, #threads: 1)\n---------\nse.exec_start   :   12.5\nse.nr_migrations   :   3\n\
                    nr_switches   :   9\nnr_voluntary_switches   :   7\nnr_involuntary_switches   :   2\n";
        let expected = Counted { at: Nanos::ZERO, sleeps: 7, preemptions: 2, migrations: 3 };
        assert_eq!(read(text), Some(expected));
        assert_eq!(read("nr_switches : 9\n"), None, "a kernel that does not say");
    }
}
