//! The machine's preemption mode (`/sys/kernel/debug/sched/preempt`).

use std::path::{Path, PathBuf};

use quell_model::PreemptionMode;

/// The file, below the mount point of sysfs.
#[must_use]
pub fn path(sys: &Path) -> PathBuf {
    sys.join("kernel/debug/sched/preempt")
}

/// The word for a mode in the file.
#[must_use]
pub fn word(mode: PreemptionMode) -> &'static str {
    match mode {
        PreemptionMode::None => "none",
        PreemptionMode::Voluntary => "voluntary",
        PreemptionMode::Full => "full",
        PreemptionMode::Lazy => "lazy",
    }
}

/// The mode that is in force: the file lists all and puts it in parentheses, as in `none voluntary (full) lazy`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_in_force_stands_in_parentheses() {
        assert_eq!(chosen("none voluntary full (lazy)\n"), Some(word(PreemptionMode::Lazy)));
        assert_eq!(chosen("none full"), None);
    }
}
