//! The demo's scenes: workloads, treated in several ways each.

use std::thread;

use quell_model::{Class, CpuCount, Reservation, SchedClass, Selector, Workload};

/// Linux's real-time class as an administrator would give it: above everything that is not real-time.
const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };

/// The reason for leaving a phase out where a process may not have real-time threads.
pub const NO_REAL_TIME: &str = "it needs real-time scheduling (CAP_SYS_NICE); run as root";

/// A workload of a scene.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: &'static str,
    pub class: Class,
    pub threads: u32,
    /// Requested CPUs.
    pub cpus: u32,
    pub reservation: Reservation,
    pub scheduling: SchedClass,
}

/// The scene's workloads under one treatment, the server first.
#[derive(Clone, Debug)]
pub struct Phase {
    pub name: &'static str,
    pub title: &'static str,
    /// What it is, in one line.
    pub means: &'static str,
    /// None: Linux alone decides.
    pub policy: Option<&'static str>,
    pub parts: Vec<Part>,
}

impl Part {
    fn new(name: &'static str, class: Class, threads: u32, cpus: u32) -> Part {
        Part { name, class, threads, cpus, reservation: Reservation::Standard, scheduling: SchedClass::NORMAL }
    }

    fn scheduled(self, scheduling: SchedClass) -> Part {
        Part { scheduling, ..self }
    }

    /// A process and its descendants as this workload.
    pub fn workload(&self, pid: i32) -> Workload {
        Workload {
            reservation: self.reservation,
            selectors: vec![Selector::Pid(pid)],
            ..Workload::new(self.name, self.class, CpuCount::whole(self.cpus))
        }
    }
}

impl Phase {
    fn new<const N: usize>(name: &'static str, title: &'static str, parts: [Part; N]) -> Phase {
        Phase { name, title, means: "", policy: None, parts: parts.to_vec() }
    }

    fn meaning(self, means: &'static str) -> Phase {
        Phase { means, ..self }
    }

    fn under(self, policy: &'static str) -> Phase {
        Phase { policy: Some(policy), ..self }
    }

    /// Does it make threads real-time?
    pub fn is_real_time(&self) -> bool {
        self.policy == Some("guard") || self.parts.iter().any(|part| part.scheduling.is_real_time())
    }
}

/// `quell demo`: a server with this many threads and CPUs beside an antagonist with this many threads.
pub fn latency(server_threads: u32, antagonist_threads: u32) -> Vec<Phase> {
    let server = || Part::new("memcached", Class::LatencyCritical, server_threads, server_threads);
    let antagonist = || Part::new("antagonist", Class::BestEffort, antagonist_threads, 0);
    let own_cpus = Part { reservation: Reservation::Strict, ..server() };
    vec![
        Phase::new("alone", "server alone", [server()])
            .meaning("nothing beside it but the load generator: the baseline of the other phases"),
        Phase::new("linux", "co-run, plain Linux", [server(), antagonist()])
            .meaning("the antagonist beside it, default scheduling: what you have today"),
        Phase::new("linux-best", "antagonist SCHED_IDLE", [server(), antagonist().scheduled(SchedClass::Idle)])
            .meaning("the antagonist has the lowest class that Linux offers: the best without privileges"),
        Phase::new("fifo", "server SCHED_FIFO (unsafe)", [server().scheduled(FIFO), antagonist()])
            .meaning("the server preempts all others, without a bound: a busy loop in it would take the machine"),
        Phase::new("rkube", "Quell rkube: own CPUs", [own_cpus, antagonist()])
            .under("rkube")
            .meaning("the server has CPUs that the antagonist may not use; unmanaged programs still may"),
        Phase::new("guard", "Quell guard", [server(), antagonist()])
            .under("guard")
            .meaning("the server preempts all others within a budget, and is demoted when it exceeds it"),
    ]
}

/// `quell demo runaway`: a latency-critical program with as many spinning threads as there are CPUs.
pub fn runaway(cpus: u32) -> Vec<Phase> {
    let runaway = || Part::new("runaway", Class::LatencyCritical, cpus, cpus);
    let named = |name, part| Phase::new(name, name, [part]);
    vec![
        named("plain Linux", runaway()),
        named("SCHED_FIFO (unsafe)", runaway().scheduled(FIFO)),
        named("Quell guard", runaway()).under("guard"),
    ]
}

/// `quell demo shares`: a server with this many threads and CPUs beside a latency-critical workload that wants all CPUs.
pub fn shares(server_threads: u32, cpus: u32) -> Vec<Phase> {
    let server = || Part::new("memcached", Class::LatencyCritical, server_threads, server_threads);
    let overloaded = || Part::new("overloaded", Class::LatencyCritical, 2 * cpus, cpus - server_threads);
    let named = |name, parts: [Part; 2]| Phase::new(name, name, parts);
    vec![
        Phase::new("server alone", "server alone", [server()]),
        named("plain Linux", [server(), overloaded()]),
        named("server SCHED_FIFO", [server().scheduled(FIFO), overloaded()]),
        named("overloaded one SCHED_FIFO", [server(), overloaded().scheduled(FIFO)]),
        named("Quell guard", [server(), overloaded()]).under("guard"),
    ]
}

/// May this process make threads real-time?
pub fn may_be_real_time() -> bool {
    thread::spawn(|| quell_agent::realtime::run_before_others(1)).join().is_ok_and(|allowed| allowed.unwrap_or(false))
}
