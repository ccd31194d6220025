//! The cluster as a host of its domain.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use quell_model::cluster::{
    BudgetBook, ClusterCapabilities, ClusterDomain, ClusterEvent, ClusterOutcome, ClusterPart, ClusterPlan,
    ClusterRefusal, ClusterVerdict, ClusterView, HostId, MarkCommand, Movable, MoveCommand,
};
use quell_model::{Host, Nanos, Wake, WorkloadId};

use super::bounds::{Bounds, Relieved};
use super::calls::{Calls, Evicted};
use super::lease::Leads;
use super::seats::{Moving, Seat, Seats};
use super::seen::PodSeen;
use super::show::{self, show};
use super::world::World;
use crate::ClusterError;
use crate::live::{Counts, Driver};
use crate::policy::Judged;

/// Shortest time between two turns, and longest.
const TURNS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// After a refusal that says "not now", the first pause and the longest.
const LATER: (Nanos, Nanos) = (Nanos::from_secs(60), Nanos::from_secs(600));
/// The same recommendation is not repeated within this time.
const AGAIN: Nanos = Nanos::from_secs(600);

/// What the controller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Report in `status` alone
    Observe,
    /// Write an Event on each pod that it would evict
    #[default]
    Recommend,
    /// Taint, label and evict
    Act,
}

/// A pod that is left alone for a while.
#[derive(Clone, Copy, Debug)]
struct Held {
    until: Nanos,
    pause: Nanos,
}

/// The cluster.
pub struct Kubernetes {
    calls: Calls,
    world: World,
    leads: Leads,
    mode: Mode,
    bounds: Bounds,
    begun: (Instant, Nanos),
    seats: Seats,
    book: BudgetBook,
    relieved: Relieved,
    counts: Counts,
    held: BTreeMap<String, Held>,
    remarks: BTreeMap<String, String>,
}

impl Kubernetes {
    /// What the world shows, under this controller for as long as it leads.
    #[must_use]
    pub fn new(calls: Calls, world: World, leads: Leads, mode: Mode, bounds: Bounds) -> Kubernetes {
        Kubernetes {
            calls,
            world,
            leads,
            mode,
            bounds,
            begun: (Instant::now(), Nanos(wall_ms() * 1_000_000)),
            seats: Seats::default(),
            book: BudgetBook::default(),
            relieved: Relieved::default(),
            counts: Counts::default(),
            held: BTreeMap::new(),
            remarks: BTreeMap::new(),
        }
    }

    /// Time of the view: the wall's at the beginning, and from then on one that only goes forward.
    fn now(&self) -> Nanos {
        let (begun, at) = self.begun;
        at + Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX / 4))
    }

    /// The pod of a workload, with its uid.
    fn pod(&self, id: WorkloadId) -> Option<(String, PodSeen)> {
        let uid = self.seats.seat(id)?.pod.clone()?;
        let pod = self.world.look(|objects| objects.pods.get(&uid).cloned())?;
        Some((uid, pod))
    }

    fn order(&mut self, command: &MoveCommand) -> ClusterVerdict {
        let now = self.now();
        let Some((uid, pod)) = self.pod(command.workload) else { return ClusterVerdict::Vanished };
        let refused = ClusterVerdict::Refused;
        let seat = self.seats.seat(command.workload);
        let is_moving = seat.is_some_and(|seat| seat.moving.is_some());
        let Some(from) = pod.node.clone() else { return refused(ClusterRefusal::NotNow) };
        let (Some(source), false) = (self.seats.host(&from), pod.leaving || is_moving) else {
            return refused(ClusterRefusal::NotNow);
        };
        if pod.movable == Movable::Never || source == command.to {
            return refused(ClusterRefusal::NotNow);
        }
        let key = key(&uid, &pod);
        if self.held.get(&key).is_some_and(|held| held.until > now) {
            return refused(ClusterRefusal::NotNow);
        }
        if let Err(spent) = self.book.may(&self.bounds.budget, now, command.workload, source, command.to) {
            return refused(ClusterRefusal::Budget(spent));
        }
        let service = command.relieves.and_then(|id| self.pod(id)).map(|(_, pod)| pod);
        let namespace = service.as_ref().map_or_else(String::new, |service| service.namespace.clone());
        if self.relieved.number(now, &namespace) >= self.bounds.per_namespace as usize {
            let text = format!("as many evictions for the services of {namespace} within an hour as may be");
            self.remark(&pod.path(), &text);
            return refused(ClusterRefusal::System(text));
        }
        if self.mode != Mode::Act {
            self.held.insert(key, Held { until: now + AGAIN, pause: AGAIN });
            self.recommend(&uid, &pod, &from, command.to, service.as_ref());
            return refused(ClusterRefusal::System("recommended, and not done: --mode act does it".into()));
        }
        match self.evict(&uid, &pod, now) {
            Ok(Evicted::Begun) => {
                self.counts.evicted += 1;
                self.relieved.add(now, &namespace);
                self.book.began(now, command.workload, source, command.to);
                let moving = Moving { from, to: command.to, begun: now, deadline: command.deadline, old: uid };
                self.seats.begin(command.workload, moving);
                ClusterVerdict::Pending(command.deadline)
            }
            Ok(Evicted::Gone) => {
                // Where it is its owner that is not there, its pod would be the first choice again and again.
                self.held.insert(key, Held { until: now + LATER.0, pause: LATER.0 });
                ClusterVerdict::Vanished
            }
            Ok(Evicted::Later(why)) => {
                self.counts.refused += 1;
                let pause = self.held.get(&key).map_or(LATER.0, |held| Nanos(held.pause.0 * 2).min(LATER.1));
                self.held.insert(key, Held { until: now + pause, pause });
                self.remark(&pod.path(), &format!("not evicted: {why}; again in {pause}"));
                refused(ClusterRefusal::System(why))
            }
            Err(error) => {
                self.counts.failed += 1;
                self.held.insert(key, Held { until: now + LATER.0, pause: LATER.0 });
                self.remark(&pod.path(), &error.to_string());
                refused(ClusterRefusal::System(error.to_string()))
            }
        }
    }

    /// Asks for the eviction. The owner's pause is written first, and only if no other controller has written since it was read: a
    /// workload does not move twice, whichever of two controllers dies when.
    fn evict(&mut self, uid: &str, pod: &PodSeen, now: Nanos) -> Result<Evicted, ClusterError> {
        let Some(owner) = &pod.owner else { return Ok(Evicted::Later("it has no owner".into())) };
        let Some((cooling, version)) = self.calls.cooling(&pod.namespace, owner)? else { return Ok(Evicted::Gone) };
        let wall = wall_ms() / 1000;
        let left = cooling.left(wall);
        if left > 0 {
            return Ok(Evicted::Later(format!("its owner moved lately: {left} s are left")));
        }
        if !self.leads.stands() {
            return Ok(Evicted::Later("another controller leads".into()));
        }
        let begun = cooling.begun(wall, self.bounds.budget.cool_down);
        let version = self.calls.cool(&pod.namespace, owner, begun, &version)?;
        tracing::info!("evicting pod {} at {now}", pod.path());
        let evicted = self.calls.evict(pod, uid)?;
        if let Evicted::Later(_) = evicted {
            // Nothing moved: the pause is as before.
            self.calls.cool(&pod.namespace, owner, cooling, &version)?;
        }
        Ok(evicted)
    }

    fn recommend(&mut self, uid: &str, pod: &PodSeen, from: &str, to: HostId, service: Option<&PodSeen>) {
        let to = show::name(&self.seats, to);
        let service = service.map_or_else(|| "a latency-critical workload".into(), PodSeen::path);
        let text = match service == pod.path() {
            true => format!("would be evicted from {from}, where its latency exceeds its SLO; {to} is quieter"),
            false => format!("would be evicted from {from}, where it contends with {service}; {to} is quieter"),
        };
        self.counts.recommended += 1;
        self.remark(&pod.path(), &text);
        if self.mode == Mode::Recommend
            && let Err(error) = self.calls.event(pod, uid, "QuellRecommendsEviction", &text)
        {
            tracing::warn!("{error}");
        }
    }

    fn mark(&mut self, command: &MarkCommand) -> ClusterVerdict {
        let Some(Some(node)) = self.seats.hosts.get(command.host.index()) else { return ClusterVerdict::Vanished };
        if self.mode != Mode::Act || !self.leads.stands() {
            return ClusterVerdict::Refused(ClusterRefusal::System("not done: --mode act does it".into()));
        }
        match self.calls.mark(node, command.class) {
            Ok(()) => {
                self.counts.marked += 1;
                ClusterVerdict::Applied(self.now())
            }
            Err(error) => {
                self.counts.failed += 1;
                tracing::warn!("{error}");
                ClusterVerdict::Refused(ClusterRefusal::System(error.to_string()))
            }
        }
    }

    fn remark(&mut self, about: &str, text: &str) {
        tracing::info!("{about}: {text}");
        self.remarks.insert(about.to_owned(), text.to_owned());
        // The last few are enough: the log has all.
        while self.remarks.len() > 64 {
            self.remarks.pop_first();
        }
    }
}

/// What is held of a pod: all pods of its owner, or itself.
fn key(uid: &str, pod: &PodSeen) -> String {
    pod.owner.as_ref().map_or_else(|| uid.to_owned(), |owner| owner.uid.clone())
}

/// Those seats do not move.
fn hold(seats: &Seats, view: &mut ClusterView, is_held: impl Fn(&Seat) -> bool) {
    for (at, seat) in seats.seats.iter().enumerate() {
        if seat.as_ref().is_some_and(&is_held) {
            view.workloads.movable[at] = Movable::Never;
        }
    }
}

/// Milliseconds since 1970 by the clock on the wall.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

impl Host<ClusterDomain> for Kubernetes {
    type Error = ClusterError;

    fn capabilities(&self) -> ClusterCapabilities {
        ClusterCapabilities { live: false, cancel: false }
    }

    fn observe(&mut self, (): (), view: &mut ClusterView, events: &mut Vec<ClusterEvent>) -> Result<(), ClusterError> {
        let now = self.now();
        let (world, seats) = (&self.world, &mut self.seats);
        let first = events.len();
        let bad = world.look(|objects| {
            seats.update(objects, now, events);
            let bad = show(objects, seats, now, wall_ms(), view);
            if self.mode == Mode::Act {
                // Others have their turn while these may not be evicted.
                let held = |seat: &Seat| {
                    let key = seat.owner.as_ref().or(seat.pod.as_ref());
                    key.and_then(|key| self.held.get(key)).is_some_and(|held| held.until > now)
                };
                hold(seats, view, held);
            }
            bad
        });
        self.counts.bad_reports = bad.len() as u32;
        for event in &events[first..] {
            match event {
                ClusterEvent::MoveEnded(id, _) => self.book.ended(now, *id),
                ClusterEvent::Ended(id) => self.book.forget(now, *id),
                _ => {}
            }
        }
        self.remarks.retain(|about, _| about.contains('/'));
        self.remarks.extend(bad);
        self.held.retain(|_, held| held.until + held.pause > now);
        Ok(())
    }

    fn apply(&mut self, plan: &ClusterPlan, events: &mut Vec<ClusterEvent>) -> Result<(), ClusterError> {
        let mut report = |part: fn(u32) -> ClusterPart, at: usize, verdict| {
            events.push(ClusterEvent::Outcome(ClusterOutcome { plan: plan.number, part: part(at as u32), verdict }));
        };
        for at in 0..plan.places.len() {
            // Kubernetes places.
            report(ClusterPart::Place, at, ClusterVerdict::Refused(ClusterRefusal::NotNow));
        }
        for at in 0..plan.cancels.len() {
            report(ClusterPart::Cancel, at, ClusterVerdict::Vanished);
        }
        for (at, command) in plan.marks.iter().enumerate() {
            report(ClusterPart::Mark, at, self.mark(command));
        }
        for (at, command) in plan.moves.iter().enumerate() {
            report(ClusterPart::Move, at, self.order(command));
        }
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), ClusterError> {
        std::thread::sleep(TURNS.0);
        let most = match until {
            Wake::At(at) => Duration::from_nanos(at.0.saturating_sub(self.now().0)).min(TURNS.1),
            Wake::OnEvent => TURNS.1,
        };
        self.world.wait(most);
        Ok(())
    }
}

impl Driver for Kubernetes {
    fn kind(&self, id: WorkloadId) -> &str {
        self.seats.seat(id).map_or("", |seat| &seat.path)
    }

    fn host_name(&self, id: HostId) -> Option<&str> {
        self.seats.hosts.get(id.index())?.as_deref()
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn is_over(&self) -> bool {
        !self.leads.stands()
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.iter().map(|(about, text)| format!("{about}: {text}")).collect()
    }

    fn judged(&mut self, judged: &Judged) {
        let Some((_, pod)) = self.pod(judged.moved).filter(|_| self.mode == Mode::Act) else { return };
        let Some(owner) = &pod.owner else { return };
        let now = wall_ms() / 1000;
        let written = self.calls.cooling(&pod.namespace, owner).and_then(|found| match found {
            Some((cooling, version)) => {
                let cooling = cooling.judged(now, self.bounds.budget.cool_down, judged.helped);
                self.calls.cool(&pod.namespace, owner, cooling, &version).map(|_| ())
            }
            None => Ok(()),
        });
        if let Err(error) = written {
            tracing::warn!("{error}");
        }
    }
}
