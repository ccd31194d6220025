//! Moving the clock from one happening to the next.

use quell_model::{Event, Nanos, Sample, SoloEnd, WorkloadId};

use crate::ToyHost;
use crate::memory::{Demand, contend};
use crate::shared::TICK;

impl ToyHost {
    /// Works out how fast everything runs in the stretch of time that begins.
    pub(crate) fn prepare(&mut self) {
        self.place_threads();
        self.feel_contention();
        self.set_speeds();
    }

    /// Moves the clock to this time, through whatever happens before it.
    pub(crate) fn advance(&mut self, until: Nanos) {
        let span = until - self.now;
        self.run_granted(span);
        self.run_threads(span);
        self.count_memory(span);
        self.now = until;
        self.complete();
        for slot in 0..self.members.len() {
            let id = WorkloadId(slot as u32);
            while let Some(at) = self.members[slot].as_ref().and_then(|member| member.next_arrival)
                && at <= self.now
            {
                self.arrive(id, at);
                if let Some(member) = self.members[slot].as_mut() {
                    member.schedule_arrival(at);
                }
            }
        }
        self.settle();
    }

    /// What was under way and is over now.
    fn settle(&mut self) {
        let now = self.now;
        let due = |at: Nanos| at <= now;
        while let Some(at) = self.granting.iter().position(|&(at, ..)| due(at)) {
            let (_, cpu, to) = self.granting.remove(at);
            if self.grant_fault(cpu, to).is_none() {
                self.hand(cpu, to);
            }
        }
        while let Some(at) = self.sampling.iter().position(|&(at, _)| due(at)) {
            let (_, cpus) = self.sampling.remove(at);
            for cpu in cpus.intersection(&self.online).iter() {
                self.sampled[cpu.index()] = Sample::exact(self.cpus[cpu.index()].misses as u64, now);
            }
            self.happened.push(Event::SamplesReady);
        }
        if self.leases.ends_at().is_some_and(due) {
            self.end_lease(SoloEnd::Elapsed);
        }
    }

    /// When something happens next.
    pub(crate) fn next_happening(&self) -> Nanos {
        let members = self.members.iter().flatten();
        let arrivals = members.clone().filter_map(|member| member.next_arrival);
        let tick = members.clone().any(|member| !member.threads.is_empty()).then_some(self.now + TICK);
        let under_way = self.sampling.iter().map(|&(at, _)| at).chain(self.granting.iter().map(|&(at, ..)| at));
        arrivals
            .chain(self.next_completion())
            .chain(under_way)
            .chain(self.leases.ends_at())
            .chain(tick)
            .min()
            .unwrap_or(Nanos::MAX)
    }

    fn feel_contention(&mut self) {
        let mut running = self.shares.clone();
        for cpu in self.online.difference(&self.banned).iter() {
            let slot = &self.cpus[cpu.index()];
            if let Some(id) = slot.holder.filter(|&id| slot.running.is_some() && !self.is_stopped(id)) {
                running[id.index()] += self.frequency(cpu);
            }
        }
        let demand = |slot: usize| match &self.members[slot] {
            Some(member) => Demand {
                running: running[slot],
                ways: if self.is_lifted(WorkloadId(slot as u32)) { u32::MAX } else { member.settings.ways }
                    & self.machine.all_ways(),
                cache: member.load.cache,
                bandwidth: member.load.bandwidth.0,
            },
            None => Demand::default(),
        };
        let demands: Vec<Demand> = (0..self.members.len()).map(demand).collect();
        let effects = contend(&demands, self.machine.memory_bandwidth.0);
        for (member, effect) in self.members.iter_mut().zip(effects) {
            if let Some(member) = member {
                member.effect = effect;
            }
        }
    }

    fn count_memory(&mut self, span: Nanos) {
        let seconds = span.as_secs_f64();
        for (slot, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            let running = self.shares.get(slot).copied().unwrap_or(0.0);
            let granted = self.cpus.iter().filter(|cpu| cpu.holder == Some(WorkloadId(slot as u32)) && cpu.speed > 0);
            let running = if member.threads.is_empty() { granted.count() as f64 } else { running };
            let instructions = running * 1e9 * seconds * member.effect.speed;
            member.sums.instructions += instructions;
            member.sums.hits += instructions * member.effect.hit_ratio;
            member.sums.bytes += member.effect.bandwidth * seconds;
            self.bus_bytes += member.effect.bandwidth * seconds;
        }
    }
}
