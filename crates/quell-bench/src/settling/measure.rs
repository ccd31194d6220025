//! Turning knobs, and looking at what a thread notes.

use std::thread;
use std::time::Duration;

use quell_thread::clock;

use super::groups::{Group, Groups};
use super::watched::{Gap, Watched};
use super::{Effect, Turn};
use crate::{Error, Result};

/// Half of the kernel's usual period, which is named as well.
const HALF: &str = "50000 100000";
const UNLIMITED: &str = "max 100000";
/// What keeps a thread from running for this long is the quota, ns.
const KEPT_NS: u64 = 10_000_000;
/// A thread that has not run for this long has stopped.
const STILL: Duration = Duration::from_millis(20);
/// How long is looked at before a weight is changed.
const BEFORE: Duration = Duration::from_millis(500);
/// Time in which each effect should be seen.
const PATIENCE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(5);
/// Trials begin at different times within a period: so far apart.
const APART: Duration = Duration::from_millis(7);

/// The watched thread's group, its notes, and two CPUs.
struct Scene<'a> {
    group: Group,
    other: Group,
    watched: &'a Watched,
    cpus: [u32; 2],
}

/// Measures all turns this many times, on two CPUs of this machine. As root, with control groups of version 2.
///
/// # Errors
/// A group that cannot be made or written; a machine with one CPU.
pub fn measure(trials: u32) -> Result<Vec<Effect>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from) as u32;
    if cpus < 2 {
        return Err(Error::Spec { field: "CPUs", problem: "there is one".into(), fix: "take a machine with two" });
    }
    let groups = Groups::make()?;
    let (watched, rival) = (Watched::new(), Watched::new());
    let scene = Scene { group: groups.watched(), other: groups.other(), watched: &watched, cpus: [cpus - 2, cpus - 1] };
    thread::scope(|scope| {
        scope.spawn(|| watched.run());
        let all = scene.all(trials, &rival, || drop(scope.spawn(|| rival.run())));
        // A thread that is frozen would not end.
        let _ = scene.group.set("cgroup.freeze", "0");
        let _ = scene.group.set("cpu.max", UNLIMITED);
        watched.stop();
        rival.stop();
        all
    })
}

impl Scene<'_> {
    fn all(&self, trials: u32, rival: &Watched, start_rival: impl FnOnce()) -> Result<Vec<Effect>> {
        self.group.set("cpuset.cpus", &self.cpus[1].to_string())?;
        self.group.take(awaited(|| self.watched.tid()).unwrap_or_default())?;
        let mut effects: Vec<Effect> =
            Turn::ALL.map(|turn| Effect { turn, after_ns: Vec::new(), unseen: 0 }).into_iter().collect();
        for trial in 0..trials {
            thread::sleep(APART * (trial % 10));
            self.note(&mut effects, Turn::Quota, self.quota()?);
            self.note(&mut effects, Turn::CpuSet, self.cpu_set(self.cpus[trial as usize % 2])?);
            let [freeze, thaw] = self.freezer()?;
            self.note(&mut effects, Turn::Freeze, freeze);
            self.note(&mut effects, Turn::Thaw, thaw);
        }
        for group in [&self.group, &self.other] {
            group.set("cpuset.cpus", &self.cpus[1].to_string())?;
        }
        start_rival();
        self.other.take(awaited(|| rival.tid()).unwrap_or_default())?;
        for _ in 0..trials {
            self.note(&mut effects, Turn::Weight, self.weight()?);
        }
        Ok(effects)
    }

    fn note(&self, effects: &mut [Effect], turn: Turn, after: Option<u64>) {
        if let Some(effect) = effects.iter_mut().find(|effect| effect.turn == turn) {
            match after {
                Some(ns) => effect.after_ns.push(ns),
                None => effect.unseen += 1,
            }
        }
    }

    fn quota(&self) -> Result<Option<u64>> {
        let begun = clock::now().0;
        self.group.set("cpu.max", HALF)?;
        let stopped =
            awaited(|| self.watched.gaps_after(begun).find(|gap| gap.from >= begun && gap.to - gap.from >= KEPT_NS));
        self.group.set("cpu.max", UNLIMITED)?;
        Ok(stopped.map(|gap| gap.from - begun))
    }

    fn cpu_set(&self, to: u32) -> Result<Option<u64>> {
        let begun = clock::now().0;
        self.group.set("cpuset.cpus", &to.to_string())?;
        let moved = awaited(|| Some(self.watched.place()).filter(|(cpu, _)| *cpu == to));
        // It may have been there before.
        Ok(moved.and_then(|(_, since)| since.checked_sub(begun)))
    }

    fn freezer(&self) -> Result<[Option<u64>; 2]> {
        let begun = clock::now().0;
        self.group.set("cgroup.freeze", "1")?;
        let still = |last: &u64| clock::now().0.saturating_sub(*last) > STILL.as_nanos() as u64;
        let last = awaited(|| Some(self.watched.last()).filter(still));
        let undone = clock::now().0;
        self.group.set("cgroup.freeze", "0")?;
        let again = awaited(|| self.watched.gaps_after(undone).next());
        Ok([last.map(|last| last.saturating_sub(begun)), again.map(|gap| gap.to - undone)])
    }

    fn weight(&self) -> Result<Option<u64>> {
        let length = |gap: Gap| gap.to - gap.from;
        let start = clock::now().0;
        thread::sleep(BEFORE);
        let longest = self.watched.gaps_after(start).map(length).max().unwrap_or_default();
        let begun = clock::now().0;
        self.group.set("cpu.weight", "10")?;
        let longer = awaited(|| self.watched.gaps_after(begun).find(|&gap| length(gap) > 2 * longest));
        self.group.set("cpu.weight", "100")?;
        // Both settle again.
        thread::sleep(BEFORE / 2);
        Ok(longer.map(|gap| (gap.from + 2 * longest).saturating_sub(begun)))
    }
}

/// What is there within the time.
fn awaited<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = clock::now().0 + PATIENCE.as_nanos() as u64;
    loop {
        let found = look();
        if found.is_some() || clock::now().0 > until {
            return found;
        }
        thread::sleep(NAP);
    }
}
