//! Queueing delay: a process that sleeps and works, and a neighbour on its CPU that spins.
//!
//! Both are this test's program once more, and end when it ends. Where they may be real-time they are, the neighbour above the
//! process: then other work on the machine changes neither.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quell_effect::report::Question;
use quell_effect::source::Waiting;
use quell_effect::{Effect, EffectError, Finding, Measure, Phase, Source, watch};
use quell_model::Selector;
use quell_thread::Class;
use quell_thread::class::become_class;

/// A child of this test; it ends with it, whatever becomes of the test.
struct Own(Child);

impl Own {
    fn start(role: &str) -> Own {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("waiting::{role}"), "--ignored", "--nocapture"]);
        Own(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Works for a time and sleeps for a time on the machine's first CPU, until the test that started it ends.
fn work(priority: u8, works: Duration, sleeps: Duration) {
    let mut cpus = rustix::thread::CpuSet::new();
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    cpus.set((0..1024).find(|cpu| allowed.is_set(*cpu)).unwrap());
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
    let _ = become_class(Class::Fifo(priority));
    let parent = std::thread::spawn(|| std::io::stdin().read(&mut [0]));
    while !parent.is_finished() {
        std::thread::sleep(sleeps);
        let begun = Instant::now();
        while begun.elapsed() < works {
            std::hint::spin_loop();
        }
    }
}

#[test]
#[ignore = "started by the tests"]
fn victim() {
    work(5, Duration::from_micros(50), Duration::from_millis(1));
}

#[test]
#[ignore = "started by the tests"]
fn neighbour() {
    work(6, Duration::from_millis(10), Duration::from_millis(10));
}

fn until_enough(source: &mut Waiting) -> Phase {
    watch(source, Duration::from_secs(60), |phase| phase.count() < 150 || phase.seconds() < 5.0).unwrap()
}

#[test]
fn a_spinning_neighbour_raises_the_queueing_delay() {
    let victim = Own::start("victim");
    let mut source = Waiting::of(vec![Selector::Pid(victim.0.id() as i32)]).unwrap();
    assert_eq!(source.measure(), Measure::QueueingDelay);
    let before = until_enough(&mut source);
    let neighbour = Own::start("neighbour");
    // It has begun when a value shows it, or never.
    watch(&mut source, Duration::from_secs(20), |phase| phase.at(1.0) < 3_000_000).unwrap();
    let after = until_enough(&mut source);
    drop(neighbour);
    let question = Question { target: "web", changed: "disturbed", quantile: 0.9, settling: Duration::ZERO };
    let effect = Effect::of(&question, &before, &after);
    let found = effect.comparison.unwrap();
    assert_eq!(found.finding, Finding::Higher, "{}", effect.headline);
    assert!(found.ratio > 2.0, "{}", effect.headline);
    assert!(effect.headline.starts_with("web: queueing delay p90 "), "{}", effect.headline);
}

#[test]
fn a_process_that_ends_ends_the_measurement() {
    let victim = Own::start("victim");
    let mut source = Waiting::of(vec![Selector::Pid(victim.0.id() as i32)]).unwrap();
    watch(&mut source, Duration::from_secs(60), |phase| phase.count() < 5).unwrap();
    drop(victim);
    let ended = watch(&mut source, Duration::from_secs(60), |_| true).unwrap_err();
    assert!(matches!(ended, EffectError::Ended) && ended.is_final(), "{ended}");
}
