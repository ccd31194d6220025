//! Use of the measured times.

use std::sync::{Arc, Mutex};

use quell_model::Topology;

use super::*;
use crate::HostOptions;
use crate::testkit::FakeTree;

/// Memory that takes as long as a test wants.
#[derive(Clone, Debug, Default)]
struct Scripted(Arc<Mutex<(f64, usize)>>);

impl Memory for Scripted {
    fn access_ns(&mut self) -> f64 {
        let mut state = self.0.lock().unwrap();
        state.1 += 1;
        state.0
    }
}

struct Scene {
    memory: Scripted,
    canary: Canary,
    view: View,
}

const WANTED: SignalSet = SignalSet::of(&[Signal::MemorySlowdown]);

impl Scene {
    fn new() -> Scene {
        let memory = Scripted::default();
        let canary = Canary::with_memory(Box::new(memory.clone()));
        Scene { memory, canary, view: View::new(Topology::synthetic(1, 1, 2, 1).into()) }
    }

    /// A look that is due whatever the time is.
    fn look(&mut self, access_ns: f64) -> Sample<f64> {
        self.memory.0.lock().unwrap().0 = access_ns;
        self.canary.looked.at = None;
        self.canary.fill(WANTED, &mut self.view);
        self.view.machine.memory_slowdown
    }

    fn looks(&self) -> usize {
        self.memory.0.lock().unwrap().1
    }
}

#[test]
fn memory_is_as_slow_as_it_is_against_its_quietest() {
    let mut scene = Scene::new();
    for _ in 1..BLOCK {
        assert_eq!(scene.look(300.0).quality, Quality::Stale, "against what?");
    }
    assert_eq!(scene.look(300.0).usable(), Some(1.0));
    // It was not quiet at the start.
    (0..BLOCK).for_each(|_| _ = scene.look(100.0));
    assert_eq!(scene.look(100.0).usable(), Some(1.0));
    (0..RECENT / 2).for_each(|_| assert_eq!(scene.look(250.0).value, 1.0, "an interrupt"));
    let slow = scene.look(250.0);
    assert_eq!((slow.value, slow.quality), (2.5, Quality::Estimated));
    (0..10 * BLOCK).for_each(|_| _ = scene.look(250.0));
    assert_eq!(scene.look(250.0).usable(), Some(2.5), "slow memory is never taken for quiet");
}

#[test]
fn a_look_that_a_cache_answered_is_not_the_quietest() {
    let mut scene = Scene::new();
    for look in 0..10 * BLOCK {
        let slowdown = scene.look(if look % 5 == 0 { 5.0 } else { 100.0 });
        assert!(look + 1 < BLOCK || slowdown.value == 1.0, "{slowdown:?}");
    }
}

#[test]
fn nothing_is_timed_before_somebody_asks_nor_more_often_than_it_says_more() {
    let mut scene = Scene::new();
    scene.canary.fill(SignalSet::of(&[Signal::RunTime]), &mut scene.view);
    assert_eq!((scene.looks(), scene.view.machine.memory_slowdown.quality), (0, Quality::Absent));
    scene.look(100.0);
    let begun = clock::now();
    let mut at_once = 0;
    while clock::now() - begun < Nanos::from_millis(20) {
        scene.canary.fill(WANTED, &mut scene.view);
        at_once += 1;
    }
    assert!(scene.looks() <= 22 && at_once > scene.looks(), "{} looks of {at_once}", scene.looks());
}

#[test]
fn a_machine_of_plain_files_has_no_memory_and_says_so() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    let mut host = tree.host(HostOptions::default()).unwrap();
    let has = quell_model::Host::capabilities(&host);
    assert!(matches!(&has.signals[&Signal::MemorySlowdown], Support::No { fix, .. } if fix.contains("thresh_bw")));
    let mut view = View::new(host.topology());
    quell_model::Host::observe(&mut host, WANTED, &mut view, &mut Vec::new()).unwrap();
    assert_eq!(view.machine.memory_slowdown.quality, Quality::Absent);
}
