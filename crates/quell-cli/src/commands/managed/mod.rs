//! A workload under a policy and a guardian, without an agent: what `quell exec` and `quell protect` have in common.

mod asked;
pub mod demand;
mod resized;
mod subject;
mod voice;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow, bail};
use quell_agent::AgentError;
use quell_agent::api::{Client, wire};
use quell_agent::config::unused::unused;
use quell_agent::drive::{LONGEST_SETTLING, while_driving};
use quell_agent::guardian::{News, Options, RunDir, Worker, supervise};
use quell_agent::run::Alone;
use quell_agent::stack::{self, Layer};
use quell_linux::cgroup::Controller;
use quell_linux::sched::{Kernel, ThreadCalls as _, ThreadClass};
use quell_linux::scheduler::Affinity;
use quell_linux::write::{Conflict, Journal};
use quell_linux::{HostOptions, LimitState, LinuxHost, Roots};
use quell_model::{
    Capabilities, CpuCount, CpuSet, Host, KnobKind, Policy, SchedClass, View, Workload, amount, foreign,
};
use quell_policy::AnyPolicy;

pub use asked::{Asked, Say};
use demand::Meter;
use resized::{Resized, Wish};
pub use subject::{CAUGHT, FAILED, LOOK, Subject, has_ended, name_of};
use voice::{Managed, Voice};

/// Quell's own loop runs above the real-time threads that it limits, and at this priority if the policy names none.
const OWN_PRIORITY: u8 = 2;

/// What is asked for.
pub struct Terms {
    /// The workload; its selectors are the subject's.
    pub workload: Workload,
    /// The policy.
    pub policy: AnyPolicy,
    /// Does the guardian take what the subject leaves behind?
    pub keeps_orphans: bool,
    /// Does the request follow the demand?
    pub follows: bool,
    /// What is said.
    pub say: Say,
}

/// A subject, or the exit status that says why there is none, and the cgroup of its own that keeps its limit.
pub type Made<S> = Result<Result<(S, Option<Controller>), u8>>;

/// Manages what `make` makes, in a guardian's worker, until it ends; everything is put back then, whatever ends it. Returns
/// the exit status.
///
/// # Errors
/// If there can be no guardian.
pub fn under_guardian<S: Subject>(terms: &Terms, make: &mut dyn FnMut(&Worker) -> Made<S>) -> Result<u8> {
    // The guardian's claim; the work itself is done in its child (see `quell_agent::guardian`).
    let claim = RunDir::locate(None)?.claim(&format!("exec-{}", std::process::id()))?;
    let socket = claim.socket();
    let mut options = Options::new(claim);
    options.keep_orphans = terms.keeps_orphans;
    options.news = Box::new(|news: News<'_>| {
        if let News::Died { how, .. } = news {
            eprintln!("quell: {how}; everything is put back, and what was managed goes on unmanaged");
        }
    });
    let ending = supervise(options, &mut |worker, journal| {
        let managed = host(&terms.policy, journal).and_then(|host| manage_on(host, terms, worker, make, &socket));
        managed.unwrap_or_else(|error| {
            eprintln!("quell: {error:#}");
            FAILED
        })
    })?;
    Ok(ending.exit_status())
}

/// The host that a policy works on here.
fn host(policy: &AnyPolicy, journal: Box<dyn Journal>) -> Result<LinuxHost> {
    let host = LinuxHost::new(Roots::default(), HostOptions::default())?.with_journal(journal);
    if !policy.describe().grants {
        return Ok(host);
    }
    // As `quell run` does on the kernel's scheduler: Quell's own takes every thread of the machine.
    let scheduler = Affinity::new(&host.topology(), host.cpus().1, None);
    Ok(host.with_scheduler(scheduler)?)
}

/// Starts or takes what is to be managed, and manages it until it ends, or the guardian is gone.
fn manage_on<S: Subject>(
    host: LinuxHost,
    terms: &Terms,
    worker: &Worker,
    make: &mut dyn FnMut(&Worker) -> Made<S>,
    socket: &Path,
) -> Result<u8> {
    let policy = terms.policy.clone();
    let fidelity = host.capabilities().fidelity(policy.describe());
    if !fidelity.missing.is_empty() {
        bail!(AgentError::Unfit { policy: policy.describe().name, missing: fidelity.missing });
    }
    for limit in fidelity.limits.iter().filter(|_| terms.say.verbose) {
        eprintln!("quell: {limit}");
    }
    let layers = stack::curbed(quell_daemon::layers_of(policy), &host.capabilities());
    let given = layers.iter().filter_map(|layer| layer.policy.priority()).max();
    let priority = layers.iter().any(sets_classes).then_some(given.map_or(OWN_PRIORITY, |given| given + 1));
    let pool = host.cpus().1;
    let mut stack = stack::over(layers, View::new(host.topology()), pool)?;

    let (mut subject, controller) = match make(worker)? {
        Ok(made) => made,
        Err(status) => return Ok(status),
    };
    let workload = Workload { selectors: subject.selectors(), ..terms.workload.clone() };
    let wish = Wish::default();
    let mut host = Resized::new(host, &wish);
    let held = match (subject.held(), &controller, workload.limit) {
        (Some(pid), Some(controller), Some(limit)) => {
            let pid = pid.as_raw_nonzero().get();
            let made = host
                .inner()
                .hold_to(controller, limit, pid)
                .map_err(|error| anyhow!("--limit {limit} cannot be kept: {error}"));
            made.and_then(|()| may_be_real_time(&workload, stack.layers(), pid, controller))
        }
        _ => Ok(()),
    };
    let attached = held.and_then(|()| host.attach(workload.clone()).map_err(|error| anyhow!("{error}")));
    let managed = attached.and_then(|id| {
        if let Some(conflict) = host.inner().look_for_conflict()? {
            let whose = workload_of(&conflict).map_or_else(String::new, |name| format!(" as workload '{name}'"));
            bail!(
                "thread {} is managed already{whose}: {}; nothing is set on it here",
                conflict.thread.tid,
                conflict.by
            );
        }
        let mut voice = Voice::new(terms.say.verbose);
        let own = controller.as_ref().map(|controller| LimitState::Kept(controller.quota_file()));
        let limit = own.or_else(|| host.inner().limit_state(id).cloned());
        beyond(&workload, pool);
        warn(&workload, stack.layers(), &host.capabilities(), limit.as_ref());
        if !terms.say.quiet {
            voice.managed = Some(Managed { name: workload.name.clone(), id, limit: workload.limit.zip(limit) });
        }
        let say = |what: String| {
            if !terms.say.quiet {
                eprintln!("quell: {}: {what}", workload.name);
            }
        };
        if !workload.is_lc() {
            subject.begin();
        }
        let work = |in_force: bool| {
            if !in_force {
                say(format!(
                    "the policy's first plan has not settled within {LONGEST_SETTLING}; it begins all the same"
                ));
            }
            let meter = if terms.follows { Some(Meter::of(workload.selectors.clone())?) } else { None };
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                if let Some(meter) = meter {
                    let follow = || {
                        demand::follow(meter, workload.cpus, pool.len() as u32, &over, &|cpus| {
                            wish.make(cpus.min(workload.limit.unwrap_or(cpus)))
                        })
                    };
                    thread::Builder::new().name("quell-demand".into()).spawn_scoped(scope, follow)?;
                }
                let waited = subject.wait(worker, &say);
                over.store(true, Ordering::Release);
                waited
            })
        };
        let alone = match Alone::start(socket, "exec", host.inner(), &mut stack, (id, &workload), quell_linux::now()) {
            Ok((alone, answers)) => {
                host.answers = Some(answers);
                Some(alone)
            }
            Err(error) => {
                eprintln!("quell: {}: `quell status` does not see it: {error}", workload.name);
                None
            }
        };
        let mut witness = (voice, alone);
        let on_failure = || worker.stop().store(true, Ordering::Release);
        while_driving(&mut stack, &mut host, &mut witness, priority, &on_failure, work)?
    });
    if managed.is_err() {
        subject.give_up();
    }
    for left in host.inner().restore().left {
        eprintln!("quell: {left}");
    }
    managed
}

/// Refuses a quota under which a policy could not make the threads real-time: with RT group scheduling a cgroup without a
/// budget for that has no such threads. The process that is tried has not executed its program yet.
fn may_be_real_time(workload: &Workload, layers: &[Layer], pid: i32, controller: &Controller) -> Result<()> {
    let Some(layer) = layers.iter().find(|layer| sets_classes(layer)).filter(|_| workload.is_lc()) else {
        return Ok(());
    };
    let mut calls = Kernel::new()?;
    let fifo = ThreadClass::of(SchedClass::Fifo { priority: 1 });
    let before = calls.class(pid)?;
    let tried = calls.set_class(pid, &fifo);
    calls.set_class(pid, &before)?;
    if tried.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        bail!(
            "--limit takes a cgroup of its own ({}), and this kernel gives one without real-time budget (RT group scheduling) no \
             SCHED_FIFO, which policy {} sets: leave --limit out, or take --policy rkube",
            controller.group().path.display(),
            layer.policy.describe().name
        );
    }
    Ok(())
}

/// The workload of which another Quell has a thread, if that one answers.
fn workload_of(conflict: &Conflict) -> Option<String> {
    let client = Client::new(conflict.socket.as_ref().filter(|socket| socket.exists())?).ok()?;
    let thread: wire::Thread = client.get(&format!("/v1/threads/{}", conflict.thread.tid)).ok()?;
    (thread.start == conflict.thread.start).then(|| foreign::text(&thread.workload).to_string())
}

fn sets_classes(layer: &Layer) -> bool {
    layer.policy.describe().knobs.iter().any(|need| need.what == KnobKind::Class)
}

/// Says that more was asked for than there is.
fn beyond(workload: &Workload, pool: CpuSet) {
    let there = CpuCount::whole(pool.len() as u32);
    if workload.cpus > there {
        let cpus = amount(pool.len(), "CPU", "CPUs");
        eprintln!("quell: {}: --cpus {} is more than this machine has, which is {cpus}", workload.name, workload.cpus);
    }
}

/// Says what was asked for and nothing acts on.
fn warn(workload: &Workload, layers: &[Layer], capabilities: &Capabilities, limit: Option<&LimitState>) {
    let policies: Vec<_> = layers.iter().map(|layer| layer.policy.describe()).collect();
    let mut obstacle = |_: &Workload| match limit {
        Some(LimitState::NotKept(why)) => Some(why.clone()),
        _ => None,
    };
    for line in unused(workload, &policies, Some(capabilities), &mut obstacle) {
        eprintln!("quell: {}: {line}", workload.name);
    }
}
