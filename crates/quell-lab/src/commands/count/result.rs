//! Instructions of one treatment: exact counts, and what they are a request.

use std::ops::Range;

use quell_evidence::Treatment;
use quell_guest::counts::{self, Side};
use quell_model::{CpuId, CpuSet};
use serde::Serialize;

/// What all treatments have in common.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    pub scene: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs of the scene.
    pub cpus: u32,
    pub million_instructions_per_s: u32,
    pub round_ns: u32,
    pub duration_s: u32,
    pub seed: u64,
}

/// All that was counted.
#[derive(Serialize)]
pub struct Counted {
    #[serde(flatten)]
    conditions: Conditions,
    treatments: Vec<Count>,
}

impl Conditions {
    /// With the counts.
    pub fn with(self, treatments: Vec<Count>) -> Counted {
        Counted { conditions: self, treatments }
    }
}

/// The counts of a treatment.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    pub treatment: String,
    /// Requests that were answered meanwhile.
    pub requests: u64,
    /// Instructions a request on the scene's CPUs, on those of the load generators, and on all.
    pub a_request: [Place; 3],
    /// Exact counts, in the order of their names.
    pub functions: Vec<Function>,
}

/// CPUs, and the instructions a request there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    pub place: &'static str,
    pub cpus: CpuSet,
    /// BPF programs left out.
    pub kernel: f64,
    pub bpf: f64,
    pub programs: f64,
}

/// A function, or all programs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    pub name: String,
    pub part: &'static str,
    /// Instructions by CPU.
    pub instructions: Vec<u64>,
    /// Calls by CPU.
    pub calls: Vec<u64>,
}

impl Place {
    /// What the kernel takes, BPF programs included.
    pub fn kernel_and_bpf(&self) -> f64 {
        self.kernel + self.bpf
    }
}

/// The word for a side.
fn part(side: Side) -> &'static str {
    match side {
        Side::Kernel => "kernel",
        Side::Bpf => "BPF",
        Side::Programs => PROGRAMS,
    }
}

/// The part that has no functions.
pub const PROGRAMS: &str = "programs";

impl Count {
    /// Of a guest with `all` CPUs, the first `cpus` of which are the scene's.
    pub fn new(
        treatment: &Treatment,
        cpus: usize,
        all: usize,
        requests: u64,
        functions: Vec<counts::Function>,
    ) -> Count {
        let place = |place: &'static str, cpus: Range<usize>| {
            let of = |side: Side| {
                let of_side = functions.iter().filter(|function| function.side == side);
                let total: u64 = of_side.map(|function| function.instructions[cpus.clone()].iter().sum::<u64>()).sum();
                a_request(total, requests)
            };
            let [kernel, bpf, programs] = [Side::Kernel, Side::Bpf, Side::Programs].map(of);
            Place { place, cpus: cpus.clone().map(|cpu| CpuId(cpu as u32)).collect(), kernel, bpf, programs }
        };
        let a_request = [place("managed", 0..cpus), place("generators", cpus..all), place("all", 0..all)];
        let exact = |function: counts::Function| {
            let counts::Function { side, name, instructions, calls } = function;
            Function { name, part: part(side), instructions, calls }
        };
        Count {
            treatment: treatment.name.clone(),
            requests,
            a_request,
            functions: functions.into_iter().map(exact).collect(),
        }
    }

    /// Instructions and calls a request in a function on these CPUs.
    pub fn of(&self, part: &str, name: &str, cpus: &CpuSet) -> [f64; 2] {
        let found = self.functions.iter().find(|function| function.part == part && function.name == name);
        let sum = |by_cpu: &[u64]| cpus.iter().filter_map(|cpu| by_cpu.get(cpu.0 as usize)).sum();
        found.map_or([0.0; 2], |function| {
            [&function.instructions, &function.calls].map(|by_cpu| a_request(sum(by_cpu), self.requests))
        })
    }
}

/// To the hundredth.
fn a_request(count: u64, requests: u64) -> f64 {
    (count as f64 * 100.0 / requests.max(1) as f64).round() / 100.0
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn function(side: Side, name: &str, instructions: [u64; 3]) -> counts::Function {
        let calls = instructions.map(|count| count / 10).to_vec();
        counts::Function { side, name: name.to_owned(), instructions: instructions.to_vec(), calls }
    }

    /// Two CPUs of the scene and a generator's, with this many instructions of the BPF program.
    pub fn count(name: &str, bpf: u64) -> Count {
        let functions = vec![
            function(Side::Kernel, "schedule", [3000, 2000, 1000]),
            function(Side::Bpf, "running", [bpf, 0, 20]),
            function(Side::Programs, "", [10_000, 20_000, 30_000]),
        ];
        let treatment = Treatment { name: name.to_owned(), ..Treatment::default() };
        Count::new(&treatment, 2, 3, 100, functions)
    }

    #[test]
    fn places_have_the_instructions_of_their_cpus() {
        let found = count("caladan", 700);
        let place = |place, cpus: &str, [kernel, bpf, programs]: [f64; 3]| Place {
            place,
            cpus: cpus.parse().unwrap(),
            kernel,
            bpf,
            programs,
        };
        let expected = [
            place("managed", "0-1", [50.0, 7.0, 300.0]),
            place("generators", "2", [10.0, 0.2, 300.0]),
            place("all", "0-2", [60.0, 7.2, 600.0]),
        ];
        assert_eq!(found.a_request, expected);
        assert_eq!(found.a_request[0].kernel_and_bpf(), 57.0);
    }

    #[test]
    fn a_function_is_summed_over_cpus() {
        let found = count("caladan", 700);
        assert_eq!(found.of("kernel", "schedule", &"0-1".parse().unwrap()), [50.0, 5.0]);
        assert_eq!(found.of("BPF", "running", &"2".parse().unwrap()), [0.2, 0.02]);
        assert_eq!(found.of("kernel", "running", &"2".parse().unwrap()), [0.0, 0.0]);
    }
}
