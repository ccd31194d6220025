//! Leased workloads: taken into the running configuration, and out of it when their callers are gone.

use std::collections::BTreeMap;

use quell_model::{CpuCount, Event, Host as _, Part, Policy as _, Target, Verdict, WorkloadId};

use super::agent::Agent;
use super::check::check_in;
use super::pods::Followed;
use super::proving::Proving;
use crate::api::control::Answer;
use crate::config::whole::whole_machine;
use crate::config::{self, AllMatch, Config, Leased, Problems};
use crate::explain::knob_text;
use crate::stack::{self, Layer};
use crate::wire::{Problem, Protect, Protected, Resize};

/// Leased workloads at once.
const MOST: usize = 64;
/// Turns until a leased workload has been looked at; a look at many workloads takes several.
const TURNS: u32 = 100;

/// The leased workloads of an agent.
#[derive(Debug)]
pub(super) struct Leases {
    /// The configuration in the files, without them.
    pub(super) base: Config,
    /// By number.
    held: BTreeMap<u64, Leased>,
    /// The node's pods.
    pub(super) pods: Followed,
    waiting: Vec<Waiting>,
    /// The experiment that runs: a lease of the whole agent, or of one workload's policy.
    pub(super) proving: Option<Proving>,
}

/// A caller that gets its answer when the first settings are in force.
#[derive(Debug)]
struct Waiting {
    lease: u64,
    answer: Answer,
    turns: u32,
}

impl Leases {
    /// None yet, beside these pods.
    pub fn beside(base: Config, pods: Followed) -> Leases {
        Leases { base, held: BTreeMap::new(), pods, waiting: Vec::new(), proving: None }
    }

    /// This configuration with all leased workloads, and the node's pods.
    ///
    /// # Errors
    /// The first that does not fit it, with the fix.
    pub fn over(&self, base: &Config) -> Result<Config, String> {
        Ok(self.without_pods(base)?.with_pods(self.pods.there()))
    }

    /// The same with one more.
    ///
    /// # Errors
    /// Why it does not fit, with the fix.
    fn with(&self, leased: &Leased) -> Result<Config, String> {
        Ok(self.without_pods(&self.base)?.with_leased(leased)?.with_pods(self.pods.there()))
    }

    /// As `over`, without pods.
    ///
    /// # Errors
    /// The first that does not fit it, with the fix.
    pub fn without_pods(&self, base: &Config) -> Result<Config, String> {
        self.held.values().try_fold(base.clone(), |config, leased| {
            config.with_leased(leased).map_err(|why| format!("{}: {why}; or end the lease", leased.place()))
        })
    }
}

/// A refusal in one line.
fn refusal(line: &str) -> Problem {
    let line = line.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let (error, fix) = line.rsplit_once("; ").unwrap_or((&line, "see `quell status`"));
    Problem { error: error.to_owned(), fix: fix.to_owned() }
}

fn refused<T>(line: impl AsRef<str>) -> Result<T, Problem> {
    Err(refusal(line.as_ref()))
}

impl Agent {
    /// Takes a leased workload in; the caller is answered when its first settings are in force.
    pub(super) fn lease(&mut self, protect: &Protect, by: &str, number: u64, answer: Answer) {
        match self.take_in(protect, by, number) {
            Ok(()) => {
                tracing::info!(workload = %protect.name, "leased by {by}");
                self.leases.waiting.push(Waiting { lease: number, answer, turns: 0 });
            }
            // The caller may have gone.
            Err(problem) => _ = answer.send(Err(problem)),
        }
    }

    fn take_in(&mut self, protect: &Protect, by: &str, number: u64) -> Result<(), Problem> {
        if self.only_looks() {
            return refused(
                "this agent only observes (--dry-run, --shadow) and sets nothing; use one that runs without these options",
            );
        }
        if let Some(off) = self.switch.reported() {
            return refused(format!("the agent is switched off by {}; run `quell on` first", off.by.join(", ")));
        }
        if self.leases.held.len() >= MOST {
            return refused(format!("{MOST} workloads are already leased; write some into the configuration"));
        }
        self.look_at(protect)?;
        let leased = Leased::new(protect, by).map_err(|why| refusal(&why))?;
        let config = self.leases.with(&leased).map_err(|why| refusal(&why))?;
        self.fits(&config, &leased)?;
        let (topology, capabilities) = (self.host.topology(), self.host.capabilities());
        let (problems, _) = check_in(self.host.roots(), &config, Problems::default(), &topology, &capabilities)
            .map_err(|error| refusal(&error.to_string()))?;
        no_error(&problems, &leased)?;
        self.leases.held.insert(number, leased.joined(&config));
        self.adopt(config).inspect_err(|_| _ = self.leases.held.remove(&number))
    }

    /// The processes that the caller means are there, and in no workload.
    fn look_at(&self, protect: &Protect) -> Result<(), Problem> {
        let named = protect.processes.iter().map(|process| (process.pid, Some(process.start)));
        let selected = protect.selectors.iter().filter_map(|selector| match selector {
            crate::wire::Match::Pid(pid) => Some((*pid, None)),
            _ => None,
        });
        for (pid, start) in named.chain(selected) {
            let found = self.host.process(pid).filter(|found| start.is_none_or(|start| found.start == start));
            let Some(found) = found else {
                return refused(format!("process {pid} has ended; resolve the target again"));
            };
            if let Some(owner) = self.host.workload_of(Target::Thread(found)) {
                return refused(format!("process {pid} is already in workload '{owner}'; see `quell why {owner}`"));
            }
        }
        Ok(())
    }

    /// Are there CPUs for what this workload asks for?
    fn fits(&self, config: &Config, leased: &Leased) -> Result<(), Problem> {
        let all = self.host.topology().all();
        let pool = config.pool(all);
        let (asked, there) = (leased.workload.cpus, CpuCount::whole(pool.len() as u32));
        if asked > there {
            return refused(format!(
                "{asked} CPUs are more than Quell manages here ({pool}); request fewer than {there}"
            ));
        }
        match whole_machine(config, all).first().filter(|_| whole_machine(&self.leases.base, all).is_empty()) {
            Some((_, line)) => refused(line),
            None => Ok(()),
        }
    }

    /// Another number of CPUs for a leased workload.
    pub(super) fn resize(&mut self, resize: &Resize) -> Result<Protected, Problem> {
        let name = &resize.workload;
        let found = self.leases.held.iter().find(|(_, leased)| leased.workload.name == *name);
        let Some((&number, leased)) = found else {
            return match self.config.workload(name) {
                Some(_) => refused(format!("workload '{name}' is in the configuration; change it there, and reload")),
                None => refused(format!("there is no workload '{name}'; see `quell status`")),
            };
        };
        let before = leased.clone();
        let mut leased = before.clone();
        leased.workload.cpus = CpuCount::try_from(resize.cpus).map_err(|why| refusal(&why))?;
        leased.workload.check().map_err(|error| refusal(&error.to_string()))?;
        self.leases.held.insert(number, leased.clone());
        let fitting = self.leases.over(&self.leases.base).map_err(|why| refusal(&why)).and_then(|config| {
            self.fits(&config, &leased)?;
            let capabilities = self.host.capabilities();
            // Who matches its selectors is known.
            let problems = config::check(&config, &self.host.topology(), Some(&capabilities), &mut AllMatch);
            no_error(&problems, &leased)?;
            Ok(config)
        });
        match fitting.and_then(|config| self.adopt(config)) {
            Ok(()) => Ok(self.protected(&leased)),
            Err(problem) => {
                self.leases.held.insert(number, before);
                Err(problem)
            }
        }
    }

    /// The caller is gone: what was set on its workload is put back.
    pub(super) fn end_lease(&mut self, number: u64) {
        self.leases.waiting.retain(|waiting| waiting.lease != number);
        let Some(leased) = self.leases.held.remove(&number) else { return };
        tracing::info!(workload = %leased.workload.name, "its lease, by {}, has ended", leased.by);
        let rest = self.leases.over(&self.leases.base);
        let adopted = rest.map_err(|why| refusal(&why)).and_then(|config| self.adopt(config));
        if let Err(Problem { error, fix }) = adopted {
            // With less to fit than before.
            tracing::error!("{error}; {fix}");
        }
    }

    /// Takes the node's pods in that came, and out those that went.
    pub(super) fn follow_pods(&mut self) {
        if !self.leases.pods.has_news() {
            return;
        }
        let adopted = self.leases.over(&self.leases.base).map_err(|why| refusal(&why));
        if let Err(Problem { error, fix }) = adopted.and_then(|config| self.adopt(config)) {
            tracing::error!("the node's pods cannot be taken in: {error}; {fix}");
        }
    }

    /// Works with this configuration from now on, whose first layers are those of the files: workloads come and go, and the layers
    /// that leased ones brought. The others are not disturbed.
    pub(super) fn adopt(&mut self, mut config: Config) -> Result<(), Problem> {
        let own = self.leases.base.policies.len();
        let name = |layer: &config::Layer| layer.policy.describe().name;
        let place_in = |list: &[config::Layer], wanted| list.iter().skip(own).position(|layer| name(layer) == wanted);
        // Those that are there keep their order.
        let known = &self.config.policies;
        config.policies[own..].sort_by_key(|layer| place_in(known, name(layer)).unwrap_or(usize::MAX));
        let come = config.policies.iter().skip(own).filter(|layer| place_in(known, name(layer)).is_none());
        let new = come.map(|layer| Layer::new(layer.policy.clone(), Some(Vec::new()))).collect();
        for (came, layer) in stack::curbed(new, &self.host.capabilities()).into_iter().enumerate() {
            let policy = layer.policy.describe().name;
            if self.stack.push(layer).is_err() {
                (0..came).for_each(|_| self.drop_layer(self.stack.layers().len() - 1));
                return refused(format!(
                    "policy '{policy}' would set what another policy sets; request another policy"
                ));
            }
            self.observers.layer_came();
        }
        // What the layers that go had set goes with their workloads.
        self.membership.configure(&config, &mut self.host, quell_thread::clock::now());
        for at in (own..self.config.policies.len()).rev() {
            if place_in(&config.policies, name(&self.config.policies[at])).is_none() {
                self.drop_layer(at);
            }
        }
        self.config = config;
        self.assign();
        self.raise_if_needed();
        self.look_for_warnings(true, quell_thread::clock::now());
        self.inform();
        Ok(())
    }

    fn drop_layer(&mut self, at: usize) {
        self.stack.remove(at);
        self.observers.layer_went(at);
    }

    /// Answers the callers whose workloads have been looked at; what could not be attached is taken out. To be called at a turn's
    /// end, when its plans are in force.
    pub(super) fn answer_leases(&mut self) {
        for mut waiting in std::mem::take(&mut self.leases.waiting) {
            let Some(leased) = self.leases.held.get(&waiting.lease) else { continue };
            let name = &leased.workload.name;
            let line = match self.membership.standing(name) {
                None if waiting.turns < TURNS => {
                    waiting.turns += 1;
                    self.leases.waiting.push(waiting);
                    continue;
                }
                Some((Some(id), _)) if self.host.thread_count(id) > 0 => {
                    let _ = waiting.answer.send(Ok(self.protected(leased)));
                    continue;
                }
                Some((Some(_), _)) => format!(
                    "workload '{name}' has no thread of its own: what it matches has ended, or is in other workloads; see \
                     `quell status`"
                ),
                Some((None, why)) => format!("workload '{name}': {}", why.unwrap_or("it cannot be managed")),
                None => format!("workload '{name}' could not be scanned in time; try again"),
            };
            self.end_lease(waiting.lease);
            let _ = waiting.answer.send(refused(line));
        }
    }

    /// What is set on a leased workload, by the last plans.
    fn protected(&self, leased: &Leased) -> Protected {
        let workload = &leased.workload;
        let id = self.membership.standing(&workload.name).and_then(|(id, _)| id);
        let owns =
            |layer: &&Layer| layer.workloads.as_ref().is_none_or(|owned| id.is_some_and(|id| owned.contains(&id)));
        let layers: Vec<&Layer> = self.stack.layers().iter().filter(owns).collect();
        let prefix = format!("workload '{}': ", workload.name);
        let warnings = self.warnings.lines().iter().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned);
        Protected {
            workload: workload.name.clone(),
            policies: layers.iter().map(|layer| layer.policy.describe().name.to_owned()).collect(),
            cpus_requested: workload.cpus.as_f64(),
            threads: id.map_or(0, |id| self.host.thread_count(id) as u32),
            set: layers.iter().flat_map(|layer| set_by(layer, id)).collect(),
            warnings: warnings.chain(layers.iter().filter_map(|layer| refused_to(layer))).collect(),
        }
    }
}

fn no_error(problems: &Problems, leased: &Leased) -> Result<(), Problem> {
    let place = leased.place();
    let mut errors = problems.of(config::Severity::Error).filter(|problem| problem.place.file == place.file);
    errors.next().map_or(Ok(()), |problem| refused(&problem.what))
}

/// What a layer's last plan set on a workload, in words.
fn set_by(layer: &Layer, id: Option<WorkloadId>) -> Vec<String> {
    if refused_to(layer).is_some() {
        return Vec::new();
    }
    let on_it = |target: Target| id.is_some_and(|id| target == Target::Workload(id));
    layer.plan.knobs.iter().filter(|setting| on_it(setting.target)).map(|setting| knob_text(&setting.knob)).collect()
}

/// Why the host refused a layer's last knobs, if it did.
fn refused_to(layer: &Layer) -> Option<String> {
    layer.outcomes.iter().find_map(|event| match event {
        Event::Outcome(outcome) if outcome.part == Part::Knobs => match &outcome.verdict {
            Verdict::Refused(why) => Some(format!("policy {} could not set it: {why}", layer.policy.describe().name)),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
#[path = "leases_tests.rs"]
mod tests;
