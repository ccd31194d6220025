//! What the API server says, kept by a thread that watches, read by the loop.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::seen::{NodeSeen, PodSeen};

/// Nodes by name, pods by uid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Nodes.
    pub nodes: BTreeMap<String, NodeSeen>,
    /// Pods that have not ended.
    pub pods: BTreeMap<String, PodSeen>,
    /// Were all nodes, and all pods, listed once?
    pub listed: (bool, bool),
}

#[derive(Debug, Default)]
struct Inner {
    objects: Objects,
    changed: bool,
    ended: bool,
}

/// The objects. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct World(Arc<(Mutex<Inner>, Condvar)>);

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the objects, and wakes up what waits for a change; `changes` returns whether it changed anything.
    pub fn change(&self, changes: impl FnOnce(&mut Objects) -> bool) {
        let mut inner = self.lock();
        if changes(&mut inner.objects) {
            inner.changed = true;
            self.0.1.notify_all();
        }
    }

    /// Looks at them.
    pub fn look<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.lock().objects)
    }

    /// Waits at most this long for a change.
    pub fn wait(&self, most: Duration) {
        let is_quiet = |inner: &mut Inner| !inner.changed && !inner.ended;
        let waited = self.0.1.wait_timeout_while(self.lock(), most, is_quiet);
        waited.unwrap_or_else(PoisonError::into_inner).0.changed = false;
    }

    /// All nodes and pods are known.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.look(|objects| objects.listed == (true, true))
    }

    /// Every wait ends at once from now on.
    pub fn end(&self) {
        self.lock().ended = true;
        self.0.1.notify_all();
    }
}
