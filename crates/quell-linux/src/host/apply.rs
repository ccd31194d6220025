//! Carries plans out.

use quell_model::{
    CpuSet, Event, Host, Knob, KnobSetting, Outcome, Part, Plan, PreemptionMode, RuleKind, Target, ThreadId, Verdict,
    WorkloadId,
};

use super::LinuxHost;
use crate::LinuxError;
use crate::actuators::{self, Aim, Draft};
use crate::members::Members;
use crate::write::Write;
use crate::{clock, sysfs};

/// Looks for new threads after a control group was set up.
const GROUP_LOOKS: u32 = 8;

impl LinuxHost {
    /// Every command by the part of the host that it is for: rules and grants by the scheduler, which may be in a hurry,
    /// knobs by the actuators, samples by the sensors. One outcome each.
    pub(super) fn carry_out(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        self.hand_out(plan, events)?;
        let mut report = |part, verdict| events.push(Event::Outcome(Outcome { plan: plan.number, part, verdict }));
        for (at, request) in plan.samples.iter().enumerate() {
            report(Part::Sample(at as u32), self.sensors.ask(request));
        }
        for (at, request) in plan.leases.iter().enumerate() {
            self.look_first()?;
            report(Part::Lease(at as u32), self.lease(request, clock::now()));
        }
        self.take_samples();
        events.append(&mut self.pending);
        Ok(())
    }

    /// Carries out rules, grants and knobs: rules and knobs all or none, with the settings that rules need, and no grants if a
    /// setting that they need is refused.
    fn hand_out(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), LinuxError> {
        // A scan gives threads their servers: it comes before those of this plan, which has its own transaction.
        if plan.rules.iter().any(|rule| rule.kind() == RuleKind::Server) {
            self.look_first()?;
        }
        let first = events.len();
        let mut settings = std::mem::take(&mut self.buffers.settings);
        settings.clear();
        self.scheduler.carry_out(plan, &mut settings, events)?;
        let mut sunk = self.refused_rule(plan, &events[first..]);
        if let Some(why) = &sunk {
            self.take_rules_back(plan, &mut events[first..], why)?;
        }
        if self.scheduler.wants_threads() {
            self.look_first()?;
            self.meet(&mut settings);
        }
        let of_scheduler = settings.len();
        if sunk.is_none() {
            settings.extend_from_slice(&plan.knobs);
        }
        let mut verdict = Verdict::Vanished;
        if !settings.is_empty() {
            self.look_first()?;
            let made = self.set_or_leave(&settings)?;
            let is_refused = matches!(made, Verdict::Refused(_));
            if of_scheduler > 0 {
                self.scheduler.settled(!is_refused);
            }
            for event in events[first..].iter_mut().filter(|_| is_refused && of_scheduler > 0) {
                if let Event::Outcome(Outcome { part: Part::Grant(_), verdict: done @ Verdict::Applied(_), .. }) = event
                {
                    *done = made.clone();
                }
            }
            if is_refused && sunk.is_none() {
                self.take_rules_back(plan, &mut events[first..], &made)?;
                sunk = Some(made.clone());
            }
            verdict = made;
        }
        match sunk {
            Some(why) => verdict = why,
            None => plan.rules.iter().for_each(|rule| self.rules.note(*rule)),
        }
        if !plan.knobs.is_empty() {
            events.push(Event::Outcome(Outcome { plan: plan.number, part: Part::Knobs, verdict }));
        }
        self.buffers.settings = settings;
        Ok(())
    }

    /// The first refusal of a rule that this host has; what it declared impossible is no part of a plan.
    fn refused_rule(&self, plan: &Plan, outcomes: &[Event]) -> Option<Verdict> {
        let refused = |event: &Event| match event {
            Event::Outcome(Outcome { part: Part::Rule(at), verdict: verdict @ Verdict::Refused(_), .. }) => {
                Some((plan.rules.get(*at as usize)?.kind(), verdict.clone()))
            }
            _ => None,
        };
        let mut refused = outcomes.iter().filter_map(refused).peekable();
        refused.peek()?;
        let impossible = self.capabilities().impossible().rules;
        refused.find(|(kind, _)| !impossible.contains(kind)).map(|(_, verdict)| verdict)
    }

    /// Takes back the rules of a plan that was refused in part.
    fn take_rules_back(&mut self, plan: &Plan, outcomes: &mut [Event], why: &Verdict) -> Result<(), LinuxError> {
        let rules = self.rules.back(plan, outcomes);
        for event in outcomes.iter_mut() {
            if let Event::Outcome(Outcome { part: Part::Rule(_), verdict, .. }) = event
                && matches!(verdict, Verdict::Applied(_) | Verdict::Pending(_))
            {
                *verdict = why.clone();
            }
        }
        if rules.is_empty() {
            return Ok(());
        }
        let back = Plan { number: plan.number, rules, ..Plan::default() };
        self.scheduler.carry_out(&back, &mut Vec::new(), &mut Vec::new())
    }

    /// The scheduler meets the threads of its workloads. Those that it lets go have their class back.
    fn meet(&mut self, settings: &mut Vec<KnobSetting>) {
        let threads = &self.members.threads;
        let threads_of = |id: WorkloadId| {
            let own = threads.iter().filter(|thread| thread.workload == id && !thread.is_dead());
            let mut own: Vec<ThreadId> = own.map(|thread| thread.id).collect();
            own.sort_unstable_by_key(|thread| (thread.start, thread.tid));
            own
        };
        let freed = self.scheduler.meet(&threads_of, settings);
        let mut dirty: Vec<WorkloadId> =
            freed.into_iter().filter_map(|thread| self.standing.values.release_class(thread)).collect();
        dirty.dedup();
        if !dirty.is_empty() {
            self.reapply(&dirty, &[]);
        }
    }

    /// After a scan: a new thread may inherit the place of one that ended.
    pub(super) fn meet_again(&mut self) {
        const WHAT: &str = "a new thread could not be assigned its workload's server";
        let now = clock::now();
        if !self.scheduler.wants_threads() {
            return self.serverless.over(WHAT);
        }
        if !self.serverless.is_due(now) {
            return;
        }
        let mut settings = Vec::new();
        self.meet(&mut settings);
        if settings.is_empty() {
            return self.serverless.over(WHAT);
        }
        let verdict = self.set_knobs(&settings);
        let refused = matches!(verdict, Verdict::Refused(_));
        self.scheduler.settled(!refused);
        match verdict {
            Verdict::Refused(why) => self.serverless.refused(WHAT, &why, now),
            _ => self.serverless.over(WHAT),
        }
    }

    /// Settings on threads are made on the present ones, so these are scanned first.
    fn look_first(&mut self) -> Result<(), LinuxError> {
        match self.members.full_look.at {
            None => self.scan(clock::now()),
            Some(_) => Ok(()),
        }
    }

    /// All settings, or none: those that the scheduler keeps itself after the others.
    fn set_or_leave(&mut self, settings: &[KnobSetting]) -> Result<Verdict, LinuxError> {
        let (scheduler, members) = (&self.scheduler, &self.members);
        let is_kept = |setting: &&KnobSetting| match setting.target {
            Target::Thread(id) => {
                members.thread(id.tid).is_some_and(|thread| scheduler.keeps(&setting.knob, thread.workload))
            }
            _ => false,
        };
        if !settings.iter().any(|setting| is_kept(&setting)) {
            return Ok(self.set_knobs(settings));
        }
        let (kept, others): (Vec<&KnobSetting>, Vec<&KnobSetting>) = settings.iter().partition(is_kept);
        let kept: Vec<KnobSetting> = kept.into_iter().copied().collect();
        let others: Vec<KnobSetting> = others.into_iter().copied().collect();
        let verdict = if others.is_empty() { Verdict::Vanished } else { self.set_knobs(&others) };
        if let Verdict::Refused(_) = verdict {
            return Ok(verdict);
        }
        self.scheduler.set(&kept)?;
        Ok(Verdict::Applied(clock::now()))
    }

    /// All settings, or none. A target that is gone is left out.
    fn set_knobs(&mut self, settings: &[KnobSetting]) -> Verdict {
        let before = self.standing.values.clone();
        let verdict = self.try_knobs(settings).unwrap_or_else(|error| Verdict::Refused(error.into()));
        if !matches!(verdict, Verdict::Applied(_)) {
            self.standing.values = before;
        }
        verdict
    }

    fn try_knobs(&mut self, settings: &[KnobSetting]) -> Result<Verdict, LinuxError> {
        let mut dirty = Vec::new();
        let mut preemption = None;
        let (mut frequencies, mut groups) = (false, false);
        let mut found = 0;
        for setting in settings {
            found += usize::from(self.standing.values.take(setting, &self.members, &mut dirty)?);
            if let (Target::Machine, Knob::Preemption(mode)) = (setting.target, setting.knob) {
                preemption = Some(mode);
            }
            frequencies |= matches!(setting.knob, Knob::MaxFrequencyKhz(_) | Knob::GpuFrequencyKhz(_));
            groups |= matches!(setting.knob, Knob::CacheWays(_) | Knob::WaysOfLlc(_) | Knob::Throttle(_));
        }
        if found == 0 {
            return Ok(Verdict::Vanished);
        }
        if groups {
            actuators::check_groups(settings, &self.members)?;
        }
        if frequencies {
            actuators::check_frequencies(&self.standing.values.khz, &self.members)?;
        }
        dirty.sort_unstable();
        dirty.dedup();
        let writes = self.compile(&dirty, preemption, frequencies)?;
        self.make(&writes)?;
        if groups {
            self.settle_groups()?;
        }
        Ok(Verdict::Applied(clock::now()))
    }

    /// The writes that make these workloads' values true.
    pub(super) fn compile(
        &mut self,
        dirty: &[WorkloadId],
        preemption: Option<PreemptionMode>,
        frequencies: bool,
    ) -> Result<Vec<Write>, LinuxError> {
        let (members, standing) = (&self.members, &self.standing);
        let workloads = dirty.iter().filter_map(|&id| standing.subject(id, members)).collect();
        let limits = frequencies.then(|| standing.frequencies());
        let aim = Aim {
            workloads,
            threads: &members.threads,
            overrides: &standing.values.overrides,
            preemption,
            frequencies: limits.as_ref(),
            gpu_khz: standing.gpu_khz().filter(|_| frequencies),
            everyone: standing.everyone(members),
        };
        let mut draft = Draft::new(&mut self.writes, members);
        actuators::write(&aim, &mut draft)?;
        Ok(draft.finish())
    }

    /// CPUs came back: caches that had none have lost their lines, and frequencies could not be limited meanwhile. A CPU that
    /// shares its frequency has the limit of the others.
    pub(super) fn hardware_returned(&mut self, returned: CpuSet) {
        let with_group: Vec<WorkloadId> = self.members.workloads().map(|(id, _)| id).collect();
        let with_group: Vec<_> = with_group.into_iter().filter(|&id| self.standing.values.of(id).has_group()).collect();
        self.reapply(&with_group, &[]);
        let Members { roots, online, .. } = &self.members;
        for domain in sysfs::frequency_domains(&roots.sys, online).unwrap_or_default() {
            let cpus = domain.control.cpus;
            let before = cpus.difference(&returned);
            let leader = if before.is_empty() { cpus.lowest() } else { before.lowest() };
            let khz = leader.and_then(|cpu| self.standing.values.khz.get(&cpu).copied());
            for cpu in cpus.intersection(&returned).iter() {
                match khz {
                    Some(khz) => _ = self.standing.values.khz.insert(cpu, khz),
                    None => _ = self.standing.values.khz.remove(&cpu),
                }
            }
        }
        self.settle_frequencies();
    }

    /// Sets frequencies as they should be now.
    pub(super) fn settle_frequencies(&mut self) {
        let result = self.compile(&[], None, true).and_then(|writes| self.make(&writes));
        if let Err(error) = &result
            && !self.due.frequencies
        {
            tracing::warn!(%error, "frequencies could not be limited");
        }
        self.due.frequencies = result.is_err();
    }

    /// Threads that were created while others were moved into their group are found until a look finds none: a thread
    /// inherits its creator's group, so that only those of before are left.
    fn settle_groups(&mut self) -> Result<(), LinuxError> {
        for _ in 0..GROUP_LOOKS {
            let before = self.members.threads.len();
            let newest = self.members.threads.iter().map(|thread| thread.id.start).max();
            self.members.full_look.at = None;
            self.scan(clock::now())?;
            if self.members.threads.iter().map(|thread| thread.id.start).max() == newest
                && self.members.threads.len() <= before
            {
                break;
            }
        }
        self.members.controls_changed();
        Ok(())
    }

    /// Makes writes, all or none, and remembers them.
    pub(super) fn make(&mut self, writes: &[Write]) -> Result<(), LinuxError> {
        if self.suspended {
            return Ok(());
        }
        for write in self.writes.make(writes)? {
            if let Some(Ok(member)) = write.workload.map(|id| self.members.get_mut(id)) {
                member.history.note(write);
            }
        }
        Ok(())
    }

    /// Sets standing values again where threads or cgroups are new, each workload for itself. A refused one is tried
    /// again at each scan, and logged the first time.
    pub(super) fn reapply(&mut self, dirty: &[WorkloadId], refused_before: &[WorkloadId]) {
        for id in dirty {
            self.settle_limit(*id);
            let result = self.compile(&[*id], None, false).and_then(|mut writes| {
                // A class that another program changed is not fought over.
                let ledger = &self.writes.ledger;
                writes.retain(|write| !ledger.is_overridden(write));
                self.make(&writes)
            });
            if let Err(error) = result {
                if !refused_before.contains(id) {
                    tracing::warn!(workload = id.0, %error, "a workload's values could not be set again");
                }
                self.due.workloads.push(*id);
            }
        }
    }
}
