//! Looking on while a run passes: its time in parts, with what happened in each.

use quell_model::Nanos;
use serde::Serialize;

use super::interval::{BLOCKS, Block};
use crate::SimHost;
use crate::workload::Latencies;

/// What is kept of a run beside its totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    Totals,
    /// Latencies by blocks of time, for intervals.
    Blocks,
    /// The same, and the course of time in [`PARTS`] parts.
    Course,
}

/// Parts of equal length in a run's course.
pub const PARTS: u64 = 200;

/// What happened in the parts of a run's measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// The parts' ends, ns since the end of the warm-up.
    pub ends: Vec<Nanos>,
    /// CPUs that were busy.
    pub cpus_busy: Vec<f64>,
    /// Memory bandwidth in use, bytes per second; none where contention is not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Vec<f64>>,
    /// By workload, in the scenario's order.
    pub workloads: Vec<WorkloadCourse>,
}

/// One workload, by part. Latencies are those of requests that were completed in the part; none where none was.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkloadCourse {
    /// Its name.
    pub name: String,
    /// Requests (jobs) completed.
    pub completed: Vec<u64>,
    /// Half of them were as fast.
    pub p50: Vec<Option<Nanos>>,
    /// 99 % of them were as fast; of fewer than a hundred it is the slowest.
    pub p99: Vec<Option<Nanos>>,
    /// The slowest.
    pub max: Vec<Option<Nanos>>,
    /// CPUs' worth of time that it got.
    pub cpus_got: Vec<f64>,
    /// CPUs that it held, on average; none where the policy grants no CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_granted: Option<Vec<f64>>,
    /// Memory bandwidth that it used, bytes per second; none where contention is not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Vec<f64>>,
}

/// Somebody who looks at a host at the end of each part of its time. It does not change what happens.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    from: Nanos,
    duration: Nanos,
    parts: u64,
    part: u64,
    /// When the part under way began to be counted.
    began: Nanos,
    busy: u64,
    used: Vec<u64>,
    bytes: f64,
    bytes_of: Vec<f64>,
    grants: Option<Grants>,
    course: Option<Course>,
    blocks: Vec<Vec<Block>>,
}

/// CPUs held, over time.
#[derive(Clone, Debug)]
struct Grants {
    /// By workload: its number on the host.
    ids: Vec<Option<usize>>,
    /// By that number: CPUs held since `since`.
    held: Vec<u32>,
    since: Nanos,
    /// CPU time held in this part, ns.
    time: Vec<u64>,
}

impl Watch {
    /// Begins to look, until about `end`; the warm-up is over.
    pub fn new(host: &mut SimHost, names: &[&str], end: Nanos, grants: bool, detail: Detail) -> Watch {
        let from = host.sim().now();
        let parts = match detail {
            Detail::Totals => 0,
            Detail::Blocks => BLOCKS,
            Detail::Course => PARTS,
        };
        let is_course = detail == Detail::Course;
        let course = is_course.then(|| {
            let (cpus_granted, memory_bandwidth) = (grants.then(Vec::new), host.sim().has_contention().then(Vec::new));
            let of = |&name: &&str| WorkloadCourse {
                name: name.into(),
                cpus_granted: cpus_granted.clone(),
                memory_bandwidth: memory_bandwidth.clone(),
                ..WorkloadCourse::default()
            };
            Course {
                workloads: names.iter().map(of).collect(),
                memory_bandwidth: memory_bandwidth.clone(),
                ..<_>::default()
            }
        });
        let grants = (is_course && grants).then(|| Grants {
            ids: names.iter().map(|name| host.number_of(name)).collect(),
            held: host.counts_held(),
            since: from,
            time: vec![0; host.counts_held().len()],
        });
        if parts > 0 {
            host.sim_mut().loads.iter_mut().for_each(|load| load.common.recent = Some(Latencies::default()));
        }
        Watch {
            from,
            duration: Nanos(end.0.saturating_sub(from.0)),
            parts,
            part: 0,
            began: from,
            busy: host.sim().kernel().busy_time(),
            used: host.sim().run_times(),
            bytes: host.sim().memory_bytes(),
            bytes_of: bytes_of(host),
            grants,
            course,
            blocks: if parts > 0 { vec![vec![Block::default(); BLOCKS as usize]; names.len()] } else { Vec::new() },
        }
    }

    /// When it looks next. The last part ends when the run does.
    pub fn next(&self) -> Nanos {
        if self.part + 1 >= self.parts {
            return Nanos::MAX;
        }
        let done = u128::from(self.duration.0) * u128::from(self.part + 1) / u128::from(self.parts);
        self.from + Nanos(done as u64)
    }

    /// Who holds which CPUs may have changed.
    pub fn grants_changed(&mut self, host: &SimHost) {
        let Some(grants) = &mut self.grants else { return };
        let now = host.sim().now();
        for (time, &held) in grants.time.iter_mut().zip(&grants.held) {
            *time += u64::from(held) * (now - grants.since).0;
        }
        grants.since = now;
        grants.held = host.counts_held();
    }

    /// Closes the parts that are over.
    pub fn look(&mut self, host: &mut SimHost) {
        while self.next() <= host.sim().now() {
            self.grants_changed(host);
            self.close(host);
            self.part += 1;
        }
    }

    /// Closes the last part; the run is over.
    pub fn close_last(&mut self, host: &mut SimHost) {
        if self.part < self.parts {
            self.grants_changed(host);
            self.close(host);
            self.part += 1;
        }
    }

    fn close(&mut self, host: &mut SimHost) {
        let now = host.sim().now();
        let span = (now - self.began).0.max(1) as f64;
        let used = host.sim().run_times();
        if let Some(course) = &mut self.course {
            let busy = host.sim().kernel().busy_time();
            course.ends.push(now - self.from);
            course.cpus_busy.push((busy - self.busy) as f64 / span);
            self.busy = busy;
            let (bytes, bytes_of) = (host.sim().memory_bytes(), bytes_of(host));
            if let Some(bandwidth) = &mut course.memory_bandwidth {
                bandwidth.push((bytes - self.bytes) * 1e9 / span);
            }
            for ((workload, now), before) in course.workloads.iter_mut().zip(&bytes_of).zip(&self.bytes_of) {
                workload.memory_bandwidth.iter_mut().for_each(|used| used.push((now - before) * 1e9 / span));
            }
            (self.bytes, self.bytes_of) = (bytes, bytes_of);
            for (at, workload) in course.workloads.iter_mut().enumerate() {
                workload.cpus_got.push((used[at] - self.used[at]) as f64 / span);
                if let (Some(granted), Some(grants)) = (&mut workload.cpus_granted, &self.grants) {
                    granted.push(grants.ids[at].map_or(0.0, |id| grants.time[id] as f64 / span));
                }
            }
        }
        let block = (self.part * BLOCKS / self.parts) as usize;
        for (at, load) in host.sim_mut().loads.iter_mut().enumerate() {
            let Some(recent) = &mut load.common.recent else { continue };
            let completed = recent.count();
            if let Some(workload) = self.course.as_mut().map(|course| &mut course.workloads[at]) {
                let some = |latency: Nanos| (completed > 0).then_some(latency);
                workload.completed.push(completed);
                workload.p50.push(some(recent.quantile(0.5)));
                workload.p99.push(some(recent.quantile(0.99)));
                workload.max.push(some(recent.max()));
            }
            if completed > 0 {
                self.blocks[at][block].add(recent);
                recent.clear();
            }
        }
        if let Some(grants) = &mut self.grants {
            grants.time.fill(0);
        }
        self.used = used;
        self.began = now;
    }

    /// What was seen: the course, and by workload the blocks.
    pub fn end(self) -> (Option<Course>, Vec<Vec<Block>>) {
        (self.course, self.blocks)
    }
}

fn bytes_of(host: &SimHost) -> Vec<f64> {
    host.sim().counted().iter().map(|counted| counted.bytes).collect()
}
