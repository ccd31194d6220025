//! Very many threads, all of which change what they do in each period: what `dasec` takes longest for.

use quell_model::{
    Class, CpuCount, CpuId, Nanos, SchedClass, ThreadId, ThreadState, Topology, View, Workload, WorkloadId,
};

const CPUS: u32 = 80;
const PER_SERVICE: u32 = 16;
const PERIOD: Nanos = Nanos::from_millis(80);

fn id(thread: u32) -> ThreadId {
    ThreadId { tid: thread as i32 + 1, start: 0 }
}

/// Services of sixteen threads, each of which was woken by four others, on 80 CPUs.
pub fn view(threads: u32) -> View {
    let mut view = View::new(Topology::synthetic(4, 1, CPUS / 4, 1).into());
    for service in 0..threads / PER_SERVICE {
        let spec = Workload::new(format!("service{service}"), Class::LatencyCritical, CpuCount::ZERO);
        view.workloads.spec.push(Some(spec.into()));
    }
    let columns = &mut view.threads;
    for thread in 0..threads {
        columns.id.push(id(thread));
        columns.workload.push(WorkloadId(thread / PER_SERVICE));
        columns.state.push(ThreadState::Sleeping);
        columns.cpu.push(CpuId(thread % CPUS));
        columns.run_time.push(Nanos::ZERO);
        columns.run_delay.push(Nanos::ZERO);
        columns.class.push(SchedClass::NORMAL);
        columns.preemptions.push(Some(0));
        columns.late_starts.push(Some(0));
        for other in 1..5 {
            let waker = thread / PER_SERVICE * PER_SERVICE + (thread + other) % PER_SERVICE;
            columns.wake_ups.push(Some(id(waker)), id(thread), 0);
        }
    }
    view
}

/// Another period: threads run, wake each other, change CPUs and lose them, by their numbers and the period's.
pub fn pass(view: &mut View, period: u64) {
    view.now += PERIOD;
    view.threads.at = view.now;
    let columns = &mut view.threads;
    for thread in 0..columns.id.len() {
        let mixed = (thread as u64 + 1).wrapping_mul(period.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) >> 40;
        columns.run_time[thread] += Nanos(mixed % PERIOD.0);
        columns.state[thread] = if mixed.is_multiple_of(3) { ThreadState::Runnable } else { ThreadState::Sleeping };
        columns.cpu[thread] = CpuId((mixed % u64::from(CPUS)) as u32);
        columns.preemptions[thread] = columns.preemptions[thread].map(|count| count + mixed % 4);
    }
    columns.wake_ups.count.iter_mut().for_each(|count| *count += 3);
}
