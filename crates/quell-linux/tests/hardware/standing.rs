//! What stands on the machine, against what was set.

use std::collections::BTreeMap;
use std::path::Path;

use quell_linux::testkit::{FakeResctrl, FakeTree};
use quell_model::{Knob, LlcWays, WorkloadId};

use crate::machines::*;

pub const NAMES: [&str; 3] = ["db", "batch", "other"];

/// What the policies have set.
#[derive(Default)]
pub struct Wanted {
    /// By workload and cache.
    pub ways: [[Option<u32>; 2]; 3],
    pub throttle: [Option<u32>; 3],
    pub khz: BTreeMap<u32, u32>,
    /// First CPUs of domains of which a part was set alone, while the rest was offline: the rest follows later.
    pub apart: Vec<u32>,
}

impl Wanted {
    pub fn note_apart(&mut self, domain: u32) {
        for first in (0..8).step_by(domain.max(1) as usize) {
            let of = |cpu: u32| self.khz.get(&cpu);
            if (first..first + domain).any(|cpu| of(cpu) != of(first)) {
                self.apart.push(first);
            }
        }
    }

    pub fn take(&mut self, (_, at): (bool, u32), knob: Knob) {
        match knob {
            Knob::CacheWays(mask) => self.ways[at as usize] = [Some(mask); 2],
            Knob::WaysOfLlc(LlcWays { llc, mask }) if llc < 2 => self.ways[at as usize][llc as usize] = Some(mask),
            Knob::Throttle(value) => self.throttle[at as usize] = Some(value),
            Knob::MaxFrequencyKhz(khz) => _ = self.khz.insert(at, khz),
            _ => {}
        }
    }
}

pub fn limit(number: u32) -> String {
    format!("sys/devices/system/cpu/cpufreq/policy{number}/scaling_max_freq")
}

pub fn tasks(tree: &FakeTree, group: &Path) -> String {
    let text = tree.read(group.join("tasks"));
    let mut all: Vec<&str> = text.split_whitespace().collect();
    all.sort_unstable();
    all.join(" ")
}

/// All that the commands may change.
pub fn state(tree: &FakeTree) -> Vec<String> {
    let mut all: Vec<String> =
        NAMES.iter().map(|name| tree.read(format!("cgroup/{name}.service/cgroup.freeze"))).collect();
    all.extend(
        (0..8).filter(|&number| tree.path().join(limit(number)).exists()).map(|number| tree.read(limit(number))),
    );
    for group in tree.control_groups() {
        all.push(format!("{} {} {}", group.display(), tree.read(group.join("schemata")), tasks(tree, &group)));
    }
    if tree.path().join(ROOT).exists() {
        all.push(tree.read(format!("{ROOT}/schemata")));
    }
    all.sort();
    all
}

/// The machine, and what should stand there.
pub struct Standing<'a> {
    pub tree: &'a FakeTree,
    pub ids: &'a [WorkloadId; 3],
    pub wanted: &'a Wanted,
    pub threads: &'a [Vec<i32>; 3],
    /// Threads that another program took once.
    pub taken: &'a [i32],
}

impl Standing<'_> {
    /// Panics if something does not stand as it was set.
    pub fn check(&self, has: Option<&FakeResctrl>) {
        for name in NAMES {
            assert_eq!(self.tree.read(format!("cgroup/{name}.service/cgroup.freeze")), "0", "{name} is paused");
        }
        for number in (0..8).filter(|&number| self.tree.path().join(limit(number)).exists()) {
            if !self.wanted.apart.contains(&number) {
                let own = self.wanted.khz.get(&number);
                let khz = own.map_or(3_000_000, |khz| *khz.clamp(&800_000, &3_000_000));
                assert_eq!(self.tree.read(limit(number)), khz.to_string(), "{number}");
            }
        }
        let Some(has) = has else { return };
        for at in 0..3 {
            let (ways, throttle) = (self.wanted.ways[at], self.wanted.throttle[at]);
            // One that was set in a solo run is made at its end, as soon as there is room and no other program has its threads.
            let is_taken = self.threads[at].iter().any(|tid| self.taken.contains(tid));
            let is_full = self.tree.control_groups().len() as u32 + 1 >= has.groups;
            let is_made = self.tree.control_groups().iter().any(|group| group.ends_with(self.name(at)));
            if (ways != [None; 2] || throttle.is_some()) && (is_made || !(is_full || is_taken)) {
                self.check_group(has, at, ways, throttle);
            }
        }
    }

    fn name(&self, at: usize) -> String {
        format!("quell.{}.{}", self.ids[at].0, NAMES[at])
    }

    fn check_group(&self, has: &FakeResctrl, at: usize, ways: [Option<u32>; 2], throttle: Option<u32>) {
        let name = self.name(at);
        let text = schemata(self.tree, &name);
        let all = u32::MAX >> (32 - has.ways);
        for (llc, id) in has.ids.iter().enumerate() {
            let of = |resource: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(resource)?.strip_prefix(':')).unwrap_or("");
                let part = line.split(';').find_map(|part| part.strip_prefix(&format!("{id}=")));
                part.map(str::to_owned)
            };
            for resource in if has.cdp { ["L3CODE", "L3DATA"] } else { ["L3", "L3"] } {
                let mask = ways[llc].map_or(all, |mask| mask & all);
                // A cache without CPUs has no line.
                assert!(of(resource).is_none_or(|now| now == format!("{mask:x}")), "{name}: {mask:x} in {text}");
            }
            if let Some((least, most, step)) = has.throttle {
                let value = throttle.map_or(most, |value| value.max(least).div_ceil(step) * step).min(most);
                assert!(of("MB").is_none_or(|now| now == value.to_string()), "{name}: {value} in {text}");
            }
        }
        let own = tasks(self.tree, Path::new(&group(self.tree, &name)));
        for tid in self.threads[at].iter().filter(|tid| !self.taken.contains(tid)) {
            assert!(own.split(' ').any(|one| one == tid.to_string()), "{name} lacks {tid}: {own}");
        }
    }
}
