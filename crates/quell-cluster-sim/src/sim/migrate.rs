//! Live migration: the memory is copied in rounds, each the part written during the last, until the rest is so small that
//! the workload stands still for it (pre-copy, Clark et al., NSDI 2005).

use quell_model::cluster::{ClusterEvent, HostId, Movable, MoveEnd};
use quell_model::{Nanos, WorkloadId};

use super::Cluster;
use super::clock::{Tick, nanos, seconds};

/// A workload may stand still for this long (QEMU's default `downtime-limit`: 300 ms).
const DOWNTIME: f64 = 0.3;
/// Standstill of a workload that is ended here and begun there (assumed).
const RESTART: f64 = 10.0;
/// A round is at least this long: a page is found, sent and acknowledged (assumed).
const ROUND: f64 = 0.01;

/// A move under way.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Number of its life.
    pub number: u32,
    /// Source.
    pub from: HostId,
    /// Destination.
    pub to: HostId,
    /// Bytes a second that it copies in this round.
    speed: f64,
    /// Bytes that are left after this round.
    left: f64,
    /// Length of this round.
    lasts: f64,
    /// Bytes of the memory.
    memory: f64,
    /// Standstill at its end.
    still: f64,
}

impl Cluster {
    /// Begins a move that was found possible.
    pub(super) fn begin_move(&mut self, id: WorkloadId, from: HostId, to: HostId, deadline: Nanos) {
        let now = self.clock.now();
        self.traffic.book.began(now, id, from, to);
        self.claim(to, id, true);
        self.count.moves += 1;
        let number = self.count.moves;
        for host in [from, to] {
            self.hosts[host.index()].moves += 1;
        }
        let kind = self.kinds.of(&self.works[id.index()]);
        let memory = if kind.movable == Movable::Restart { 0.0 } else { kind.memory as f64 };
        let moving = Move { number, from, to, speed: 0.0, left: memory, lasts: 0.0, memory, still: 0.0 };
        self.traffic.moves.insert(id, moving);
        self.news.fresh.push(ClusterEvent::MoveBegan(id, to));
        self.clock.at(deadline, Tick::Deadline(id, number));
        let fails = self.draws.moves.unit() <= self.traffic.fails;
        self.copy(id);
        if fails && let Some(moving) = self.traffic.moves.get(&id) {
            let part = self.draws.moves.unit();
            self.clock.after(part * moving.lasts, Tick::Failure(id, number));
        }
    }

    /// Begins the next round with the bytes that are left, or the last one.
    fn copy(&mut self, id: WorkloadId) {
        let Some(moving) = self.traffic.moves.get(&id).copied() else { return };
        let kind = self.kinds.of(&self.works[id.index()]);
        let (dirty, is_live) = (kind.dirty, kind.movable == Movable::Live);
        let part = |host: HostId| {
            let machine = &self.hosts[host.index()];
            machine.link / f64::from(machine.moves.max(1))
        };
        let speed = part(moving.from).min(part(moving.to));
        let lasts = moving.left / speed;
        let (tick, lasts, still) = if !is_live {
            (Tick::Landing(id, moving.number), RESTART, RESTART)
        } else if lasts <= DOWNTIME {
            (Tick::Landing(id, moving.number), lasts, lasts)
        } else {
            (Tick::Round(id, moving.number), lasts.max(ROUND), 0.0)
        };
        self.load_by(&moving, -moving.speed);
        let next = Move { speed, lasts, left: (dirty * lasts).min(moving.memory), still, ..moving };
        self.load_by(&next, speed);
        self.traffic.moves.insert(id, next);
        self.clock.after(lasts, tick);
    }

    /// Copying loads the memory of both hosts: each byte is read there and written here.
    fn load_by(&mut self, moving: &Move, bytes: f64) {
        for host in [moving.from, moving.to] {
            self.touch(host);
            let copies = &mut self.hosts[host.index()].copies;
            *copies = (*copies + bytes).max(0.0);
        }
    }

    fn is_of(&self, id: WorkloadId, number: u32) -> bool {
        self.traffic.moves.get(&id).is_some_and(|moving| moving.number == number)
    }

    pub(super) fn round(&mut self, id: WorkloadId, number: u32) {
        if self.is_of(id, number) {
            let moving = self.traffic.moves[&id];
            self.news.fresh.push(ClusterEvent::MoveProgressed(id, (1.0 - moving.left / moving.memory).max(0.0)));
            self.copy(id);
        }
    }

    pub(super) fn landing(&mut self, id: WorkloadId, number: u32) {
        if self.is_of(id, number) {
            let still = self.traffic.moves[&id].still;
            self.end_move(id, MoveEnd::Arrived(nanos(still)));
        }
    }

    pub(super) fn failure(&mut self, id: WorkloadId, number: u32) {
        if self.is_of(id, number) {
            self.end_move(id, MoveEnd::Failed);
        }
    }

    pub(super) fn too_late(&mut self, id: WorkloadId, number: u32) {
        if self.is_of(id, number) {
            self.end_move(id, MoveEnd::TooLate);
        }
    }

    /// Ends a move: the workload is on the one host or on the other, never on both or on none.
    pub(super) fn end_move(&mut self, id: WorkloadId, how: MoveEnd) {
        let Some(moving) = self.traffic.moves.remove(&id) else { return };
        self.load_by(&moving, -moving.speed);
        for host in [moving.from, moving.to] {
            self.hosts[host.index()].moves -= 1;
        }
        if let MoveEnd::Arrived(still) = how {
            self.count.arrived += 1;
            self.claim(moving.from, id, false);
            self.hosts[moving.from.index()].remove(id);
            self.hosts[moving.to.index()].add(id);
            let work = &mut self.works[id.index()];
            work.host = Some(moving.to);
            // Requests go on to arrive while it stands still, and none is lost.
            if self.kinds.of(work).service.is_some() {
                work.backlog += self.kinds.rate(work) * seconds(still);
            }
        } else {
            self.claim(moving.to, id, false);
            self.count.failed += 1;
        }
        self.traffic.book.ended(self.clock.now(), id);
        self.news.fresh.push(ClusterEvent::MoveEnded(id, how));
    }
}
