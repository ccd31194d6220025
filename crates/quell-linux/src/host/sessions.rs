//! Idle-only work against other sessions. Autogroups compete as groups: SCHED_IDLE counts within a session alone. Where every process
//! of a session belongs to such a workload, the session's autogroup gets nice 19; elsewhere it is said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quell_model::{Nanos, ThreadState, WorkloadId};

use super::LinuxHost;
use crate::LinuxError;
use crate::members::Level;
use crate::procfs::Autogroup;
use crate::write::{Place, Session, Touched, Value, Write};

/// Interval of the looks at sessions.
const EVERY: Nanos = Nanos::from_secs(5);
/// Longest look; what was known before stands where it is cut off.
const LONGEST: Duration = Duration::from_millis(20);
/// Sessions with a nice value of Quell's: each is looked at again in each look.
const MOST: usize = 256;

/// How far idle-only counts, where that is not the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// Within sessions.
    Session,
    /// Within cgroups that have a cpu controller.
    Cgroup,
}

/// The sessions of idle-only workloads.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    next: Nanos,
    /// Those with a nice value of Quell's, and whose they are.
    ours: BTreeMap<i32, WorkloadId>,
    within: BTreeMap<WorkloadId, Within>,
}

/// A session with an idle-only workload.
struct Asked {
    /// Its idle-only workloads.
    workloads: BTreeSet<WorkloadId>,
    autogroup: Autogroup,
    /// Are there only idle-only workloads? None: not all of it is known.
    is_alone: Option<bool>,
}

/// Workloads for which something else than sessions counts, and the sessions by number.
type Found = (BTreeMap<WorkloadId, Within>, BTreeMap<i32, Asked>);

impl LinuxHost {
    /// How far an idle-only workload is idle-only; None: on the whole machine, or it is not idle-only.
    #[must_use]
    pub fn idle_within(&self, id: WorkloadId) -> Option<Within> {
        self.sessions.within.get(&id).copied()
    }

    /// At its interval: gives sessions of idle-only workloads their nice value, and takes it back from those that are none any
    /// more.
    pub(super) fn settle_sessions(&mut self, now: Nanos) {
        if now < self.sessions.next || self.suspended || self.members.options.dry_run {
            return;
        }
        let idle: Vec<WorkloadId> = self.members.workloads().map(|(id, _)| id).filter(|id| self.is_idle(*id)).collect();
        if idle.is_empty() && self.sessions.ours.is_empty() {
            self.sessions.within.clear();
            return;
        }
        self.sessions.next = now + EVERY;
        self.leave_sessions(|_, id| idle.binary_search(&id).is_err());
        if let Err(error) = self.look_at_sessions(&idle) {
            tracing::debug!(%error, "sessions could not be looked at");
        }
    }

    /// Restores the nice values of these sessions.
    fn leave_sessions(&mut self, which: impl Fn(i32, WorkloadId) -> bool) {
        let left: Vec<i32> = self
            .sessions
            .ours
            .iter()
            .filter(|(session, id)| which(**session, **id))
            .map(|(session, _)| *session)
            .collect();
        if left.is_empty() {
            return;
        }
        let is_left = |touched: &Touched| matches!(&touched.place, Place::Autogroup(of) if left.contains(&of.session));
        let touched = self.writes.ledger.latest_first_of(is_left);
        for left in self.put_places_back(touched).left {
            tracing::warn!("{left}");
        }
        self.sessions.ours.retain(|session, _| !left.contains(session));
    }

    /// What was put back is set again at the next look.
    pub(super) fn forget_sessions(&mut self, only: Option<WorkloadId>) {
        self.sessions.ours.retain(|_, id| only.is_some_and(|only| only != *id));
        self.sessions.within.retain(|id, _| only.is_some_and(|only| only != *id));
        self.sessions.next = Nanos::ZERO;
    }

    fn is_idle(&self, id: WorkloadId) -> bool {
        let on_threads = self.members.get(id).is_some_and(|member| member.level == Level::Threads);
        on_threads && self.standing.values.of(id).idle == Some(true)
    }

    fn look_at_sessions(&mut self, idle: &[WorkloadId]) -> Result<(), LinuxError> {
        let end = Instant::now() + LONGEST;
        let Some((mut within, mut asked)) = self.sessions_of(idle, end)? else {
            // Nothing is known of them: no more is claimed than holds in any case.
            let unknown = idle.iter().filter(|id| !self.sessions.ours.values().any(|ours| ours == *id));
            let unknown: Vec<WorkloadId> = unknown.copied().collect();
            unknown.into_iter().for_each(|id| _ = self.sessions.within.entry(id).or_insert(Within::Session));
            return Ok(());
        };
        self.leave_sessions(|session, _| !asked.contains_key(&session));
        if !asked.is_empty() {
            self.walk(idle, &mut asked, end)?;
        }
        for (session, asked) in asked {
            let is_ours = self.sessions.ours.contains_key(&session);
            let is_nice = match asked.is_alone {
                Some(true) => is_ours || self.make_nice(session, &asked),
                None => is_ours,
                Some(false) => {
                    self.leave_sessions(|other, _| other == session);
                    false
                }
            };
            if !is_nice {
                within.extend(asked.workloads.into_iter().map(|id| (id, Within::Session)));
            }
        }
        self.sessions.within = within;
        Ok(())
    }

    /// The sessions of these workloads; None: not all were read in time.
    fn sessions_of(&mut self, idle: &[WorkloadId], end: Instant) -> Result<Option<Found>, LinuxError> {
        let (mut within, mut asked) = Found::default();
        let members = &mut self.members;
        let has_autogroups = members.proc.has_autogroups();
        for thread in members.threads.iter().filter(|thread| thread.is_first() && !thread.is_dead()) {
            let id = thread.workload;
            if idle.binary_search(&id).is_err() {
                continue;
            }
            if Instant::now() > end {
                return Ok(None);
            }
            let Some(stat) = members.proc.stat(thread.pid, thread.pid)? else { continue };
            if members.proc.has_own_shares(thread.pid, &members.roots.cgroup)? {
                within.insert(id, Within::Cgroup);
                continue;
            }
            if !has_autogroups {
                continue;
            }
            if stat.session == 0 {
                // That of another pid namespace.
                within.insert(id, Within::Session);
            } else if let Some(known) = asked.get_mut(&stat.session) {
                known.workloads.insert(id);
            } else if let Some(autogroup) = members.proc.autogroup(thread.pid)? {
                asked.insert(stat.session, Asked { workloads: [id].into(), autogroup, is_alone: Some(true) });
            }
        }
        Ok(Some((within, asked)))
    }

    /// Looks for processes of other programs in these sessions.
    fn walk(&mut self, idle: &[WorkloadId], asked: &mut BTreeMap<i32, Asked>, end: Instant) -> Result<(), LinuxError> {
        let members = &mut self.members;
        let is_idle = |pid: i32| {
            let found = members.threads.binary_search_by_key(&pid, |thread| thread.id.tid);
            found.is_ok_and(|at| idle.binary_search(&members.threads[at].workload).is_ok())
        };
        let mut own = vec![std::process::id().cast_signed()];
        let mut pids = Vec::new();
        members.proc.pids(&mut pids)?;
        // `setsid quell exec …`: Quell's own processes are in the session, too.
        let parent = members.proc.stat(own[0], own[0])?.map_or(0, |stat| stat.parent);
        let is_ours = members.proc.exe(parent).is_some_and(|exe| members.proc.exe(own[0]) == Some(exe));
        own.extend(is_ours.then_some(parent));
        for pid in pids {
            if Instant::now() > end {
                let is_known = |session: &&mut Asked| session.is_alone == Some(true);
                asked.values_mut().filter(is_known).for_each(|session| session.is_alone = None);
                return Ok(());
            }
            let Some(stat) = members.proc.stat(pid, pid)? else { continue };
            let Some(session) = asked.get_mut(&stat.session) else { continue };
            // A child that was created since the scan is its parent's.
            let belongs = [pid, stat.parent].iter().any(|pid| is_idle(*pid));
            if !belongs && !own.contains(&pid) && stat.state != ThreadState::Dead {
                session.is_alone = Some(false);
            }
        }
        Ok(())
    }

    /// Gives a session's autogroup the nice value of idle work; false if the system refuses, or there are too many.
    fn make_nice(&mut self, session: i32, asked: &Asked) -> bool {
        let Some(&workload) = asked.workloads.first().filter(|_| self.sessions.ours.len() < MOST) else { return false };
        let place = Place::Autogroup(Session { session, autogroup: asked.autogroup.id });
        let before = Value::Text(asked.autogroup.nice.to_string());
        let origin = self.writes.ledger.origin(&place).unwrap_or(&before).clone();
        let write = Write { workload: Some(workload), place, origin, before, after: Value::Text("19".into()) };
        match self.make(&[write]) {
            Ok(()) => _ = self.sessions.ours.insert(session, workload),
            Err(error) => tracing::debug!(%error, session, "a session could not be made nice"),
        }
        self.sessions.ours.contains_key(&session)
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{
        Class, CpuCount, Host, Knob, KnobSetting, Plan, Selector, SignalSet, Target, Topology, View, Workload,
    };

    use super::*;
    use crate::HostOptions;
    use crate::testkit::FakeTree;

    /// A workload of process 10, in session 10, and a process 20 beside it.
    fn machine() -> FakeTree {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.write("proc/sys/kernel/sched_autogroup_enabled", "1");
        for pid in [10, 20] {
            tree.process(pid, 1, "work");
            tree.set_session(pid, pid);
            tree.write(format!("proc/{pid}/autogroup"), &format!("/autogroup-{pid} nice 0"));
            tree.write(format!("proc/{pid}/cgroup"), "5:cpu,cpuacct:/\n0::/");
        }
        tree
    }

    fn look(host: &mut LinuxHost) {
        host.sessions.next = Nanos::ZERO;
        host.members.full_look.at = None;
        let (mut view, mut events) = (View::new(host.topology()), Vec::new());
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
    }

    fn set(host: &mut LinuxHost, id: WorkloadId, knob: Knob) {
        let mut plan = Plan::default();
        plan.knobs.push(KnobSetting { target: Target::Workload(id), knob });
        host.apply(&plan, &mut Vec::new()).unwrap();
        look(host);
    }

    fn idle_host(tree: &FakeTree) -> (LinuxHost, WorkloadId) {
        let mut host = tree.host(HostOptions::default()).unwrap();
        let selectors = vec![Selector::Pid(10)];
        let id =
            host.attach(Workload { selectors, ..Workload::new("batch", Class::BestEffort, CpuCount::ZERO) }).unwrap();
        set(&mut host, id, Knob::IdleOnly(true));
        (host, id)
    }

    #[test]
    fn a_session_that_is_the_workloads_alone_is_nice_until_it_is_idle_only_no_more() {
        let tree = machine();
        let (mut host, id) = idle_host(&tree);
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 19");
        assert_eq!(host.idle_within(id), None);
        assert_eq!(tree.read("proc/20/autogroup"), "/autogroup-20 nice 0");
        set(&mut host, id, Knob::IdleOnly(false));
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 0", "given back");
        set(&mut host, id, Knob::IdleOnly(true));
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 19");
        tree.write("proc/10/autogroup", "/autogroup-10 nice 3");
        let report = host.restore();
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 3", "another program's value stays");
        assert_eq!(report.left.len(), 1, "{report:?}");
    }

    #[test]
    fn a_session_to_which_another_program_comes_or_that_a_member_leaves_is_given_back() {
        let tree = machine();
        let (mut host, id) = idle_host(&tree);
        tree.set_session(20, 10);
        look(&mut host);
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 0", "another program came");
        assert_eq!(host.idle_within(id), Some(Within::Session));
        tree.set_session(20, 20);
        look(&mut host);
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 19");
        // The member has a session of its own now, another process leads the old one.
        tree.set_session(20, 10);
        tree.set_session(10, 30);
        tree.write("proc/10/autogroup", "/autogroup-30 nice 0");
        tree.write("proc/20/autogroup", "/autogroup-10 nice 19");
        look(&mut host);
        assert_eq!(tree.read("proc/20/autogroup"), "/autogroup-10 nice 0", "the member left it");
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-30 nice 19");
    }

    #[test]
    fn two_idle_only_workloads_have_a_session_together() {
        let tree = machine();
        tree.set_session(20, 10);
        let (mut host, first) = idle_host(&tree);
        assert_eq!(host.idle_within(first), Some(Within::Session));
        let selectors = vec![Selector::Pid(20)];
        let other = Workload { selectors, ..Workload::new("other", Class::BestEffort, CpuCount::ZERO) };
        let second = host.attach(other).unwrap();
        set(&mut host, second, Knob::IdleOnly(true));
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 19");
        assert_eq!([first, second].map(|id| host.idle_within(id)), [None; 2]);
        host.detach(first).unwrap();
        look(&mut host);
        assert_eq!(host.idle_within(second), Some(Within::Session), "what is in no workload is another program");
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 0");
    }

    #[test]
    fn a_session_with_another_program_in_it_is_left_and_said() {
        let tree = machine();
        tree.set_session(20, 10);
        let (mut host, id) = idle_host(&tree);
        assert_eq!(tree.read("proc/10/autogroup"), "/autogroup-10 nice 0");
        assert_eq!(host.idle_within(id), Some(Within::Session));
        tree.write("proc/sys/kernel/sched_autogroup_enabled", "0");
        look(&mut host);
        assert_eq!(host.idle_within(id), None, "no autogroups, no difference");
        tree.write("proc/10/cgroup", "5:cpu,cpuacct:/batch\n0::/");
        look(&mut host);
        assert_eq!(host.idle_within(id), Some(Within::Cgroup));
    }
}
