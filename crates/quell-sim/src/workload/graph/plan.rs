//! Requests with numbers for names.

use super::super::spec::WorkloadSpec;
use super::super::{Arrivals, Service};
use super::spec::{GraphSpec, RequestSpec, Step};
use crate::contention::{Phases, ProfileName, Whose};
use crate::kernel::PhaseId;
use crate::lock::LockOrder;
use crate::sim::Tenant;
use crate::workload::Load;

/// At most this many stages and signals a request: one bit each.
const FLAGS: usize = 64;

/// A set of stages that have ended and signals that were given, one bit each.
pub(super) type Flags = u64;

/// All requests, pools and locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    pub(super) requests: Vec<Plan>,
    pub(super) pools: Vec<PoolPlan>,
    pub(super) locks: Vec<(String, LockOrder)>,
}

/// Threads that do stages.
#[derive(Clone, Debug)]
pub(super) struct PoolPlan {
    /// The workload, or the workload and the role.
    pub name: String,
    pub workload: usize,
    /// Its threads' places in the workload.
    pub threads: std::ops::Range<usize>,
}

/// A kind of request.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub name: String,
    pub arrivals: Option<Arrivals>,
    pub clients: Option<(u32, Service)>,
    pub at_most: Option<u32>,
    /// Whose latency its latency is.
    pub receiver: usize,
    /// The VM that it passes through; None: the host.
    pub home: Option<String>,
    pub first: usize,
    pub stages: Vec<Stage>,
    /// By flag: the stages that begin after it. Stages' flags come first, in their order.
    pub starts: Vec<Vec<usize>>,
    /// By flag, its name; for messages.
    pub flags: Vec<String>,
    /// All pieces of work, in the order of stages and steps.
    pub works: Vec<Service>,
    /// By piece of work: what the GPU moves for it, bytes a nanosecond; 0 for work on CPUs.
    pub moves: Vec<f64>,
    /// By barrier: how many meet there.
    pub barriers: Vec<u32>,
}

/// What one thread does.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub name: String,
    pub pool: usize,
    pub after: Flags,
    pub steps: Vec<Act>,
    profile: Option<ProfileName>,
    /// The kind of work that it is.
    pub phase: PhaseId,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The piece of work of this number.
    Work(usize),
    /// The same while it holds this lock.
    Locked(usize, usize),
    /// The piece of work of this number, on the GPU.
    Gpu(usize),
    /// Raises this flag.
    Signal(usize),
    /// Until all of these are raised.
    Wait(Flags),
    Barrier(usize),
}

impl Plan {
    /// How many can be under way at once.
    pub fn most_under_way(&self) -> Option<u32> {
        let clients = self.clients.as_ref().map(|&(number, _)| number);
        self.at_most.into_iter().chain(clients).min()
    }

    /// The names of flags.
    pub fn names(&self, flags: Flags) -> String {
        let named = self.flags.iter().enumerate().filter(|&(flag, _)| flags >> flag & 1 == 1);
        named.map(|(_, name)| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    }
}

impl Plans {
    /// Finds what the names stand for, and checks that everything comes to an end.
    ///
    /// # Errors
    /// A sentence that names first what is at fault.
    pub fn new(spec: &GraphSpec, workloads: &[WorkloadSpec]) -> Result<Plans, String> {
        let locks = spec.locks.iter().map(|lock| (lock.name.clone(), lock.order)).collect();
        let mut plans = Plans { requests: Vec::new(), pools: pools(workloads), locks };
        unique("locks", spec.locks.iter().map(|lock| &lock.name))?;
        unique("requests", spec.requests.iter().map(|request| &request.name))?;
        for request in &spec.requests {
            let plan = plans.request(request, workloads)?;
            plans.requests.push(plan);
        }
        plans.check()?;
        Ok(plans)
    }

    /// The first stage that runs on a GPU, for messages.
    pub fn stage_on_gpu(&self) -> Option<String> {
        let stages = self.requests.iter().flat_map(|plan| plan.stages.iter().map(move |stage| (plan, stage)));
        let (plan, stage) = { stages }.find(|(_, stage)| stage.steps.iter().any(|act| matches!(act, Act::Gpu(_))))?;
        Some(format!("stage '{}' of request '{}'", stage.name, plan.name))
    }

    /// Numbers the kinds of work of all stages; without one of their own it is that of the workload. `homes`: by workload,
    /// its VM.
    ///
    /// # Errors
    /// A sentence, if there are too many.
    pub fn set_phases(
        &mut self,
        loads: &[Load],
        tenants: &[Tenant],
        homes: &[Option<usize>],
        phases: &mut Phases,
    ) -> Result<(), String> {
        for stage in self.requests.iter_mut().flat_map(|plan| &mut plan.stages) {
            let workload = self.pools[stage.pool].workload;
            let of_host = || tenants.iter().position(|tenant| tenant.load == Some(workload));
            let tenant = homes[workload].or_else(of_host).unwrap_or(0);
            let whose = Whose { workload, tenant, throttle: loads[workload].common.phases.throttle };
            stage.phase = match &stage.profile {
                Some(name) => phases.add(Some(name), whose)?,
                None => loads[workload].common.phases.own,
            };
        }
        Ok(())
    }

    fn request(&self, spec: &RequestSpec, workloads: &[WorkloadSpec]) -> Result<Plan, String> {
        let bad = |why: String| Err(format!("request '{}': {why}", spec.name));
        let signals = spec.stages.iter().flat_map(|stage| &stage.steps).filter_map(|step| match step {
            Step::Signal(name) => Some(name),
            _ => None,
        });
        let flags: Vec<String> = spec.stages.iter().map(|stage| &stage.name).chain(signals).cloned().collect();
        unique("stages or signals of a request", flags.iter())?;
        if flags.len() > FLAGS {
            return bad(format!("{} stages and signals: give it {FLAGS} at most", flags.len()));
        }
        if spec.arrivals.is_some() == spec.clients.is_some() {
            return bad("give it either arrivals or clients".into());
        }
        if spec.at_most == Some(0) || spec.clients.as_ref().is_some_and(|clients| clients.number == 0) {
            return bad("nothing of it could ever be under way: allow at least one".into());
        }
        let mut plan = Plan {
            name: spec.name.clone(),
            arrivals: spec.arrivals.clone(),
            clients: spec.clients.as_ref().map(|clients| (clients.number, clients.think.clone())),
            at_most: spec.at_most,
            receiver: 0,
            home: None,
            first: 0,
            stages: Vec::new(),
            starts: vec![Vec::new(); flags.len()],
            flags,
            works: Vec::new(),
            moves: Vec::new(),
            barriers: Vec::new(),
        };
        let times = spec.arrivals.as_ref().map_or(Ok(()), Arrivals::check);
        let thinks = spec.clients.as_ref().map_or(Ok(()), |clients| clients.think.check());
        if let Err(why) = times.and(thinks) {
            return bad(why);
        }
        let mut barriers: Vec<&str> = Vec::new();
        for (number, stage) in spec.stages.iter().enumerate() {
            let of = format!("stage '{}' of request '{}'", stage.name, spec.name);
            if stage.steps.is_empty() {
                return Err(format!("{of} does nothing: give it at least one step"));
            }
            let pool = self.pool(&stage.on, workloads).map_err(|why| format!("{why} ({of})"))?;
            let after = mask(&plan.flags, &stage.after).map_err(|why| format!("{why} ({of})"))?;
            for flag in (0..plan.flags.len()).filter(|flag| after >> flag & 1 == 1) {
                plan.starts[flag].push(number);
            }
            let mut steps = Vec::new();
            for step in &stage.steps {
                steps.push(self.step(step, &mut plan, &mut barriers).map_err(|why| format!("{why} ({of})"))?);
            }
            if steps.iter().any(|act| matches!(act, Act::Gpu(_))) && workloads[self.pools[pool].workload].vm.is_some() {
                return Err(format!("{of} runs on the GPU from within a VM: only the host's workloads can"));
            }
            if let Some(Err(why)) = stage.profile.as_ref().map(ProfileName::profile) {
                return Err(format!("{why} ({of})"));
            }
            let (name, profile) = (stage.name.clone(), stage.profile.clone());
            plan.stages.push(Stage { name, pool, after, steps, profile, phase: PhaseId::default() });
        }
        let mut firsts = (0..plan.stages.len()).filter(|&stage| plan.stages[stage].after == 0);
        let (Some(first), None) = (firsts.next(), firsts.next()) else {
            return bad("it has to have exactly one first stage: one without 'after'".into());
        };
        (plan.first, plan.receiver) = (first, self.pools[plan.stages[first].pool].workload);
        let home = |stage: &Stage| workloads[self.pools[stage.pool].workload].vm.as_deref();
        plan.home = home(&plan.stages[first]).map(str::to_owned);
        if let Some(other) = plan.stages.iter().find(|stage| home(stage) != plan.home.as_deref()) {
            let place = |vm: Option<&str>| vm.map_or("on the host".to_owned(), |vm| format!("in VM '{vm}'"));
            return bad(format!(
                "its stage '{}' is {} and its first one {}: a request passes through one VM or the host alone",
                other.name,
                place(home(other)),
                place(plan.home.as_deref())
            ));
        }
        Ok(plan)
    }

    fn step<'a>(&self, step: &'a Step, plan: &mut Plan, barriers: &mut Vec<&'a str>) -> Result<Act, String> {
        let mut piece = |work: &Service| {
            work.check()?;
            plan.works.push(work.clone());
            plan.moves.push(0.0);
            Ok::<usize, String>(plan.works.len() - 1)
        };
        Ok(match step {
            Step::Work(work) => Act::Work(piece(work)?),
            Step::Locked(work, name) => {
                let lock = self.locks.iter().position(|(lock, _)| lock == name);
                let lock = lock.ok_or_else(|| format!("'{name}' is not a lock: give it a [[lock]]"))?;
                Act::Locked(piece(work)?, lock)
            }
            Step::Gpu(_, moves) if !(0.0..1e15).contains(&moves.0) => {
                return Err(format!("it moves {} bytes a second: give a number that is not negative", moves.0));
            }
            Step::Gpu(work, moves) => {
                let number = piece(work)?;
                plan.moves[number] = moves.0 / 1e9;
                Act::Gpu(number)
            }
            Step::Signal(name) => Act::Signal(plan.flags.iter().position(|flag| flag == name).unwrap_or(0)),
            Step::Wait(names) if names.is_empty() => {
                return Err("it waits for nothing: name a stage or a signal".into());
            }
            Step::Wait(names) => Act::Wait(mask(&plan.flags, names)?),
            Step::Barrier(name) => {
                let known = barriers.iter().position(|barrier| barrier == name);
                let barrier = known.unwrap_or_else(|| {
                    barriers.push(name);
                    plan.barriers.push(0);
                    barriers.len() - 1
                });
                plan.barriers[barrier] += 1;
                Act::Barrier(barrier)
            }
        })
    }

    fn pool(&self, on: &str, workloads: &[WorkloadSpec]) -> Result<usize, String> {
        self.pools.iter().position(|pool| pool.name == on).ok_or_else(|| {
            let workload = |name: &str| workloads.iter().find(|spec| spec.name == name);
            match workload(on) {
                Some(WorkloadSpec { pool: Some(roles), .. }) => {
                    let roles: Vec<String> = roles.keys().map(|role| format!("{on}.{role}")).collect();
                    format!("'{on}' has roles: name one of {}", roles.join(", "))
                }
                Some(_) => format!("'{on}' has no threads for stages: give it a pool"),
                None => format!("'{on}' is not a workload with a pool, nor a role in one"),
            }
        })
    }
}

fn pools(workloads: &[WorkloadSpec]) -> Vec<PoolPlan> {
    let mut pools = Vec::new();
    for (workload, spec) in workloads.iter().enumerate() {
        let Some(roles) = &spec.pool else { continue };
        if roles.is_empty() {
            pools.push(PoolPlan { name: spec.name.clone(), workload, threads: 0..spec.threads as usize });
        }
        let mut from = 0;
        for (role, &threads) in roles {
            let to = from + threads as usize;
            pools.push(PoolPlan { name: format!("{}.{role}", spec.name), workload, threads: from..to });
            from = to;
        }
    }
    pools
}

fn mask(flags: &[String], names: &[String]) -> Result<Flags, String> {
    names.iter().try_fold(0, |mask, name| match flags.iter().position(|flag| flag == name) {
        Some(flag) => Ok(mask | 1 << flag),
        None => Err(format!("'{name}' is not a stage or signal of this request")),
    })
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String> + Clone) -> Result<(), String> {
    let twice = names.clone().enumerate().find(|(at, name)| names.clone().take(*at).any(|other| other == *name));
    twice.map_or(Ok(()), |(_, name)| Err(format!("two {what} are named '{name}': rename one")))
}
