//! The exact account, from every scheduling event: what samples are tested against.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quell_model::Nanos;
use quell_trace::{Collector, Event, Member, Options};

use super::{Cause, Crew, Key};
use crate::Machine;
use crate::services::{Holder, Waits};

/// All events of a crew's threads until it is over; `ready` once they are reported.
pub(super) fn events(crew: &Crew, ready: &AtomicBool, over: &AtomicBool) -> Vec<Event> {
    let mut collector = Collector::open(Options { events: true, ..Options::default() }).unwrap();
    for &(tid, _, slot) in &crew.threads {
        collector.watch(Member { tid, slot }).unwrap();
    }
    collector.look().unwrap();
    ready.store(true, Ordering::Release);
    let mut events = Vec::new();
    while !over.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(5));
        collector.drain(&mut events).unwrap();
    }
    assert_eq!(collector.losses().events, 0);
    events
}

/// Each workload's shares of a window. Threads of no workload have one name.
pub(super) fn shares(crew: &Crew, events: &[Event], begin: Nanos, end: Nanos) -> Vec<BTreeMap<Key, f64>> {
    let mut waits = Waits::new(crew.names.len(), Machine::here().unwrap().cpus, begin);
    events.iter().filter(|event| event.at <= end).for_each(|event| waits.apply(event));
    let share = |pieces: &crate::services::Pieces| {
        let all = pieces.values().map(|waited| waited.threads.0).sum::<u64>() as f64;
        let mut shares = BTreeMap::<Key, f64>::new();
        for ((_, holder), waited) in pieces {
            let key = match holder {
                Holder::Idle => Key::of(Cause::IdleCpu),
                Holder::Own => Key::of(Cause::OwnThreads),
                Holder::Service(slot) => Key::by(Cause::Workload, &crew.names[usize::from(*slot)]),
                Holder::Thread(_) => Key::of(Cause::Other),
            };
            *shares.entry(key).or_default() += waited.threads.0 as f64 / all;
        }
        shares
    };
    waits.cut(end).iter().map(share).collect()
}
