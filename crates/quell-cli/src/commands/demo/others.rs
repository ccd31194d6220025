//! Other programs' work on this machine: before the demo begins, and while a phase runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use quell_model::{amount, foreign};

/// For this time the machine is looked at before the first phase.
const LOOK: Duration = Duration::from_secs(1);
/// Programs that are named.
const NAMED: usize = 3;
/// Clock ticks a second, as user space sees them (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// A machine on which other programs use this many CPUs still counts as quiet: 0.15, or a twentieth of its CPUs.
pub fn quiet(cpus: u32) -> f64 {
    (0.05 * f64::from(cpus)).max(0.15)
}

/// CPU time of the machine's programs and of this one, in clock ticks.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    at: Instant,
    /// Of all programs, the kernel's threads among them; without interrupts and what the hypervisor took.
    all: u64,
    /// Of this process and of those that it started and awaited.
    own: u64,
}

impl Ticks {
    /// As it is now; none where that cannot be read.
    pub fn now(proc: &Path) -> Option<Ticks> {
        let all = of_programs(&fs::read_to_string(proc.join("stat")).ok()?)?;
        let (_, own) = of_process(&fs::read(proc.join("self/stat")).ok()?, 4)?;
        Some(Ticks { at: Instant::now(), all, own })
    }

    /// CPUs that other programs used from `earlier` to now.
    pub fn others_since(&self, earlier: &Ticks) -> f64 {
        let others = (self.all.saturating_sub(earlier.all)).saturating_sub(self.own.saturating_sub(earlier.own));
        others as f64 / TICKS_PER_S / (self.at - earlier.at).as_secs_f64().max(0.01)
    }
}

/// The work of other programs over a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Others {
    /// CPUs that they used.
    cpus: f64,
    /// Threads that could have run and had no CPU.
    waiting: u64,
    /// Their names and CPUs, the greatest first.
    programs: Vec<(String, f64)>,
}

impl Others {
    /// Looks at the machine for a second; none where it cannot be read.
    pub fn look(cpus: u32) -> Option<Others> {
        let proc = Path::new("/proc");
        let before = Look::now(proc)?;
        thread::sleep(LOOK);
        Some(Others::between(&before, &Look::now(proc)?, cpus))
    }

    fn between(before: &Look, after: &Look, cpus: u32) -> Others {
        let span = (after.ticks.at - before.ticks.at).as_secs_f64().max(0.01);
        let mut by_name = BTreeMap::<&str, u64>::new();
        for (pid, (name, ticks)) in &after.programs {
            // A process of this number that began meanwhile has all of its time in this second.
            let earlier = before.programs.get(pid).map_or(0, |(_, ticks)| *ticks);
            *by_name.entry(name).or_default() += ticks.checked_sub(earlier).unwrap_or(*ticks);
        }
        let used = |(name, ticks): (&str, u64)| (name.to_owned(), ticks as f64 / TICKS_PER_S / span);
        let mut programs: Vec<_> = by_name.into_iter().map(used).collect();
        programs.sort_by(|a, b| b.1.total_cmp(&a.1));
        // This thread ran when it looked.
        let waiting = before.runnable.min(after.runnable).saturating_sub(u64::from(cpus) + 1);
        Others { cpus: after.ticks.others_since(&before.ticks), waiting, programs }
    }

    /// A line about it, if the machine is not quiet.
    pub fn line(&self, cpus: u32) -> Option<String> {
        if self.cpus <= quiet(cpus) {
            return None;
        }
        let named = self.programs.iter().take(NAMED).filter(|(_, used)| *used >= 0.05);
        let named: Vec<String> = named.map(|(name, used)| format!("{} {used:.1}", foreign::text(name))).collect();
        let of = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        let wait = match self.waiting {
            0 => String::new(),
            1 => ", and 1 thread waits for one".to_owned(),
            more => format!(", and {} wait for one", amount(more as u32, "thread", "threads")),
        };
        let machine = amount(cpus, "CPU", "CPUs");
        Some(format!(
            "! this machine is busy: other programs use {:.1} of {machine}{of}{wait}; the demo runs all the same, \
             and reports no ratios if they disturb the server alone",
            self.cpus
        ))
    }
}

/// What one look finds.
struct Look {
    ticks: Ticks,
    /// Threads that run or could.
    runnable: u64,
    /// The other processes: name and clock ticks.
    programs: BTreeMap<i32, (String, u64)>,
}

impl Look {
    fn now(proc: &Path) -> Option<Look> {
        let text = fs::read_to_string(proc.join("stat")).ok()?;
        let runnable = text.lines().find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok())?;
        let own = std::process::id().cast_signed();
        let pids = fs::read_dir(proc).ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process that ended meanwhile has no file any more.
        let program = |pid: i32| Some((pid, of_process(&fs::read(proc.join(format!("{pid}/stat"))).ok()?, 2)?));
        let programs = pids.filter(|pid| *pid != own).filter_map(program).collect();
        Some(Look { ticks: Ticks::now(proc)?, runnable, programs })
    }
}

/// Clock ticks of all programs: the line `cpu`'s user, nice and system.
fn of_programs(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(3).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (ticks.len() == 3).then(|| ticks.iter().sum())
}

/// A process's name and the sum of its first times (user, system; those of awaited children). The name may hold blanks and
/// parentheses.
fn of_process(stat: &[u8], times: usize) -> Option<(String, u64)> {
    let (open, close) = (stat.iter().position(|&byte| byte == b'(')?, stat.iter().rposition(|&byte| byte == b')')?);
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    // The state, behind the name, is field 3; the user time is 14.
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(14 - 3).take(times).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (ticks.len() == times).then(|| (name, ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"12 (a) b\x1b (x) R 1 12 12 0 -1 4194304 9 0 0 0 100 20 3 4 20 0 1 0 55 0 0";

    fn look(all: u64, runnable: u64, programs: &[(i32, &str, u64)], at: Instant) -> Look {
        let programs = programs.iter().map(|&(pid, name, ticks)| (pid, (name.to_owned(), ticks))).collect();
        Look { ticks: Ticks { at, all, own: 7 }, runnable, programs }
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        assert_eq!(of_process(STAT, 2), Some(("a) b\x1b (x".into(), 120)));
        assert_eq!(of_process(STAT, 4), Some(("a) b\x1b (x".into(), 127)));
        assert_eq!(of_process(b"12 (a) R 1", 2), None);
        assert_eq!(of_programs("cpu  1 2 3 4 5 6\ncpu0 1 1 1\n"), Some(6));
        assert_eq!(of_programs("cpu  1 2\n"), None);
    }

    #[test]
    fn a_busy_machine_is_one_line_with_the_greatest_programs() {
        let (begun, ended) = {
            let now = Instant::now();
            (now, now + Duration::from_secs(1))
        };
        let before = look(1_000, 9, &[(1, "rustc", 50), (2, "idle", 3), (3, "old", 900)], begun);
        let after = look(1_190, 6, &[(1, "rustc", 130), (2, "idle", 3), (3, "n\x1b[2Jw", 60), (4, "rustc", 30)], ended);
        let others = Others::between(&before, &after, 2);
        assert_eq!((others.cpus, others.waiting), (1.9, 3));
        let line = others.line(2).unwrap();
        assert!(line.starts_with("! this machine is busy: other programs use 1.9 of 2 CPUs (rustc 1.1, "), "{line}");
        assert!(line.contains("3 threads wait for one") && line.contains("\\x1b[2Jw 0.6"), "{line}");
        assert!(!line.contains('\x1b') && !line.contains('\n') && !line.contains("idle"), "{line}");
    }

    #[test]
    fn a_quiet_machine_needs_no_line() {
        let now = Instant::now();
        let after = look(1_010, 1, &[(1, "sshd", 10)], now + Duration::from_secs(1));
        let others = Others::between(&look(1_000, 1, &[], now), &after, 2);
        assert_eq!(others.line(2), None);
        assert!(quiet(64) > 3.0 && quiet(2) < 0.2);
    }

    #[test]
    fn what_this_process_does_is_not_others() {
        let at = Instant::now();
        let later = Ticks { at: at + Duration::from_secs(2), all: 500, own: 290 };
        assert_eq!(later.others_since(&Ticks { at, all: 100, own: 90 }), 1.0);
        assert_eq!(later.others_since(&Ticks { at, all: 400, own: 90 }), 0.0, "counters are not exact");
        assert!(Ticks::now(Path::new("/proc")).is_some() && Look::now(Path::new("/proc")).is_some());
    }
}
