//! Algorithm 3: the hyperthread controller (caladan-osdi20 §5.2.3).
//!
//! ```text
//! for each core C:
//!     T = task_on_core[C]
//!     if T is LC and now - GetRequestStartTime(C) >= THRESH_HT[T]: ban sibling of C
//!     else: unban sibling of C
//! ```
//!
//! The host ends a ban by itself when the request completes ([`quell_model::rule::ban_holds`]); this controller
//! imposes bans, longest request first, and takes one back where the allocator needs a guaranteed core.

use quell_model::rule::ban_holds;
use quell_model::view::at;
use quell_model::{CpuId, CpuSet, Event, Nanos, NoteKind, Part, Plan, Rule, Verdict, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::allocator::best_core;
use crate::cores::{Cores, Tasks};
use crate::kit::once::Once;

/// A request, by the core that works on it and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Request {
    start: Nanos,
    core: CpuId,
}

/// The siblings of a core are banned for its request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Ban {
    request: Request,
    /// The plan that imposed it.
    plan: u64,
}

/// The controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Hyperthread {
    bans: Vec<Ban>,
    /// Requests that have run for too long, the longest first; empty between steps.
    long: Vec<Request>,
    /// Cores whose ban has ended; empty between steps.
    free: Vec<CpuId>,
    /// Has it been said that request starts are absent?
    said_absent: Once,
}

impl Hyperthread {
    /// Forgets the bans that ended or were refused.
    pub fn handle(&mut self, view: &View, events: &[Event], cores: &mut Cores) {
        let refused = |ban: &Ban| {
            events.iter().any(|event| match event {
                Event::Outcome(outcome) => {
                    let done = matches!(outcome.verdict, Verdict::Applied(_) | Verdict::Pending(_));
                    outcome.plan == ban.plan && matches!(outcome.part, Part::Rule(_)) && !done
                }
                _ => false,
            })
        };
        let holds = |ban: &Ban| ban_holds(ban.request.start, request_start(view, ban.request.core));
        let Hyperthread { bans, free, .. } = self;
        bans.retain(|ban| {
            let stays = holds(ban) && !refused(ban);
            if !stays {
                free.extend_from_slice(cores.siblings(ban.request.core));
            }
            stays
        });
        for ban in &self.bans {
            siblings(cores, ban.request.core, Cores::park);
        }
    }

    /// A core whose ban has ended since the last call.
    pub fn free_core(&mut self) -> Option<CpuId> {
        self.free.pop()
    }

    /// Bans the siblings of cores whose request has run for too long: once a round.
    pub fn control(&mut self, view: &View, tasks: &Tasks, cores: &mut Cores, plan: &mut Plan) {
        if tasks.iter().all(|(_, task)| !task.lc || task.thresh_ht == Nanos::MAX) {
            return;
        }
        if view.cpus.request_start.is_empty() {
            if self.said_absent.first() {
                let text = "the starts of requests are not measured: the hyperthread controller is off";
                plan.note(NoteKind::Warning, None, text);
            }
            return;
        }
        self.find_long_requests(view, tasks, cores);
        // Cores that this round's bans leave to the LC tasks that they displace.
        let mut spoken_for = CpuSet::EMPTY;
        for index in 0..self.long.len() {
            let request = self.long[index];
            if self.may_ban(request, tasks, cores, &mut spoken_for) {
                self.ban(request, cores, plan);
            }
        }
        self.long.clear();
    }

    fn find_long_requests(&mut self, view: &View, tasks: &Tasks, cores: &Cores) {
        for core in cores.allowed().iter() {
            let Some(task) = cores.task_on(core).and_then(|task| tasks.get(task)).filter(|task| task.lc) else {
                continue;
            };
            let Some(start) = request_start(view, core) else { continue };
            if task.thresh_ht != Nanos::MAX && view.now - start >= task.thresh_ht {
                self.long.push(Request { start, core });
            }
        }
        self.long.sort_unstable();
    }

    /// A sibling that handles an LC task is banned only "if that LC task can be allocated another core", and never for
    /// the sake of a shorter request: the longest go first.
    fn may_ban(&self, request: Request, tasks: &Tasks, cores: &Cores, spoken_for: &mut CpuSet) -> bool {
        let core = request.core;
        let ours = cores.siblings(core).iter().all(|sibling| cores.pool().contains(*sibling));
        let has_ban = self.bans.iter().any(|ban| ban.request == request);
        if !ours || has_ban || cores.banned().contains(core) || cores.siblings(core).is_empty() {
            return false;
        }
        let mut needed = *spoken_for;
        cores.siblings(core).iter().for_each(|&sibling| needed.insert(sibling));
        for &sibling in cores.siblings(core) {
            if self.long.iter().any(|other| other.core == sibling && *other < request) {
                return false;
            }
            match cores.task_on(sibling) {
                None => {}
                Some(task) => match another_core(task, tasks, cores, &needed) {
                    Displaced::NeedsNone => {}
                    Displaced::To(other) => needed.insert(other),
                    Displaced::Stuck => return false,
                },
            }
        }
        *spoken_for = needed;
        true
    }

    fn ban(&mut self, request: Request, cores: &mut Cores, plan: &mut Plan) {
        plan.rules.push(Rule::SiblingBan { cpu: request.core, request_start: request.start });
        self.bans.push(Ban { request, plan: plan.number });
        for index in 0..cores.siblings(request.core).len() {
            let sibling = cores.siblings(request.core)[index];
            if cores.task_on(sibling).is_some() {
                cores.revoke(sibling, plan);
            }
            cores.park(sibling);
        }
    }

    /// Ends the ban of the shortest request, "respecting the same priority", and returns a core that is free by it.
    pub fn unban_one(&mut self, cores: &mut Cores, plan: &mut Plan) -> Option<CpuId> {
        let (index, ban) = self.bans.iter().enumerate().max_by_key(|(_, ban)| ban.request)?;
        let core = ban.request.core;
        self.bans.swap_remove(index);
        plan.rules.push(Rule::SiblingBan { cpu: core, request_start: Rule::NO_REQUEST });
        siblings(cores, core, Cores::unpark);
        cores.siblings(core).iter().copied().find(|&sibling| cores.task_on(sibling).is_none())
    }
}

/// Fate of the task on a core that is to be parked.
enum Displaced {
    /// It is best-effort: it loses the core.
    NeedsNone,
    /// It can have this one.
    To(CpuId),
    /// There is no other core for it.
    Stuck,
}

fn another_core(task: WorkloadId, tasks: &Tasks, cores: &Cores, taken: &CpuSet) -> Displaced {
    match tasks.get(task) {
        None => Displaced::Stuck,
        Some(entitled) if !entitled.lc => Displaced::NeedsNone,
        Some(entitled) => {
            let right = entitled.right_to_keep(cores.held(task));
            best_core(cores, tasks, task, right, taken).map_or(Displaced::Stuck, Displaced::To)
        }
    }
}

/// `GetRequestStartTime(C)`
fn request_start(view: &View, core: CpuId) -> Option<Nanos> {
    at(&view.cpus.request_start, core.index()).usable()
}

fn siblings(cores: &mut Cores, core: CpuId, act: fn(&mut Cores, CpuId)) {
    for index in 0..cores.siblings(core).len() {
        let sibling = cores.siblings(core)[index];
        act(cores, sibling);
    }
}
