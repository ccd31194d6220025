//! The sampler on this machine's kernel. Where that does not allow tracing, the tests say so.

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Program, ProgramMut};
use quell_thread::clock::cpu_time;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::*;
use crate::obstacle;

fn sampler() -> Option<Sampler> {
    match Sampler::open() {
        Ok(sampler) => Some(sampler),
        Err(error @ (TraceError::Refused { .. } | TraceError::Namespace)) if obstacle().is_some() => {
            eprintln!("not tested here: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Where the verifier follows both sides of each branch of a search, loading takes seconds of a CPU.
#[test]
fn the_verifier_looks_at_few_instructions() {
    let begin = cpu_time();
    let Some(sampler) = sampler() else { return };
    let took = cpu_time() - begin;
    let programs = &sampler.skeleton.progs;
    let ours = [
        &programs.on_switch,
        &programs.on_wakeup,
        &programs.on_wakeup_new,
        &programs.on_migrate,
        &programs.on_fork,
        &programs.look,
    ]
    .map(|program: &ProgramMut<'_>| Program::id_from_fd(program.as_fd()).unwrap());
    let found: Vec<_> = ProgInfoIter::default().filter(|program| ours.contains(&program.id)).collect();
    assert_eq!(found.len(), ours.len());
    let verified: Vec<_> =
        found.iter().map(|program| (program.name.to_string_lossy(), program.verified_insns)).collect();
    eprintln!("loading took {took} of a CPU, for these instructions: {verified:?}");
    if verified.iter().all(|(_, count)| *count == 0) {
        eprintln!("not tested here: the kernel (before 5.16) does not say how many instructions it verified");
        return;
    }
    assert!(verified.iter().map(|(_, count)| count).sum::<u32>() <= 5000, "{verified:?}");
}

/// A process of one thread that always wants this CPU.
struct Spinner(Child);

impl Spinner {
    fn start(cpu: usize) -> Spinner {
        let mut command = Command::new("sh");
        let child = command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        let spinner = Spinner(child);
        sched_setaffinity(Some(Pid::from_child(&spinner.0)), &cpus).unwrap();
        spinner
    }

    fn tid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each of several threads that wait for one CPU is found in its place of the list, wherever that is, and no other is.
#[test]
fn a_thread_is_found_in_the_list_wherever_it_is() {
    let Some(mut sampler) = sampler() else { return };
    let allowed = sched_getaffinity(None).unwrap();
    let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let spinners: Vec<_> = (0..4).map(|_| Spinner::start(cpu)).collect();
    let (all, stranger) = (spinners.iter().map(Spinner::tid), spinners[3].tid());
    let watched: Vec<_> = all.filter(|tid| *tid != stranger).zip(1..).map(|(tid, slot)| Member { tid, slot }).collect();
    let fillers = |from: i32, count: i32| (from..from + count).map(|tid| Member { tid, slot: 99 });
    // Alone, first, last, in the middle, of a full list; numbers that no thread has fill the rest.
    for (before, after) in [(0, 0), (0, 999), (999, 0), (20_000, 20_001), (0, MAX_THREADS as i32 - 3)] {
        let members: Vec<_> =
            fillers(i32::MIN, before).chain(watched.iter().copied()).chain(fillers(1 << 24, after)).collect();
        sampler.begin(&members).unwrap();
        let (begin, mut found) = (Instant::now(), Vec::new());
        let mut missing = watched.clone();
        while !missing.is_empty() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
            sampler.take(&mut found).unwrap();
            missing.retain(|member| !found.iter().any(|sampled| sampled.what == Found::Waits(*member)));
        }
        sampler.end(sampler.instants().until(now()), &mut found).unwrap();
        assert!(missing.is_empty(), "{before}, {after}: {missing:?}");
        let others: Vec<_> = found
            .iter()
            .filter(|sampled| matches!(sampled.what, Found::Waits(who) if !watched.contains(&who)))
            .collect();
        assert!(others.is_empty(), "{before}, {after}: {others:?}");
    }
    // None of a list of none: what is left of the last one counts no more.
    sampler.begin(&[]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let mut found = Vec::new();
    sampler.end(sampler.instants().until(now()), &mut found).unwrap();
    assert!(!found.iter().any(|sampled| matches!(sampled.what, Found::Waits(_))), "{found:?}");
}
