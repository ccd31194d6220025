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
    Capabilities, CpuCount, CpuSet, Description, Host, KnobKind, Policy, SchedClass, View, Workload, amount, foreign,
};
use quell_policy::AnyPolicy;

pub use asked::{Asked, Say, steps_of};
use demand::{Follow, Meter, Steps};
use resized::{Resized, Wish};
pub use subject::{CAUGHT, FAILED, LOOK, Subject, has_ended, name_of};
use voice::{Managed, Voice};

/// Quell's own loop runs above the real-time threads that it limits, and at this priority if the policy names none.
const OWN_PRIORITY: u8 = 2;

/// What is asked for.
pub struct Terms {
    /// The subcommand.
    pub command: &'static str,
    /// The workload; its selectors are the subject's.
    pub workload: Workload,
    /// The policy.
    pub policy: AnyPolicy,
    /// Does the guardian take what the subject leaves behind?
    pub keeps_orphans: bool,
    /// The steps in which the request follows the demand; None: it does not.
    pub follows: Option<Steps>,
    /// What is said.
    pub say: Say,
    /// Was it managed before by this process? What was said then is not said again.
    pub again: bool,
}

/// A subject, or the exit status that says why there is none, and the cgroup of its own that keeps its limit.
pub type Made<S> = Result<Result<(S, Option<Controller>), u8>>;

/// Manages what `make` makes, in a guardian's worker, until it ends; everything is put back then, whatever ends it. Returns
/// the exit status.
///
/// # Errors
/// If there can be no guardian.
pub fn under_guardian<S: Subject>(terms: &Terms, make: &mut dyn FnMut(&Worker) -> Made<S>) -> Result<u8> {
    guarded(terms.command, terms.keeps_orphans, &mut |worker, journal, socket| {
        once(terms, worker, journal, make, socket).map(|(status, _)| status)
    })
}

/// Work in a guardian's worker: with the journal for what it sets, and the socket at which it answers.
pub type Guarded<'a> = &'a mut dyn FnMut(&Worker, Box<dyn Journal>, &Path) -> Result<u8>;

/// Does work in a guardian's worker, which may set things with the journal that it gets, and answers at the socket; what is left set
/// at its end is put back. Returns the exit status.
///
/// # Errors
/// If there can be no guardian.
pub fn guarded(command: &str, keeps_orphans: bool, work: Guarded<'_>) -> Result<u8> {
    // The guardian's claim; the work itself is done in its child (see `quell_agent::guardian`).
    let claim = RunDir::locate(None)?.claim(&format!("{command}-{}", std::process::id()))?;
    let socket = claim.socket();
    let mut options = Options::new(claim);
    options.keep_orphans = keeps_orphans;
    options.news = Box::new(|news: News<'_>| {
        if let News::Died { how, .. } = news {
            eprintln!("quell: {how}; everything is put back, and the workload continues unmanaged");
        }
    });
    let ending = supervise(options, &mut |worker, journal| {
        work(worker, journal, &socket).unwrap_or_else(|error| {
            eprintln!("quell: {error:#}");
            FAILED
        })
    })?;
    Ok(ending.exit_status())
}

/// Manages what `make` makes until it ends, and puts everything back; also returns the journal, for another time.
///
/// # Errors
/// If it cannot be managed.
pub fn once<S: Subject>(
    terms: &Terms,
    worker: &Worker,
    journal: Box<dyn Journal>,
    make: &mut dyn FnMut(&Worker) -> Made<S>,
    socket: &Path,
) -> Result<(u8, Box<dyn Journal>)> {
    manage_on(host(&terms.policy, journal)?, terms, worker, make, socket)
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

/// Which mechanism stands in for Quell's scheduler, if the policy wants that.
fn stand_in(policy: &Description) -> Option<String> {
    policy.grants.then(|| {
        format!(
            "{} lends CPUs by affinity here, once a millisecond: Quell's own scheduler, which it is made for, is loaded by `quell run` \
             alone",
            policy.name
        )
    })
}

/// Starts or takes what is to be managed, and manages it until it ends, or the guardian is gone.
fn manage_on<S: Subject>(
    mut host: LinuxHost,
    terms: &Terms,
    worker: &Worker,
    make: &mut dyn FnMut(&Worker) -> Made<S>,
    socket: &Path,
) -> Result<(u8, Box<dyn Journal>)> {
    let policy = terms.policy.clone();
    let fidelity = host.capabilities().fidelity(policy.describe());
    if !fidelity.missing.is_empty() && !rustix::process::geteuid().is_root() {
        bail!(
            "policy {} cannot work without root: run `sudo quell {} …` (a command that it starts is root's then), or use --policy none",
            policy.describe().name,
            terms.command
        );
    }
    if !fidelity.missing.is_empty() {
        bail!(AgentError::Unfit { policy: policy.describe().name, missing: fidelity.missing });
    }
    for limit in fidelity.limits.iter().filter(|_| terms.say.verbose) {
        eprintln!("quell: {limit}");
    }
    if let Some(line) = stand_in(policy.describe()).filter(|_| !terms.say.quiet && !terms.again) {
        eprintln!("quell: {}: {line}", terms.workload.name);
    }
    let layers = stack::curbed(quell_daemon::layers_of(policy), &host.capabilities());
    let given = layers.iter().filter_map(|layer| layer.policy.priority()).max();
    let priority = layers.iter().any(sets_classes).then_some(given.map_or(OWN_PRIORITY, |given| given + 1));
    let pool = host.cpus().1;
    let mut stack = stack::over(layers, View::new(host.topology()), pool)?;

    let (mut subject, controller) = match make(worker)? {
        Ok(made) => made,
        Err(status) => return Ok((status, host.take_journal())),
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
                "thread {} is already managed{whose}: {}; nothing is set on it here",
                conflict.thread.tid,
                conflict.by
            );
        }
        let mut voice = Voice::new(terms.say.verbose);
        let own = controller.as_ref().map(|controller| LimitState::Kept(controller.quota_file()));
        let limit = own.or_else(|| host.inner().limit_state(id).cloned());
        if !terms.again {
            beyond(&workload, pool);
            warn(&workload, stack.layers(), &host.capabilities(), limit.as_ref());
        }
        if !terms.say.quiet && !terms.again {
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
                say(format!("the policy's first plan is not in force after {LONGEST_SETTLING}; starting anyway"));
            }
            let following = match terms.follows {
                Some(steps) => Some((
                    Meter::of(workload.selectors.clone())?,
                    Follow::from(workload.cpus, pool.len() as u32, steps),
                )),
                None => None,
            };
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                if let Some((meter, follow)) = following {
                    let follow = || {
                        demand::follow(meter, follow, &over, &|cpus| {
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
        let alone =
            match Alone::start(socket, terms.command, host.inner(), &mut stack, (id, &workload), quell_linux::now()) {
                Ok((alone, answers)) => {
                    host.answers = Some(answers);
                    Some(alone)
                }
                Err(error) => {
                    eprintln!("quell: {}: `quell status` does not list it: {error}", workload.name);
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
    managed.map(|status| (status, host.inner().take_journal()))
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
            "--limit needs a new cgroup ({}), which has no real-time budget on this kernel (RT group scheduling) and so no \
             SCHED_FIFO, which policy {} sets: leave --limit out, or use --policy rkube",
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
