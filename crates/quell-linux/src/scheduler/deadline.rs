//! Deferrable servers on kernels without sched_ext: SCHED_DEADLINE, for one thread a server.
//!
//! The kernel gives a deadline thread its runtime every period and throttles it when that is used up. It is no deferrable
//! server: its period begins anew at a wake-up (CBS), so that others never wait for two budgets in a row; and it is one
//! thread's.

use quell_model::{
    Capabilities, CpuId, Event, Knob, KnobKind, KnobSetting, Nanos, Outcome, Part, Plan, Refusal, Rule, RuleKind,
    SchedClass, Support, Target, ThreadId, Verdict, WorkloadId,
};

use super::{NO_RULES, refusal};
use crate::{Roots, clock};

/// The kernel takes no shorter and, as it comes, no longer periods (`kernel.sched_deadline_period_{min,max}_us`).
const SHORTEST: Nanos = Nanos::from_micros(100);
const LONGEST: Nanos = Nanos::from_micros(1 << 22);

/// What is to be known of it.
const LIMITS: &str = "by SCHED_DEADLINE, for one thread a server: other threads and children of the service are ordinary; each \
                      CPU with a server is to be an exclusive cpuset partition, with its neighbours inside it; 95 % of a CPU at \
                      most; budgets end at the tick; where there is a fair server, it takes 50 ms a second out of busy intervals \
                      above 950 ms; a period begins anew at a wake-up";

/// A server that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    workload: WorkloadId,
    cpu: CpuId,
    budget: Nanos,
    period: Nanos,
    /// Its thread; None: there was none, or the kernel refused it.
    thread: Option<ThreadId>,
}

/// The servers that were asked for, and the threads that have them.
#[derive(Debug)]
pub(crate) struct Deadline {
    longest: Nanos,
    servers: Vec<Server>,
    /// Threads that had one.
    freed: Vec<ThreadId>,
    /// Those of the settings that are about to be made.
    given: Vec<ThreadId>,
}

impl Deadline {
    pub fn new(roots: &Roots) -> Deadline {
        Deadline { longest: longest(roots), servers: Vec::new(), freed: Vec::new(), given: Vec::new() }
    }

    /// Takes a plan's rules over. What no thread has yet comes with [`Deadline::meet`].
    pub fn enact(&mut self, plan: &Plan, events: &mut Vec<Event>) {
        for (at, rule) in plan.rules.iter().enumerate() {
            let verdict = match *rule {
                Rule::Server { .. } => self.serve(rule),
                _ => refusal(NO_RULES),
            };
            events.push(Event::Outcome(Outcome { plan: plan.number, part: Part::Rule(at as u32), verdict }));
        }
    }

    fn serve(&mut self, rule: &Rule) -> Verdict {
        let Rule::Server { workload, cpu, budget, period, .. } = *rule else { return Verdict::Vanished };
        let known = self.servers.iter().position(|server| (server.workload, server.cpu) == (workload, cpu));
        if budget == Nanos::ZERO {
            let gone = known.map(|at| self.servers.remove(at));
            self.freed.extend(gone.and_then(|server| server.thread));
            return Verdict::Applied(clock::now());
        }
        if let Some(why) = self.obstacle(budget, period) {
            return Verdict::Refused(Refusal::System(why));
        }
        let server = Server { workload, cpu, budget, period, thread: None };
        match known {
            Some(at) if (self.servers[at].budget, self.servers[at].period) == (budget, period) => {}
            Some(at) => {
                let before = std::mem::replace(&mut self.servers[at], server);
                self.freed.extend(before.thread);
            }
            None => self.servers.push(server),
        }
        Verdict::Applied(clock::now())
    }

    /// Why the kernel would not take it, and the fix.
    fn obstacle(&self, budget: Nanos, period: Nanos) -> Option<String> {
        if period > self.longest {
            return Some(format!(
                "the kernel accepts no deadline period above {} (kernel.sched_deadline_period_max_us), and this one is {}; give \
                 a shorter one (`quell vas --period {}us`), or raise the setting",
                self.longest.exact(),
                period.exact(),
                self.longest.0 / 1000
            ));
        }
        if period < SHORTEST {
            return Some(format!("the kernel accepts no deadline period below {SHORTEST}; give a longer one"));
        }
        (budget.0 * 100 > period.0 * 95).then(|| {
            "the kernel gives deadline threads 95 % of a CPU at most (kernel.sched_rt_runtime_us); request less, or a whole CPU \
             by policy rkube"
                .to_owned()
        })
    }

    pub fn wants_threads(&self) -> bool {
        !self.servers.is_empty() || !self.freed.is_empty()
    }

    /// Each server's thread: the oldest ones of its workload, which are kept on the servers' CPUs. What is to be set is added
    /// to `settings`. Returns the threads that had a server and have none any more.
    pub fn meet(
        &mut self,
        threads_of: &dyn Fn(WorkloadId) -> Vec<ThreadId>,
        settings: &mut Vec<KnobSetting>,
    ) -> Vec<ThreadId> {
        self.given.clear();
        let mut ids: Vec<WorkloadId> = self.servers.iter().map(|server| server.workload).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let there = threads_of(id);
            let own = |server: &&mut Server| server.workload == id;
            for server in self.servers.iter_mut().filter(own) {
                server.thread = server.thread.filter(|thread| there.contains(thread));
            }
            let taken: Vec<ThreadId> =
                self.servers.iter().filter(|server| server.workload == id).filter_map(|server| server.thread).collect();
            let mut free = there.iter().filter(|thread| !taken.contains(thread));
            let cpus = self.servers.iter().filter(|server| server.workload == id).map(|server| server.cpu).collect();
            let before = self.given.len();
            for server in self.servers.iter_mut().filter(|server| server.workload == id && server.thread.is_none()) {
                let Some(&thread) = free.next() else { break };
                server.thread = Some(thread);
                self.given.push(thread);
                let class =
                    SchedClass::Deadline { runtime: server.budget, deadline: server.period, period: server.period };
                settings.push(KnobSetting { target: Target::Thread(thread), knob: Knob::Class(class) });
            }
            if self.given.len() > before {
                // Elsewhere it would have its budget, too, and the CPU's other servers would not know.
                settings.push(KnobSetting { target: Target::Workload(id), knob: Knob::Cpus(cpus) });
            }
        }
        let given = &self.given;
        self.freed.retain(|thread| !given.contains(thread));
        std::mem::take(&mut self.freed)
    }

    /// Reports whether the settings were made. If not, their threads have no servers.
    pub fn settled(&mut self, done: bool) {
        if done {
            return;
        }
        for server in &mut self.servers {
            server.thread = server.thread.filter(|thread| !self.given.contains(thread));
        }
        // One may have a class of before: it keeps it if it has a server when threads are met next, or gets its own back.
        self.freed.extend_from_slice(&self.given);
    }

    /// What was set on its threads is put back by others.
    pub fn detach(&mut self, id: WorkloadId) {
        self.servers.retain(|server| server.workload != id);
    }
}

/// The longest period that the kernel takes.
fn longest(roots: &Roots) -> Nanos {
    let path = roots.proc.join("sys/kernel/sched_deadline_period_max_us");
    let read = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    read.map_or(LONGEST, Nanos::from_micros)
}

/// Threads can have servers where Quell can set classes.
pub(super) fn report(found: &mut Capabilities) {
    let support = match found.knobs.get(&KnobKind::Class) {
        Some(Support::No { .. }) => Support::No {
            why: "SCHED_DEADLINE, which keeps budgets on the kernel's own scheduler, needs CAP_SYS_NICE".to_owned(),
            fix: "run as root, or on a kernel with sched_ext".to_owned(),
        },
        _ => Support::Partly(LIMITS.to_owned()),
    };
    found.rules.insert(RuleKind::Server, support);
}
