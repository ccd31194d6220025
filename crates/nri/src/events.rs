//! What a plug-in is notified of.

use std::fmt;
use std::ops::BitOr;

use prost::Enumeration;

/// An event in the life of pods and containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Event {
    /// [`run_pod_sandbox`](crate::Plugin::run_pod_sandbox).
    RunPodSandbox = 1,
    /// [`stop_pod_sandbox`](crate::Plugin::stop_pod_sandbox).
    StopPodSandbox = 2,
    /// [`remove_pod_sandbox`](crate::Plugin::remove_pod_sandbox).
    RemovePodSandbox = 3,
    /// [`create_container`](crate::Plugin::create_container).
    CreateContainer = 4,
    /// [`post_create_container`](crate::Plugin::post_create_container).
    PostCreateContainer = 5,
    /// [`start_container`](crate::Plugin::start_container).
    StartContainer = 6,
    /// [`post_start_container`](crate::Plugin::post_start_container).
    PostStartContainer = 7,
    /// [`update_container`](crate::Plugin::update_container).
    UpdateContainer = 8,
    /// [`post_update_container`](crate::Plugin::post_update_container).
    PostUpdateContainer = 9,
    /// [`stop_container`](crate::Plugin::stop_container).
    StopContainer = 10,
    /// [`remove_container`](crate::Plugin::remove_container).
    RemoveContainer = 11,
    /// [`update_pod_sandbox`](crate::Plugin::update_pod_sandbox).
    UpdatePodSandbox = 12,
    /// [`post_update_pod_sandbox`](crate::Plugin::post_update_pod_sandbox).
    PostUpdatePodSandbox = 13,
    /// [`validate_container_adjustment`](crate::Plugin::validate_container_adjustment).
    ValidateContainerAdjustment = 14,
}

/// A set of events. A runtime refuses a plug-in that subscribes to an event that it does not know: the last three are younger than the
/// others ([`Events::FIRST`]).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Events(i32);

impl Events {
    /// The eleven events that every runtime with NRI knows: all but those of pods being updated, and validation.
    pub const FIRST: Events = Events((1 << Event::RemoveContainer as i32) - 1);

    /// These events.
    pub fn of(events: &[Event]) -> Events {
        events.iter().copied().collect()
    }

    /// Whether this event is among them.
    pub fn contains(self, event: Event) -> bool {
        self.0 & bit(event) != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As NRI writes it: bit 0 is event 1.
    pub fn bits(self) -> i32 {
        self.0
    }

    /// The events, in NRI's order.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        (1..=14).filter_map(|number| Event::try_from(number).ok()).filter(move |event| self.contains(*event))
    }
}

fn bit(event: Event) -> i32 {
    1 << (event as i32 - 1)
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Events {
        Events(events.into_iter().fold(0, |bits, event| bits | bit(event)))
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.debug_set().entries(self.iter()).finish()
    }
}

#[test]
fn bits_are_those_of_nri() {
    assert_eq!(Events::FIRST.bits(), 0x7ff);
    assert_eq!(Events::of(&[Event::RunPodSandbox, Event::ValidateContainerAdjustment]).bits(), 1 | 1 << 13);
    assert_eq!(Events::FIRST.iter().count(), 11);
    assert!(Events::default().is_empty() && !Events::FIRST.contains(Event::UpdatePodSandbox));
}
