//! What is shown of the node's pods.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wire;

/// The latest, shared by the pods' threads and the API's; the loop never takes this lock.
#[derive(Clone, Debug, Default)]
pub struct ShownPods(Arc<Mutex<Option<wire::Kubernetes>>>);

impl ShownPods {
    /// From now on this is shown.
    pub fn show(&self, kubernetes: wire::Kubernetes) {
        *self.latest() = Some(kubernetes);
    }

    /// None: the agent has no part in Kubernetes.
    #[must_use]
    pub fn get(&self) -> Option<wire::Kubernetes> {
        self.latest().clone()
    }

    fn latest(&self) -> MutexGuard<'_, Option<wire::Kubernetes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
