//! Determines the end of a guest from its remains.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use super::pump::{Finished, Reason};
use crate::error::{LabError, Result};

/// Of a log a message shows this many lines.
const SHOWN_LINES: usize = 25;

/// The command's exit status, or why there is none.
pub(super) fn of(finished: &Finished, given_mib: u64, timeout: Option<Duration>, qemu: &Path) -> Result<u8> {
    if let Some(console) = fault(&finished.console) {
        return Err(LabError::KernelFault { console });
    }
    match finished.reason {
        Reason::Reported => finished.status.trim().parse().map_err(|_| LabError::GuestDied {
            why: format!("it reads {:?}", finished.status),
            log: last_lines(&finished.console),
        }),
        Reason::Signal(signal) => Err(LabError::Interrupted { signal }),
        Reason::TimedOut => {
            let seconds = timeout.map_or(0, |timeout| timeout.as_secs());
            Err(LabError::TimedOut { seconds, last: String::new() })
        }
        Reason::Ended => Err(death(finished, given_mib, qemu)),
    }
}

/// Did the guest's kernel kill a process for want of memory? The command may well have gone on.
pub(super) fn killed_for_memory(finished: &Finished) -> bool {
    finished.reason == Reason::Reported && finished.console.contains("Out of memory: Killed process")
}

/// The kernel's messages before it panics, if it gives a reason: its first oops has the number 1 …
const CAUSES: [&str; 3] = ["BUG: ", "kernel BUG at", " [#1] "];
/// … and the length of the part that is shown.
const MOST_OF_A_CAUSE: usize = 80;

/// What kernels that check themselves say of a fault: KASAN, lockdep, RCU, the check for sleep where none is allowed.
const FAULTS: [&str; 9] = [
    "BUG: KASAN",
    "possible circular locking dependency",
    "possible recursive locking",
    "possible irq lock inversion",
    "inconsistent lock state",
    "BUG: Invalid wait context",
    "bad unlock balance",
    "suspicious RCU usage",
    "BUG: sleeping function called from invalid context",
];
/// The length of the part that is shown.
const MOST_OF_A_FAULT: usize = 200;

/// The console from the first fault on; None without one.
fn fault(console: &str) -> Option<String> {
    let begin = FAULTS.iter().filter_map(|sign| console.find(sign)).min()?;
    let begin = console[..begin].rfind('\n').map_or(0, |newline| newline + 1);
    Some(console[begin..].lines().take(MOST_OF_A_FAULT).collect::<Vec<_>>().join("\n"))
}

fn death(finished: &Finished, given_mib: u64, qemu: &Path) -> LabError {
    const OUT_OF_MEMORY: [&str; 3] =
        ["System is deadlocked on memory", "Initramfs unpacking failed: write error", "Out of memory"];
    let console = || last_lines(&finished.console);
    if let Some(line) = finished.messages.lines().find(|line| line.contains("lockstep:") || line.contains("plugin")) {
        return LabError::UnfitQemu { path: qemu.to_path_buf(), why: line.trim().to_owned() };
    }
    if OUT_OF_MEMORY.iter().any(|sign| finished.console.contains(sign)) {
        return LabError::GuestOutOfMemory { given_mib, console: console() };
    }
    if let Some(end) = finished.console.find("Kernel panic") {
        let before = &finished.console[..end];
        let begin = CAUSES.iter().filter_map(|cause| before.find(cause)).min();
        let begin = begin.map_or(end, |begin| before[..begin].rfind('\n').map_or(0, |newline| newline + 1));
        let cause: Vec<_> = finished.console[begin..end].lines().take(MOST_OF_A_CAUSE).collect();
        let lines = cause.into_iter().chain(finished.console[end..].lines().take(SHOWN_LINES));
        return LabError::GuestPanic { console: lines.collect::<Vec<_>>().join("\n") };
    }
    let log = format!("{}\n{}", console(), last_lines(&finished.messages));
    LabError::GuestDied { why: departure(finished), log: log.trim().to_owned() }
}

/// The reason for the end of a guest whose kernel did not panic.
fn departure(finished: &Finished) -> String {
    let qemu = finished.qemu;
    if let Some(signal) = qemu.signal() {
        let by = if signal == libc::SIGKILL { ", as the host's kernel does where memory is short" } else { "" };
        return format!("QEMU was killed by signal {signal}{by}");
    }
    // What the guest's own scripts say.
    if let Some(line) = finished.console.lines().rev().find(|line| line.starts_with("lab: ")) {
        return format!("its first process says \"{}\" ({qemu})", line.trim_start_matches("lab: ").trim());
    }
    if ["sysrq: Power Off", "reboot: Power down"].iter().any(|sign| finished.console.contains(sign)) {
        return format!("it powered itself off before the status came ({qemu})");
    }
    if ["reboot: Restarting", "sysrq: Resetting"].iter().any(|sign| finished.console.contains(sign)) {
        return format!("it restarted itself ({qemu})");
    }
    match qemu.success() {
        true => format!("QEMU ended, and the guest said nothing of a power-off ({qemu})"),
        false => format!("QEMU failed ({qemu})"),
    }
}

/// Adds to a time-out the last of what the command printed: which of its parts hangs.
pub(super) fn with_the_last(error: LabError, printed: &[u8]) -> LabError {
    match error {
        LabError::TimedOut { seconds, .. } if !printed.is_empty() => {
            let last = last_lines(&String::from_utf8_lossy(printed));
            LabError::TimedOut { seconds, last: format!(". The last that it printed:\n{last}") }
        }
        error => error,
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(reason: Reason, status: &str, console: &str, messages: &str) -> Result<u8> {
        let finished = Finished {
            reason,
            status: status.into(),
            console: console.into(),
            messages: messages.into(),
            qemu: std::process::ExitStatus::from_raw(0),
        };
        of(&finished, 256, Some(Duration::from_secs(7)), Path::new("/qemu"))
    }

    #[test]
    fn a_time_out_tells_the_last_that_was_printed() {
        let timed_out = || LabError::TimedOut { seconds: 900, last: String::new() };
        let text = with_the_last(timed_out(), b"test one ... ok\ntest two ... ").to_string();
        assert!(text.contains("900 s") && text.ends_with("test one ... ok\ntest two ... "), "{text}");
        assert!(with_the_last(timed_out(), b"").to_string().ends_with("(--timeout)"));
        let other = LabError::Interrupted { signal: 2 };
        assert!(matches!(with_the_last(other, b"text"), LabError::Interrupted { signal: 2 }));
    }

    #[test]
    fn a_guest_without_an_exit_status_says_why() {
        let ended = |raw: i32, console: &str| {
            let qemu = std::process::ExitStatus::from_raw(raw);
            let (status, messages) = (String::new(), String::new());
            let finished = Finished { reason: Reason::Ended, status, console: console.into(), messages, qemu };
            of(&finished, 256, None, Path::new("/qemu")).unwrap_err().to_string()
        };
        for (raw, console, why) in [
            (0, "[ 9.1] sysrq: Power Off\n[ 9.2] reboot: Power down", "it powered itself off before the status came"),
            (
                0,
                "lab: the port 'status' did not come within 120 s\n[ 9.2] reboot: Power down",
                "\"the port 'status' did not",
            ),
            (0, "[ 9.2] reboot: Restarting system", "it restarted itself"),
            (9, "[ 0.1] hello", "QEMU was killed by signal 9, as the host's kernel does where memory is short"),
            (256, "[ 0.1] hello", "QEMU failed (exit status: 1)"),
            (0, "[ 0.1] hello", "the guest said nothing of a power-off"),
        ] {
            let text = ended(raw, console);
            assert!(text.contains(why) && text.contains(console.lines().last().unwrap()), "{text}");
        }
    }

    #[test]
    fn every_ending_has_its_verdict() {
        assert_eq!(verdict(Reason::Reported, "3\n", "", "").unwrap(), 3);
        let panic = "[ 1.0] Kernel panic - not syncing: sysrq triggered crash";
        assert!(matches!(verdict(Reason::Ended, "", panic, ""), Err(LabError::GuestPanic { .. })));
        let oops = "[ 0.9] noise\n[ 1.0] BUG: kernel NULL pointer dereference\n[ 1.0] RIP: 0010:f+0x1/0x2\n[ 1.1] Kernel panic - ";
        let trap = "[ 0.9] noise\n[ 1.0] int3: 0000 [#1] PREEMPT SMP\n[ 1.1] Kernel panic - not syncing";
        let text = verdict(Reason::Ended, "", trap, "").unwrap_err().to_string();
        assert!(text.contains("int3") && !text.contains("noise"), "{text}");
        let text = verdict(Reason::Ended, "", oops, "").unwrap_err().to_string();
        assert!(text.contains("NULL pointer") && text.contains("RIP") && !text.contains("noise"), "{text}");
        let found = "[ 0.9] noise\n[ 1.0] BUG: KASAN: slab-use-after-free in f+0x1/0x2\n[ 1.1] Read of size 8";
        let text = verdict(Reason::Reported, "0\n", found, "").unwrap_err().to_string();
        assert!(text.contains("in f+0x1/0x2") && text.contains("size 8") && !text.contains("noise"), "{text}");
        let memory = "[ 1.0] Kernel panic - not syncing: System is deadlocked on memory";
        assert!(matches!(verdict(Reason::Ended, "", memory, ""), Err(LabError::GuestOutOfMemory { .. })));
        let plugin = "qemu: Could not load plugin x.so: undefined symbol: main_loop_tlg";
        assert!(matches!(verdict(Reason::Ended, "", "", plugin), Err(LabError::UnfitQemu { .. })));
        assert!(matches!(verdict(Reason::Ended, "", "hello", "qemu: what"), Err(LabError::GuestDied { .. })));
        assert!(matches!(verdict(Reason::TimedOut, "", "", ""), Err(LabError::TimedOut { seconds: 7, .. })));
        assert!(matches!(verdict(Reason::Signal(2), "", "", ""), Err(LabError::Interrupted { signal: 2 })));
    }
}
