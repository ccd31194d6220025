//! No write wars: values that another program keeps overwriting.
//!
//! A value that systemd, kubelet or tuned overwrite once is set again. One that they overwrite repeatedly is theirs:
//! Quell names it and leaves the workload alone, longer each time. Pure: observations go in, a verdict comes out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quell_model::Nanos;

/// Number of times that a value is set again within [`MEMORY`] before Quell backs off.
pub const ROUNDS: u32 = 3;
/// Rounds older than this are forgotten.
pub const MEMORY: Nanos = Nanos::from_secs(60);
/// Length of the first pause …
pub const FIRST_PAUSE: Nanos = Nanos::from_secs(30);
/// … which doubles each further time, up to this.
pub const LONGEST_PAUSE: Nanos = Nanos::from_secs(600);

/// Reaction to a value that another program overwrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Set it again.
    SetAgain,
    /// Leave its workload alone until this time.
    GiveWay(Nanos),
}

#[derive(Clone, Copy, Debug, Default)]
struct Rivalry {
    rounds: u32,
    last: Nanos,
    pauses: u32,
}

/// Files overwritten so far.
#[derive(Clone, Debug, Default)]
pub struct Rivals {
    known: HashMap<PathBuf, Rivalry>,
}

impl Rivals {
    /// Another program overwrote this file.
    pub fn overwrote(&mut self, path: &Path, now: Nanos) -> Verdict {
        let rivalry = self.known.entry(path.to_owned()).or_default();
        if rivalry.rounds > 0 && now - rivalry.last > MEMORY {
            rivalry.rounds = 0;
        }
        rivalry.rounds += 1;
        rivalry.last = now;
        if rivalry.rounds <= ROUNDS {
            return Verdict::SetAgain;
        }
        let pause = Nanos(FIRST_PAUSE.0 << rivalry.pauses.min(20)).min(LONGEST_PAUSE);
        rivalry.pauses += 1;
        // Once more after the pause; if it is overwritten then, the next pause begins at once.
        rivalry.rounds = ROUNDS;
        rivalry.last = now + pause;
        Verdict::GiveWay(now + pause)
    }

    /// Forgets files that have not been overwritten for long.
    pub fn forget_old(&mut self, now: Nanos) {
        self.known.retain(|_, rivalry| now <= rivalry.last + MEMORY + LONGEST_PAUSE);
    }
}

/// Advice for a lasting setting: its place if systemd owns the cgroup.
#[must_use]
pub fn fix(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unit = path
        .parent()
        .map(name)
        .filter(|unit| [".service", ".scope", ".slice"].iter().any(|suffix| unit.ends_with(suffix)));
    let property = match name(path).as_str() {
        "cpu.weight" => "CPUWeight",
        "cpu.idle" => "CPUWeight=idle, that is CPUWeight",
        "cpu.max" => "CPUQuota",
        "cpuset.cpus" => "AllowedCPUs",
        _ => return "find the process that writes it (auditctl -w FILE -p w), and disable one of the two".into(),
    };
    match unit {
        Some(unit) => {
            format!("systemd owns {unit}: remove {property}= from the unit, or the workload from Quell's configuration")
        }
        None => "find the process that writes it (auditctl -w FILE -p w), and disable one of the two".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(count: u64) -> Nanos {
        Nanos::from_secs(count)
    }

    #[test]
    fn quell_gives_way_after_a_few_rounds_and_for_longer_each_time() {
        let mut rivals = Rivals::default();
        let file = Path::new("/c/cpu.weight");
        for round in 0..u64::from(ROUNDS) {
            assert_eq!(rivals.overwrote(file, second(round)), Verdict::SetAgain);
        }
        let Verdict::GiveWay(until) = rivals.overwrote(file, second(4)) else { panic!("a war") };
        assert_eq!(until, second(4) + FIRST_PAUSE);
        let Verdict::GiveWay(next) = rivals.overwrote(file, until + second(1)) else { panic!("a war") };
        assert_eq!(next - (until + second(1)), FIRST_PAUSE + FIRST_PAUSE);
        let mut now = next;
        for _ in 0..20 {
            let Verdict::GiveWay(until) = rivals.overwrote(file, now + second(1)) else { panic!("a war") };
            assert!(until - now <= LONGEST_PAUSE + second(1));
            now = until;
        }
    }

    #[test]
    fn one_change_now_and_then_is_no_war() {
        let mut rivals = Rivals::default();
        for day in 1..20 {
            let now = second(day * 86_400);
            assert_eq!(rivals.overwrote(Path::new("/c/cpu.max"), now), Verdict::SetAgain);
            rivals.forget_old(now);
        }
        rivals.forget_old(second(100 * 86_400));
        assert!(rivals.known.is_empty());
    }

    #[test]
    fn files_are_told_apart() {
        let mut rivals = Rivals::default();
        assert!(
            (0..=ROUNDS)
                .all(|round| (rivals.overwrote(Path::new("/a"), second(1)) == Verdict::SetAgain) == (round < ROUNDS))
        );
        assert_eq!(rivals.overwrote(Path::new("/b"), second(1)), Verdict::SetAgain);
    }

    #[test]
    fn the_fix_names_the_unit_and_its_property() {
        let text = fix(Path::new("/sys/fs/cgroup/system.slice/web.service/cpuset.cpus"));
        assert!(text.contains("web.service") && text.contains("AllowedCPUs="), "{text}");
        assert!(fix(Path::new("/sys/fs/cgroup/a/cpu.max")).contains("auditctl"));
    }
}
