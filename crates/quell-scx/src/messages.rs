//! What libbpf says: to the log, and the last lines of it for the error when the kernel refuses.

use std::collections::VecDeque;
use std::sync::Mutex;

use libbpf_rs::PrintLevel;

const KEPT: usize = 24;

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Listens to libbpf from now on.
pub(crate) fn listen() {
    LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    libbpf_rs::set_print(Some((PrintLevel::Info, keep)));
}

fn keep(level: PrintLevel, text: String) {
    tracing::debug!("libbpf: {}", text.trim_end());
    if level != PrintLevel::Warn {
        return;
    }
    let mut last = LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(line.to_owned());
    }
}

/// The last lines of its warnings, each on a line of its own; empty if there were none.
pub(crate) fn last() -> String {
    let last = LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    last.iter().map(|line| format!("\n  {line}")).collect()
}
