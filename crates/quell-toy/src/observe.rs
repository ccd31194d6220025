//! Filling the view.

use quell_model::{BytesPerSecond, Class, Nanos, Quality, Sample, Signal, SignalSet, ThreadState, View, WorkloadId};

use crate::ToyHost;

impl ToyHost {
    pub(crate) fn fill(&mut self, wanted: SignalSet, view: &mut View) {
        view.now = self.now;
        view.cpus.online = self.online;
        view.cpus.banned = self.banned;
        view.cpus.idle = self
            .online
            .iter()
            .filter(|cpu| self.cpus[cpu.index()].running.is_none() && self.busy[cpu.index()] <= 0.0)
            .collect();
        view.workloads.spec.clear();
        view.workloads.spec.extend(self.members.iter().map(|member| member.as_ref().map(|member| member.spec.clone())));
        view.blank(wanted);
        self.fill_cpus(wanted, view);
        self.fill_workloads(view);
        if wanted.contains_threads_of(Class::LatencyCritical) {
            self.fill_threads(wanted, view);
        }
        if wanted.contains(Signal::MemoryBandwidth) && self.now > self.bus_since {
            let window = self.now - self.bus_since;
            let rate = BytesPerSecond(self.bus_bytes / window.as_secs_f64());
            view.machine.memory_bandwidth = Sample::over(rate, self.now, window);
            (self.bus_since, self.bus_bytes) = (self.now, 0.0);
        }
        if self.blind {
            view.machine.memory_bandwidth = Sample::default();
        }
    }

    fn fill_cpus(&self, wanted: SignalSet, view: &mut View) {
        let columns = &mut view.cpus;
        columns.holder.clear();
        columns.holder.extend(self.cpus.iter().map(|slot| slot.holder));
        if wanted.contains(Signal::RequestStart) && !self.blind {
            columns.request_start.clear();
            columns.request_start.extend(self.cpus.iter().map(|slot| match slot.running {
                Some(running) => Sample::exact(running.started, self.now),
                None => Sample::default(),
            }));
        }
        if wanted.contains(Signal::LlcMisses) && !self.blind {
            columns.llc_misses.clear();
            columns.llc_misses.extend_from_slice(&self.sampled);
        }
    }

    fn fill_workloads(&mut self, view: &mut View) {
        let now = self.now;
        let columns = &mut view.workloads;
        for slot in 0..self.members.len() {
            let Some(member) = self.members[slot].as_mut().filter(|_| !self.blind) else { continue };
            let mut put = |signal, sample| columns.put(signal, slot, sample);
            put(Signal::QueueingDelay, Sample::exact(member.queueing_delay(now).0 as f64, now));
            put(Signal::RunTime, Sample::exact(member.run_time().0 as f64, now));
            put(Signal::RunDelay, Sample::exact(member.run_delay().0 as f64, now));
            put(Signal::ThreadCount, Sample::exact(member.threads.len() as f64, now));
            let window = now - member.sums.since;
            if window > Nanos::ZERO {
                let seconds = window.as_secs_f64();
                let sums = std::mem::take(&mut member.sums);
                member.sums.since = now;
                put(Signal::WorkloadBandwidth, Sample::over(sums.bytes / seconds, now, window));
                put(Signal::InstructionRate, Sample::over(sums.instructions / seconds, now, window));
                let quality = if sums.instructions > 0.0 { Quality::Exact } else { Quality::Absent };
                let ratio = Sample::over(sums.hits / sums.instructions.max(1.0), now, window);
                put(Signal::LlcHitRatio, Sample { quality, ..ratio });
            }
        }
    }

    fn fill_threads(&self, wanted: SignalSet, view: &mut View) {
        let columns = &mut view.threads;
        columns.at = self.now;
        for (slot, member) in self.members.iter().enumerate() {
            let id = WorkloadId(slot as u32);
            let Some(member) = member.as_ref().filter(|member| wanted.contains_threads_of(member.spec.class)) else {
                continue;
            };
            for thread in &member.threads {
                columns.id.push(thread.id);
                columns.workload.push(id);
                columns.state.push(match thread.demand {
                    _ if self.is_stopped(id) => ThreadState::Stopped,
                    demand if demand > 0.0 => ThreadState::Runnable,
                    _ => ThreadState::Sleeping,
                });
                columns.cpu.push(thread.cpu);
                columns.run_time.push(thread.run_time);
                columns.run_delay.push(thread.run_delay);
                columns.class.push(thread.class);
            }
        }
    }
}
