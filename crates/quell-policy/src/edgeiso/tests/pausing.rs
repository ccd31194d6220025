//! Who streams, without counters.

use quell_sim::experiment::trials::Mix;

use super::*;
use crate::edgeiso::pausing::Named;

/// What a search names in this mix, and when.
fn searched(streams: bool, number: u64) -> (Option<WorkloadId>, Option<Named>, Vec<String>) {
    let (mix, streams) = Mix::with_aggressor(1, number, streams);
    let host = Faulty::new(mix.host().unwrap(), 1);
    let stack = Stack::of_one(EdgeIso::new(EdgeIsoConfig::default()), host.view());
    let mut scene = Scene { host, stack, turned: Vec::new(), notes: Vec::new(), trials: Vec::new() };
    scene.run(secs(3));
    for _ in 0..300 {
        scene.run(secs(1));
        let now = scene.host.now();
        let policy = scene.policy();
        if let Some(named) = policy.named(now) {
            return (streams, Some(named), scene.notes);
        }
    }
    (streams, None, scene.notes)
}

#[test]
fn the_one_that_streams_is_named_by_its_pauses() {
    for number in 0..3 {
        let (streams, named, notes) = searched(true, number);
        assert_eq!(named, streams.map(Named::One), "{number}: {notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("the aggressor: ")), "{notes:?}");
    }
}
