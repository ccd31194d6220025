//! Membership: a configured workload is attached when it appears, and restored when it is gone.

use std::collections::BTreeMap;
use std::path::Path;

use quell_linux::write::Conflict;
use quell_linux::{Departure, LinuxHost};
use quell_model::{Nanos, Selector, ThreadId, Workload, WorkloadId, amount, foreign};
use quell_thread::clock::{cpu_time, now as clock_now};

use super::departed::{Abandoned, Departed};
use super::rivals::{self, Rivals, Verdict};
use crate::config::Config;
use crate::watch::{Entry, LEFT_SO, Overridden, Roster, Standing};
use crate::wire::Remark;

/// Interval of looking for workloads that do not exist yet.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// And no more often than that it takes one in this many of a CPU's time: an ordinary user can start thousands of processes.
const LOOKS_SHARE: u64 = 50;

/// A look goes on to no further workload once it took this long: those that are attached have their settings first, and the next
/// turn goes on with the rest.
const LONGEST_LOOK: Nanos = Nanos::from_millis(500);

/// One workload of the configuration.
#[derive(Clone, Debug)]
struct Member {
    workload: Workload,
    id: Option<WorkloadId>,
    /// Quell leaves the workload to another program until then.
    paused_until: Nanos,
    /// Another Quell has this thread of it: it is not attached as long as that is so.
    anothers: Option<ThreadId>,
    /// Last reason for its not being attached.
    said: Option<String>,
    standing: Standing,
    since: Nanos,
    /// The latest processes that left it and run on.
    left: Vec<Departure>,
    /// Of those: which left in the time of another worker, when none of its own was there any more.
    earlier: Vec<Departure>,
    /// Its processes by number, as they were when it was attached last: another one with such a number is not its.
    numbered: Vec<ThreadId>,
    overridden: Option<Overridden>,
    remarks: Vec<Remark>,
}

/// The workloads of the configuration, and which of them are attached.
#[derive(Debug, Default)]
pub struct Membership {
    members: BTreeMap<String, Member>,
    look_at: Nanos,
    rivals: Rivals,
    /// Workloads came whose threads have not been counted yet.
    uncounted: bool,
    /// The first workload that the last look left to the next one.
    left: Option<String>,
    /// Did anything change since the roster was last taken?
    news: bool,
    departed: Departed,
}

/// Changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed(pub bool);

impl Membership {
    /// One that knows which workloads all processes left before.
    #[must_use]
    pub fn after(departed: Departed) -> Membership {
        Membership { departed, ..Membership::default() }
    }

    /// A person stopped the agent: the next one begins without what this one knows.
    pub fn forget_departed(&mut self) {
        self.departed.forget();
    }

    /// The numbers of the attached workloads, in the order of the configuration.
    #[must_use]
    pub fn ids(&self, config: &Config) -> Vec<Option<WorkloadId>> {
        let id = |name: &str| self.members.get(name).and_then(|member| member.id);
        config.workloads.iter().map(|member| id(&member.workload.name)).collect()
    }

    /// Does Quell leave this workload alone for a while, because another program keeps overwriting its settings?
    #[must_use]
    pub fn gives_way(&self, name: &str, now: Nanos) -> bool {
        self.members.get(name).is_some_and(|member| member.id.is_none() && member.paused_until > now)
    }

    /// Where a workload stands, and the last reason for its not being attached; None: it has not been scanned yet.
    #[must_use]
    pub fn standing(&self, name: &str) -> Option<(Option<WorkloadId>, Option<&str>)> {
        let member = self.members.get(name)?;
        let is_known = member.id.is_some() || member.said.is_some();
        is_known.then_some((member.id, member.said.as_deref()))
    }

    /// States of the configured workloads, if one changed since the last call.
    pub fn news(&mut self, config: &Config) -> Option<Roster> {
        if !std::mem::take(&mut self.news) {
            return None;
        }
        let abandoned = self.members.iter().filter(|(_, member)| member.standing == Standing::Left);
        let kept = |member: &Member| Abandoned { since: member.since, left: member.left.clone() };
        self.departed.keep(abandoned.map(|(name, member)| (name.clone(), kept(member))).collect());
        let members = config
            .workloads
            .iter()
            .filter_map(|configured| Some((self.members.get(&configured.workload.name)?, configured)));
        let entry = |(member, configured): (&Member, &crate::config::Member)| Entry {
            leased_by: configured.leased_by.clone(),
            latency: configured.latency.clone(),
            workload: member.workload.clone(),
            standing: member.standing,
            since: member.since,
            why: member.said.clone(),
            left: member.left.clone(),
            overridden: member.overridden.clone().filter(|_| member.id.is_some()),
            remarks: member.remarks.clone(),
        };
        Some(members.map(entry).collect())
    }

    /// Adopts a configuration: workloads that it no longer names are restored and detached, changed ones get a new
    /// description and keep their settings, new ones are attached at the next scan.
    pub fn configure(&mut self, config: &Config, host: &mut LinuxHost, now: Nanos) -> Changed {
        let mut changed = Changed::default();
        self.news = true;
        let gone: Vec<String> = self.members.keys().filter(|name| config.workload(name).is_none()).cloned().collect();
        for name in gone {
            let Some(member) = self.members.remove(&name) else { continue };
            tracing::info!(workload = %name, "is no longer in the configuration");
            changed.0 |= detach(member.id, &name, host);
        }
        for workload in config.workloads.iter().map(|member| &member.workload) {
            match self.members.get_mut(&workload.name) {
                Some(member) if member.workload == *workload => {}
                Some(member) => {
                    tracing::info!(workload = %workload.name, "its definition has changed");
                    changed.0 |= member.describe(workload, host, now);
                }
                None => {
                    let mut member = Member::new(workload, now);
                    if let Some(before) = self.departed.take(&workload.name) {
                        member.was_abandoned(before, host, now);
                    }
                    self.members.insert(workload.name.clone(), member);
                }
            }
        }
        self.look_at = Nanos::ZERO;
        changed
    }

    /// Did the last look leave workloads to the next one, which is due at once?
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.left.is_some()
    }

    /// Attaches workloads that appeared and detaches those that ended; once a second. `step` is called after each of them. A look
    /// that takes too long leaves the rest to the next one.
    pub fn look(&mut self, host: &mut LinuxHost, now: Nanos, step: &dyn Fn()) -> Changed {
        let mut changed = Changed::default();
        if now < self.look_at {
            return changed;
        }
        let (began, began_at) = (cpu_time(), clock_now());
        let first = self.left.take();
        host.begin_look();
        for (name, member) in &mut self.members {
            self.news |= member.look_after_the_departed(host);
            if first.as_ref().is_some_and(|first| name < first) {
                continue;
            }
            if clock_now() - began_at > LONGEST_LOOK {
                self.left = Some(name.clone());
                break;
            }
            match member.id {
                Some(id) if member.has_ended(host, id) => {
                    self.news |= member.stands(Standing::Gone, now);
                    changed.0 |= detach(member.id.take(), name, host);
                }
                Some(id) if host.has_other_cgroups(id) => {
                    tracing::info!(workload = %name, "its selectors now match other cgroups");
                    if let Err(error) = host.update(id, member.workload.clone()) {
                        tracing::warn!(workload = %name, "cannot follow them: {error}");
                    }
                    changed.0 = true;
                }
                Some(id) => self.news |= member.count(host.thread_count(id), now),
                None if member.anothers.is_some_and(|thread| host.is_anothers(thread)) => {}
                None if now >= member.paused_until => {
                    member.anothers = None;
                    let came = member.attach(name, host);
                    changed.0 |= came.0;
                    self.uncounted |= came.0;
                    self.news |= came.0 || member.stands(came.1, now);
                }
                None => {}
            }
            step();
        }
        host.end_look();
        self.look_at = match self.left {
            Some(_) => now,
            None => now + LOOK_EVERY.max(Nanos((cpu_time() - began).0 * LOOKS_SHARE)),
        };
        changed
    }

    /// Must be called after the host has observed: counts the threads of the workloads just attached.
    pub fn count(&mut self, host: &mut LinuxHost, now: Nanos) {
        if !std::mem::take(&mut self.uncounted) {
            return;
        }
        for member in self.members.values_mut() {
            if let Some(id) = member.id {
                self.news |= member.count(host.thread_count(id), now);
            }
        }
    }

    /// Another Quell has a thread of this workload: it is refused, and looked at again when that has let the thread go.
    pub fn refuse(&mut self, conflict: Conflict, host: &mut LinuxHost, now: Nanos) -> Changed {
        let found = self.members.iter_mut().find(|(_, member)| member.id == Some(conflict.workload));
        let Some((name, member)) = found else { return Changed(false) };
        detach(member.id.take(), name, host);
        let why = format!("thread {}: {}", conflict.thread.tid, conflict.by);
        if member.said.as_ref() != Some(&why) {
            tracing::warn!(workload = %name, "refused: {why}");
        }
        (member.anothers, member.said) = (Some(conflict.thread), Some(why));
        self.news |= member.stands(Standing::Refused, now);
        Changed(true)
    }

    /// Takes in what other programs changed of the attached workloads, by their numbers; logs once where that begins.
    pub fn overridden(&mut self, mut found: BTreeMap<WorkloadId, Overridden>, now: Nanos) {
        for (name, member) in &mut self.members {
            let mut overridden = member.id.and_then(|id| found.remove(&id));
            match (&mut overridden, &member.overridden) {
                (Some(now), Some(before)) => now.since = before.since,
                (Some(now), None) => tracing::warn!(
                    workload = %name,
                    "overridden by another process ({} of {} threads): {}; {LEFT_SO}",
                    now.threads, now.of, now.lines().join(", ")
                ),
                (None, Some(before)) if member.id.is_some() => {
                    tracing::info!(workload = %name, "what was overridden for {} is in force again", now - before.since);
                }
                (None, _) => {}
            }
            self.news |= overridden != member.overridden;
            member.overridden = overridden;
        }
    }

    /// Everything was put back: nothing is overridden.
    pub fn forget_overridden(&mut self) {
        self.members.values_mut().for_each(|member| member.overridden = None);
        self.news = true;
    }

    /// The workloads that are there and not managed, one line each.
    pub fn troubles(&self) -> Vec<String> {
        let is_troubled = |member: &&Member| matches!(member.standing, Standing::LeftAlone | Standing::Refused);
        let line = |member: &Member| {
            let why = member.said.as_deref().unwrap_or("it is backed off");
            format!("{}: nothing is set: {why}", member.workload.name)
        };
        self.members.values().filter(is_troubled).map(line).collect()
    }

    /// Sets the facts about the attached workloads.
    pub fn remark(&mut self, mut remarks: impl FnMut(WorkloadId, &Workload) -> Vec<Remark>) {
        for member in self.members.values_mut() {
            let found = member.id.map_or_else(Vec::new, |id| remarks(id, &member.workload));
            self.news |= found != member.remarks;
            member.remarks = found;
        }
    }

    /// Lets all workloads go; those that are there are attached again at the next scan.
    pub fn detach_all(&mut self, host: &mut LinuxHost) {
        for (name, member) in &mut self.members {
            detach(member.id.take(), name, host);
            (member.paused_until, member.overridden) = (Nanos::ZERO, None);
        }
        self.look_at = Nanos::ZERO;
        self.news = true;
    }

    /// Another program overwrote a file that Quell had set for this workload.
    pub fn overwritten(
        &mut self,
        id: WorkloadId,
        path: &Path,
        found: &str,
        host: &mut LinuxHost,
        now: Nanos,
    ) -> Changed {
        let Some((name, member)) = self.members.iter_mut().find(|(_, member)| member.id == Some(id)) else {
            return Changed(false);
        };
        // Its settings are restored as far as they are still in place, and set anew when it is attached again.
        detach(member.id.take(), name, host);
        self.look_at = Nanos::ZERO;
        match self.rivals.overwrote(path, now) {
            Verdict::SetAgain => {
                tracing::info!(workload = %name, file = %foreign::path(path), found, "changed by another process: setting it again");
            }
            Verdict::GiveWay(until) => {
                member.paused_until = until;
                member.said =
                    Some(format!("another process keeps changing {}; {}", foreign::path(path), rivals::fix(path)));
                self.news |= member.stands(Standing::LeftAlone, now);
                tracing::warn!(
                    workload = %name, file = %foreign::path(path), found,
                    "another process keeps changing it: Quell backs off from this workload for {}; {}",
                    until - now, rivals::fix(path)
                );
            }
        }
        self.rivals.forget_old(now);
        Changed(true)
    }
}

impl Member {
    fn new(workload: &Workload, now: Nanos) -> Member {
        let (paused_until, standing) = (Nanos::ZERO, Standing::Waiting);
        let (anothers, left, earlier, numbered) = (None, Vec::new(), Vec::new(), Vec::new());
        let (id, said, overridden, remarks) = (None, None, None, Vec::new());
        let workload = workload.clone();
        let since = now;
        Member {
            workload,
            id,
            paused_until,
            anothers,
            said,
            standing,
            since,
            left,
            earlier,
            numbered,
            overridden,
            remarks,
        }
    }

    /// Another worker found that all its processes left it.
    fn was_abandoned(&mut self, before: Abandoned, host: &mut LinuxHost, now: Nanos) {
        self.earlier = before.left;
        self.earlier.retain(|departure| host.runs_on(departure));
        if !self.earlier.is_empty() {
            // The file may be of an earlier boot, with another clock.
            (self.standing, self.since) = (Standing::Left, before.since.min(now));
            self.left = self.earlier.clone();
        }
    }

    /// Sets its state. Returns true, and logs it, if it changed.
    fn stands(&mut self, standing: Standing, now: Nanos) -> bool {
        if self.standing == standing {
            return false;
        }
        let name = &self.workload.name;
        match standing {
            Standing::Gone => tracing::info!(workload = %name, "exited: all its processes have ended"),
            Standing::Left => tracing::info!(workload = %name, "all its processes have left it and still run"),
            _ => {}
        }
        (self.standing, self.since) = (standing, now);
        true
    }

    /// It is attached and has this many threads.
    fn count(&mut self, threads: usize, now: Nanos) -> bool {
        let standing = match (threads, self.standing) {
            (0, Standing::Attached | Standing::Gone | Standing::Left) if self.left.is_empty() => Standing::Gone,
            (0, Standing::Attached | Standing::Gone | Standing::Left) => Standing::Left,
            (0, _) => Standing::Waiting,
            _ => Standing::Attached,
        };
        if threads > 0 {
            self.earlier.clear();
        }
        if threads > 0 && standing != self.standing {
            tracing::info!(workload = %self.workload.name, "attached ({})", amount(threads, "thread", "threads"));
        }
        self.stands(standing, now)
    }

    /// Takes note of the processes that left it. Returns true if they are others now, and logs reasons that are new.
    fn look_after_the_departed(&mut self, host: &mut LinuxHost) -> bool {
        if self.id.is_none() && self.earlier.is_empty() {
            return false;
        }
        self.earlier.retain(|departure| host.runs_on(departure));
        let own = self.id.map_or(&[][..], |id| host.departures(id));
        if self.left.len() == self.earlier.len() + own.len() && self.left.iter().eq(self.earlier.iter().chain(own)) {
            return false;
        }
        let now: Vec<Departure> = self.earlier.iter().chain(own).cloned().collect();
        for departure in now.iter().filter(|now| !self.left.iter().any(|known| known.why == now.why)) {
            let Departure { pid, why, .. } = departure;
            tracing::info!(workload = %self.workload.name, pid, "a process left it and still runs: {why}");
        }
        self.left = now;
        true
    }

    /// Returns true if it was attached, else also its state then.
    fn attach(&mut self, name: &str, host: &mut LinuxHost) -> (bool, Standing) {
        if self.numbered.iter().any(|known| host.process(known.tid).is_some_and(|now| now != *known)) {
            // Its numbers are other processes' now.
            return (false, Standing::Gone);
        }
        match host.attach(self.workload.clone()) {
            Ok(id) => {
                self.id = Some(id);
                self.numbered = host.numbered(id);
                self.said = None;
                (true, Standing::Attached)
            }
            Err(error) => {
                let text = error.to_string();
                let absent = error.is_absence();
                if self.said.as_ref() != Some(&text) {
                    match (absent, self.standing) {
                        (true, Standing::Gone) => {}
                        (true, _) => tracing::info!("waiting: {text}"),
                        (false, _) => tracing::warn!(workload = %name, "cannot attach it: {text}"),
                    }
                    self.said = Some(text);
                }
                let standing = match (absent, self.standing) {
                    (false, _) => Standing::Refused,
                    (true, Standing::Left) if !self.earlier.is_empty() => Standing::Left,
                    (true, Standing::Attached | Standing::Gone | Standing::Left) => Standing::Gone,
                    (true, _) => Standing::Waiting,
                };
                (false, standing)
            }
        }
    }

    /// Describes the workload anew; a workload of another class is a new one.
    fn describe(&mut self, workload: &Workload, host: &mut LinuxHost, now: Nanos) -> bool {
        let same_class = self.workload.class == workload.class;
        if self.workload.selectors != workload.selectors {
            self.numbered.clear();
        }
        self.workload = workload.clone();
        self.paused_until = Nanos::ZERO;
        let Some(id) = self.id else { return false };
        if same_class && host.update(id, workload.clone()).is_ok() {
            return false;
        }
        detach(self.id.take(), &workload.name, host);
        self.stands(Standing::Waiting, now);
        true
    }

    /// A workload of process numbers alone ends with its processes; others may come back.
    fn has_ended(&self, host: &LinuxHost, id: WorkloadId) -> bool {
        let by_number = self.workload.selectors.iter().all(|selector| matches!(selector, Selector::Pid(_)));
        let is_there = |known: &ThreadId| host.process(known.tid) == Some(*known);
        by_number && host.thread_count(id) == 0 && !host.numbered(id).iter().any(is_there)
    }
}

fn detach(id: Option<WorkloadId>, name: &str, host: &mut LinuxHost) -> bool {
    let Some(id) = id else { return false };
    match host.detach(id) {
        Ok(report) => report.left.iter().for_each(|left| tracing::warn!(workload = %name, "{left}")),
        Err(error) => tracing::warn!(workload = %name, "{error}"),
    }
    true
}
