//! What threads that may use some CPUs only get of them, on the simulated kernel.

use std::ffi::{CStr, c_char};
use std::path::Path;

use quell_policy::AnyPolicy;
use quell_sim::scenario::{Scenario, run};

use crate::fair_share::weighted_max_min;
use crate::simulation::Library;

/// `struct spinner`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Spinner {
    in_workload: u32,
    pub weight: u32,
    /// As bits.
    pub cpus: u64,
}

type Spins = unsafe extern "C" fn(*const Spinner, u32, u32, u32, u64, u64, *mut u64) -> *const c_char;

const SETTLE_NS: u64 = 4_000_000_000;
const SPAN_NS: u64 = 20_000_000_000;

/// The kernel half, in a library of its own.
struct Half(Spins);

impl Half {
    fn load() -> Half {
        let function = Library::load("shares.so").find(c"simulation_spins");
        // SAFETY: the function has this type in `simulated_shares.h`.
        Half(unsafe { std::mem::transmute::<*mut std::ffi::c_void, Spins>(function) })
    }

    /// The CPUs that each thread gets.
    fn shares(&self, spinners: &[Spinner], cpus: u32, caches: u32) -> Vec<f64> {
        let mut ran = vec![0; spinners.len()];
        let count = spinners.len() as u32;
        // SAFETY: as many threads as places; the answer is a string that stays until the next call.
        let answer = unsafe { (self.0)(spinners.as_ptr(), count, cpus, caches, SETTLE_NS, SPAN_NS, ran.as_mut_ptr()) };
        if !answer.is_null() {
            // SAFETY: see above.
            panic!("{}", unsafe { CStr::from_ptr(answer) }.to_string_lossy());
        }
        ran.iter().map(|&ns| ns as f64 / SPAN_NS as f64).collect()
    }
}

/// The same under EEVDF as Linux 6.18 has it: each thread in a cgroup of that weight.
fn eevdf(spinners: &[Spinner], cpus: u32) -> Vec<f64> {
    let mut text = format!(
        "duration = \"24s\"\nwarm_up = \"4s\"\nmachine = {{ cores = {cpus} }}\nkernel = {{ like = \"lab-6.18\" }}\n\
         policy = [{{ name = \"none\" }}]\n"
    );
    for (number, spinner) in spinners.iter().enumerate() {
        let cpus = (0..cpus).filter(|cpu| spinner.cpus >> cpu & 1 == 1).map(|cpu| cpu.to_string()).collect::<Vec<_>>();
        text += &format!(
            "[[workload]]\nname = \"w{number}\"\nclass = \"be\"\nthreads = 1\nweight = {}\ncpuset = \"{}\"\nbatch = {{}}\n",
            spinner.weight,
            cpus.join(",")
        );
    }
    let scenario = Scenario::parse(Path::new("spinners"), &text, &[]).unwrap();
    let seen = run(&scenario, &mut AnyPolicy::named("none").unwrap(), 0, |_| ()).unwrap();
    let ran = seen.workloads.iter().map(|workload| workload.run_time as f64);
    ran.map(|ns| ns / SPAN_NS as f64).collect()
}

/// How far the thread that is furthest from its fair share is from it, as a part of that.
fn furthest(shares: &[f64], fair: &[f64]) -> f64 {
    shares.iter().zip(fair).map(|(got, fair)| (got - fair).abs() / fair).fold(0.0, f64::max)
}

/// A random number below `below`; `state` is any number.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Threads of one slot, on two or eight CPUs, which may use one of a few random sets of them.
fn random(seed: u64, cpus: u32, sets: u64) -> Vec<Spinner> {
    const WEIGHTS: [u32; 7] = [34, 52, 81, 100, 125, 195, 304];
    let state = &mut seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sets = (0..sets).map(|_| 1 + draw(state, (1 << cpus) - 1)).collect::<Vec<_>>();
    let count = u64::from(cpus) + draw(state, u64::from(cpus));
    let in_workload = draw(state, 2) as u32;
    let spinner = |_| Spinner {
        in_workload,
        weight: WEIGHTS[draw(state, 7) as usize],
        cpus: sets[draw(state, sets.len() as u64) as usize],
    };
    (0..count).map(spinner).collect()
}

#[test]
fn weights_hold_among_threads_that_share_a_set_of_cpus() {
    let half = Half::load();
    for in_workload in [1, 0] {
        let of = |weight, cpus| Spinner { in_workload, weight, cpus };
        let cases: [(u32, &[Spinner]); 5] = [
            (2, &[of(300, 1), of(100, 1), of(100, 2)]),
            (2, &[of(300, 1), of(100, 1), of(100, 3), of(100, 3)]),
            (4, &[of(300, 3), of(300, 3), of(100, 3), of(100, 3), of(100, 12), of(50, 12), of(50, 12)]),
            (4, &[of(200, 1), of(100, 1), of(50, 1), of(100, 15), of(100, 15), of(100, 15), of(100, 15)]),
            (4, &[of(300, 7), of(100, 7), of(300, 14), of(100, 14), of(300, 7), of(100, 7), of(300, 14), of(100, 14)]),
        ];
        for (cpus, spinners) in cases {
            for caches in [1, 2] {
                let (shares, fair) = (half.shares(spinners, cpus, caches), weighted_max_min(spinners, cpus));
                assert!(furthest(&shares, &fair) < 0.02, "{caches} caches: {shares:.3?}, fair are {fair:.3?}");
            }
        }
    }
    // And those of random sets are nearer to that than under EEVDF, on the whole, and at the worst.
    for cpus in [2, 8] {
        let (mut sums, mut worst, mut worse) = ([0.0; 2], [0.0_f64; 2], 0);
        const DRAWS: u64 = 24;
        for seed in 1..=DRAWS {
            let spinners = random(seed, cpus, if seed % 2 == 0 { 3 } else { 8 });
            let fair = weighted_max_min(&spinners, cpus);
            let shares = [half.shares(&spinners, cpus, 1), eevdf(&spinners, cpus)];
            let far = shares.each_ref().map(|shares| furthest(shares, &fair));
            for one in 0..2 {
                sums[one] += far[one] / DRAWS as f64;
                worst[one] = worst[one].max(far[one]);
            }
            worse += u32::from(far[0] > far[1] + 0.02);
        }
        println!("{cpus} CPUs, furthest from fair, mean of {DRAWS}: {sums:.3?}, worst {worst:.3?}; worse in {worse}");
        assert!(sums[0] < sums[1] && worst[0] < worst[1], "{cpus} CPUs: mean {sums:?}, worst {worst:?}");
    }
}

#[test]
fn workloads_that_hold_cpus_as_one_keep_their_shares_and_threads_have_theirs_by_weight() {
    type SpinsAsOne = unsafe extern "C" fn(*const u32, u64, u64, *mut u64) -> *const c_char;
    let function = Library::load("shares-as-one.so").find(c"simulation_spins_as_one");
    // SAFETY: the function has this type in `simulated_shares.h`.
    let spins = unsafe { std::mem::transmute::<*mut std::ffi::c_void, SpinsAsOne>(function) };
    for weights in [[10_u32, 11], [100, 1], [100, 300], [9_999, 1]] {
        let mut ran = [0_u64; 6];
        // SAFETY: two weights and six places.
        let answer = unsafe { spins(weights.as_ptr(), SETTLE_NS, SPAN_NS, ran.as_mut_ptr()) };
        assert!(answer.is_null(), "an invariant is violated");
        for (turn, ran) in ran.chunks(3).enumerate() {
            let shares: Vec<f64> = ran.iter().map(|&ns| ns as f64 / SPAN_NS as f64).collect();
            let fair = |one: usize| 0.5 * f64::from(weights[(one + turn) % 2]) / f64::from(weights[0] + weights[1]);
            // A slice is 4 ms of 20 s; and what is behind by 10 s of virtual time waits no longer.
            let far = |one: usize| (shares[one] - fair(one)).abs() < 0.02 * fair(one) + 0.0005;
            assert!(far(0) && far(1), "{weights:?}: {shares:.4?}");
            assert!((shares[2] - 0.5).abs() < 0.01, "the other workload has its half: {shares:.4?}");
        }
    }
}
