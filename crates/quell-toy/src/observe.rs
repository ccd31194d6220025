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
        self.fill_cpus(wanted, view);
        self.fill_workloads(wanted, view);
        if wanted.contains_threads_of(Class::LatencyCritical) {
            self.fill_threads(wanted, view);
        }
        if wanted.contains(Signal::MemoryBandwidth) && self.now > self.bus_since {
            let window = self.now - self.bus_since;
            let rate = BytesPerSecond(self.bus_bytes / window.as_secs_f64());
            view.memory_bandwidth = Sample::over(rate, self.now, window);
            (self.bus_since, self.bus_bytes) = (self.now, 0.0);
        }
        if self.blind {
            view.memory_bandwidth = Sample::default();
        }
    }

    fn fill_cpus(&self, wanted: SignalSet, view: &mut View) {
        let columns = &mut view.cpus;
        columns.holder.clear();
        columns.holder.extend(self.cpus.iter().map(|slot| slot.holder));
        columns.request_start.clear();
        if wanted.contains(Signal::RequestStart) && !self.blind {
            columns.request_start.extend(self.cpus.iter().map(|slot| match slot.running {
                Some(running) => Sample::exact(running.started, self.now),
                None => Sample::default(),
            }));
        }
        columns.llc_misses.clear();
        if wanted.contains(Signal::LlcMisses) && !self.blind {
            columns.llc_misses.extend_from_slice(&self.sampled);
        }
    }

    fn fill_workloads(&mut self, wanted: SignalSet, view: &mut View) {
        let now = self.now;
        let columns = &mut view.workloads;
        let slots = self.members.len();
        columns.latency.clear();
        columns.queueing_delay.resize(slots, Sample::default());
        columns.run_time.resize(slots, Sample::default());
        columns.run_delay.resize(slots, Sample::default());
        columns.thread_count.resize(slots, Sample::default());
        columns.llc_hit_ratio.resize(slots, Sample::default());
        columns.memory_bandwidth.resize(slots, Sample::default());
        columns.instruction_rate.resize(slots, Sample::default());
        for slot in 0..slots {
            let Some(member) = self.members[slot].as_mut().filter(|_| !self.blind) else {
                columns.queueing_delay[slot] = Sample::default();
                columns.run_time[slot] = Sample::default();
                columns.run_delay[slot] = Sample::default();
                columns.thread_count[slot] = Sample::default();
                columns.llc_hit_ratio[slot] = Sample::default();
                columns.memory_bandwidth[slot] = Sample::default();
                columns.instruction_rate[slot] = Sample::default();
                continue;
            };
            columns.queueing_delay[slot] = Sample::exact(member.queueing_delay(now), now);
            columns.run_time[slot] = Sample::exact(member.run_time(), now);
            columns.run_delay[slot] = Sample::exact(member.run_delay(), now);
            columns.thread_count[slot] = Sample::exact(member.threads.len() as u32, now);
            let window = now - member.sums.since;
            if window > Nanos::ZERO {
                let seconds = window.as_secs_f64();
                let sums = std::mem::take(&mut member.sums);
                member.sums.since = now;
                columns.memory_bandwidth[slot] = Sample::over(BytesPerSecond(sums.bytes / seconds), now, window);
                columns.instruction_rate[slot] = Sample::over(sums.instructions / seconds, now, window);
                columns.llc_hit_ratio[slot] = Sample {
                    quality: if sums.instructions > 0.0 { Quality::Exact } else { Quality::Absent },
                    ..Sample::over(sums.hits / sums.instructions.max(1.0), now, window)
                };
            }
        }
        keep(wanted, Signal::QueueingDelay, &mut columns.queueing_delay);
        keep(wanted, Signal::RunTime, &mut columns.run_time);
        keep(wanted, Signal::RunDelay, &mut columns.run_delay);
        keep(wanted, Signal::ThreadCount, &mut columns.thread_count);
        keep(wanted, Signal::LlcHitRatio, &mut columns.llc_hit_ratio);
        keep(wanted, Signal::WorkloadBandwidth, &mut columns.memory_bandwidth);
        keep(wanted, Signal::InstructionRate, &mut columns.instruction_rate);
    }

    fn fill_threads(&self, wanted: SignalSet, view: &mut View) {
        let columns = &mut view.threads;
        columns.clear();
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

fn keep<T>(wanted: SignalSet, signal: Signal, column: &mut Vec<Sample<T>>) {
    if !wanted.contains(signal) {
        column.clear();
    }
}
