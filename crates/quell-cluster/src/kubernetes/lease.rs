//! One controller leads: the one that holds the Lease. Clocks are not compared: a holder counts as gone when its lease was seen
//! unchanged for the lease's length by this process's own clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use super::LEASE;

/// A lease that is not renewed for this time is free.
pub const LENGTH: Duration = Duration::from_secs(12);
/// The leader acts for this time after the beginning of its last renewal: less than the length, so that no two lead.
const TRUSTED: Duration = Duration::from_secs(8);
/// The leader renews, and others look, after this time.
const RENEW: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_secs(1);

/// Does this controller lead? Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Leads(Arc<Mutex<Option<Instant>>>);

impl Leads {
    /// At this instant.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// A lease as it was last seen, and since when it is unchanged.
#[derive(Clone, Debug)]
pub struct Unchanged<T> {
    seen: Option<(T, Instant)>,
}

impl<T> Default for Unchanged<T> {
    fn default() -> Unchanged<T> {
        Unchanged { seen: None }
    }
}

impl<T: PartialEq> Unchanged<T> {
    /// The time for which this is unchanged by now.
    pub fn since(&mut self, now: Instant, value: T) -> Duration {
        match &self.seen {
            Some((seen, at)) if *seen == value => now.saturating_duration_since(*at),
            _ => {
                self.seen = Some((value, now));
                Duration::ZERO
            }
        }
    }
}

/// Holds the lease whenever it is free, until it is dropped.
pub async fn campaign(client: Client, namespace: String, identity: String, leads: Leads) {
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    let mut unchanged = Unchanged::default();
    loop {
        let begun = Instant::now();
        match tokio::time::timeout(TRUSTED, turn(&leases, &identity, &mut unchanged)).await {
            Ok(Ok(true)) => leads.set(Some(begun + TRUSTED)),
            Ok(Ok(false)) => leads.set(None),
            // Until it ends by itself, the last renewal stands.
            Ok(Err(error)) => tracing::warn!("the lease {namespace}/{LEASE}: {error}; trying again"),
            Err(_) => tracing::warn!("the lease {namespace}/{LEASE}: no answer; trying again"),
        }
        tokio::time::sleep(if leads.stands() { RENEW } else { LOOK }).await;
    }
}

type Seen = (Option<String>, Option<String>);

/// One look at the lease, and one attempt to hold it; true: it is held.
async fn turn(leases: &Api<Lease>, identity: &str, unchanged: &mut Unchanged<Seen>) -> Result<bool, kube::Error> {
    let parameters = PostParams::default();
    let Some(mut lease) = leases.get_opt(LEASE).await? else {
        let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(held(LeaseSpec::default(), identity)) };
        return won(leases.create(&parameters, &lease).await);
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
    let seen = (holder.clone(), lease.metadata.resource_version.clone());
    let is_free = unchanged.since(Instant::now(), seen) >= LENGTH || holder.is_none();
    if holder.as_deref() != Some(identity) && !is_free {
        return Ok(false);
    }
    lease.spec = Some(held(spec, identity));
    won(leases.replace(LEASE, &parameters, &lease).await)
}

/// The lease as it is when this controller holds it.
fn held(before: LeaseSpec, identity: &str) -> LeaseSpec {
    let is_same = before.holder_identity.as_deref() == Some(identity);
    let now = Some(MicroTime(Timestamp::now()));
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(LENGTH.as_secs()).ok(),
        acquire_time: if is_same { before.acquire_time } else { now.clone() },
        renew_time: now,
        lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(!is_same)),
        ..before
    }
}

/// Another one was faster: not an error.
fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the lease back, if it is this controller's.
pub async fn release(client: Client, namespace: &str, identity: &str) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let Some(mut lease) = leases.get_opt(LEASE).await? else { return Ok(()) };
    let Some(spec) = &mut lease.spec else { return Ok(()) };
    if spec.holder_identity.as_deref() == Some(identity) {
        spec.holder_identity = Some(String::new());
        won(leases.replace(LEASE, &PostParams::default(), &lease).await)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_old_by_the_own_clock_alone() {
        let (mut unchanged, start) = (Unchanged::default(), Instant::now());
        let at = |secs| start + Duration::from_secs(secs);
        assert_eq!(unchanged.since(at(0), "a"), Duration::ZERO);
        assert_eq!(unchanged.since(at(11), "a"), Duration::from_secs(11));
        assert_eq!(unchanged.since(at(12), "b"), Duration::ZERO);
        assert_eq!(unchanged.since(at(24), "b"), LENGTH);
    }

    #[test]
    fn a_new_holder_is_a_transition() {
        let one = held(LeaseSpec::default(), "one");
        let again = held(one.clone(), "one");
        assert_eq!((again.lease_transitions, &again.acquire_time), (Some(1), &one.acquire_time));
        assert_eq!(held(again, "two").lease_transitions, Some(2));
    }
}
