//! Compares a configuration with a machine: its CPUs, its processes, and one dry step of every policy.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use quell_linux::Contested;
use quell_model::{
    Capabilities, Clash, CpuSet, Event, Host, Knob, Nanos, NoteKind, Outcome, Part, Plan, Policy, Sample, Selector,
    SignalSet, Topology, Verdict, View, Wake, WorkloadId, clashes,
};

use super::whole::whole_machine;
use super::{Config, Place, Poll, Problems, Severity};
use crate::stack::Stack;

/// A machine's CPUs beside those that work for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct OtherCpus {
    /// Those that may come online.
    pub offline: CpuSet,
    /// Those that the kernel keeps free of what does not ask for them.
    pub isolated: CpuSet,
}

/// Matches of selectors on a machine, and what else it has.
pub trait Matches {
    /// Does anything match this selector? If not: the fix.
    fn find(&mut self, selector: &Selector) -> Result<(), String>;

    /// Overlaps of two of these workloads.
    fn contested(&mut self) -> Vec<Contested> {
        Vec::new()
    }

    /// Its CPUs that are offline, and those that are isolated.
    fn other_cpus(&mut self) -> OtherCpus {
        OtherCpus::default()
    }
}

/// A machine on which every selector matches something.
#[derive(Clone, Copy, Debug)]
pub struct AllMatch;

impl Matches for AllMatch {
    fn find(&mut self, _: &Selector) -> Result<(), String> {
        Ok(())
    }
}

/// Everything that is wrong with a configuration on a machine with these CPUs and this host's capabilities.
#[must_use]
pub fn check(
    config: &Config,
    topology: &Arc<Topology>,
    capabilities: Option<&Capabilities>,
    matches: &mut dyn Matches,
) -> Problems {
    check_rest(config, Problems::default(), topology, capabilities, matches)
}

/// As [`check`], after these problems: problems that would only follow from them are not reported.
#[must_use]
pub fn check_rest(
    config: &Config,
    before: Problems,
    topology: &Arc<Topology>,
    capabilities: Option<&Capabilities>,
    matches: &mut dyn Matches,
) -> Problems {
    let mut problems = before;
    let first = config.policies.first().map(|layer| layer.place.clone());
    let all = cpus(config, topology.all(), matches.other_cpus(), first.as_ref(), &mut problems);
    let was_understood = !problems.are_fatal();
    for layer in &config.policies {
        let Some(capabilities) = capabilities else { break };
        let fidelity = capabilities.fidelity(layer.policy.describe());
        for missing in fidelity.missing {
            problems
                .error(&layer.place, format!("policy '{}' cannot work here: {missing}", layer.policy.describe().name));
        }
        for line in summed_up(layer.policy.describe().name, fidelity.limits) {
            problems.warning(&layer.place, line);
        }
    }
    if let Some(place) = first.as_ref().filter(|_| was_understood) {
        own_scheduler(config, all, place, &mut problems);
    }
    if let Some(place) = first.as_ref().filter(|_| was_understood && config.workloads.is_empty()) {
        let what = "there is no [[workload]], so nothing is managed; `quell check --example` shows one";
        problems.warning(place, what);
    }
    overlaps(config, all, &mut problems);
    for (layer, line) in whole_machine(config, all) {
        problems.warning(&layer.place, line);
    }
    if !problems.are_fatal() {
        dry_step(config, topology, all, &mut problems);
    }
    for member in &config.workloads {
        for selector in &member.workload.selectors {
            if let Err(why) = matches.find(selector) {
                let what = format!("workload '{}': {selector} matches nothing now; {why}", member.workload.name);
                // A service comes and goes; a process number means one process.
                match selector {
                    Selector::Pid(_) => problems.error(&member.place, what),
                    _ => problems.warning(&member.place, what),
                }
            }
        }
    }
    for Contested { workloads: (one, other), first, second, what } in matches.contested() {
        let (Some(one), Some(other)) = (config.workloads.get(one), config.workloads.get(other)) else { continue };
        let (one, name) = (&one.workload.name, &other.workload.name);
        let what = format!(
            "workloads '{one}' and '{name}' both match {what}, by {first} and {second}: a thread belongs to one \
             workload; make one of them more exact"
        );
        problems.error(&other.place, what);
    }
    if !was_understood {
        // Limits are reported once it works.
        problems.0.retain(|problem| problem.severity == Severity::Error);
    }
    problems.sort(&config.files);
    problems
}

/// The CPUs that may be managed, of those that are online; and what is wrong with those of the configuration.
fn cpus(config: &Config, online: CpuSet, other: OtherCpus, first: Option<&Place>, problems: &mut Problems) -> CpuSet {
    let Some(place) = config.places.cpus.as_ref().or(first) else { return online };
    let Some(named) = config.machine.cpus else {
        let free = online.difference(&other.isolated);
        if free == online || free.is_empty() {
            return online;
        }
        let isolated = online.intersection(&other.isolated);
        let what = format!(
            "the CPUs {isolated} are isolated (isolcpus=, nohz_full= or a cpuset partition) and not managed: machine.cpus names \
             those that Quell manages"
        );
        problems.info(place, what);
        return free;
    };
    let missing = named.difference(&online).difference(&other.offline);
    let offline = named.difference(&online).intersection(&other.offline);
    if !missing.is_empty() {
        problems.error(
            place,
            format!("machine.cpus names the CPUs {missing}, which do not exist; this machine has {online}"),
        );
    } else if offline == named {
        let what = format!(
            "machine.cpus names the CPUs {offline} alone, which are offline: bring one online (chcpu -e), or name one of {online}"
        );
        problems.error(place, what);
    } else if !offline.is_empty() {
        let what =
            format!("machine.cpus names the CPUs {offline}, which are offline: they are managed when they come online");
        problems.warning(place, what);
    }
    online
}

/// Limits of a policy on this host: a missing privilege in a line of its own, since another user has it; all others in
/// one line, since no configuration changes them.
fn summed_up(policy: &str, limits: Vec<String>) -> Vec<String> {
    let (rights, others): (Vec<String>, Vec<String>) = limits.into_iter().partition(|limit| limit.contains("CAP_"));
    let mut lines: Vec<String> = rights.iter().map(|limit| format!("policy '{policy}': {limit}")).collect();
    match others.len() {
        0 => {}
        1 => lines.push(format!("policy '{policy}': 1 limit of this host: `quell doctor {policy}` shows it")),
        count => {
            lines.push(format!("policy '{policy}': {count} limits of this host: `quell doctor {policy}` shows them"))
        }
    }
    lines
}

fn own_scheduler(config: &Config, all: CpuSet, place: &Place, problems: &mut Problems) {
    if !config.has_own_scheduler() {
        if config.agent.poll == Poll::Dedicated && config.grants() {
            let what =
                "agent.poll = \"dedicated\" has no effect: CPUs are granted by affinity here, once a millisecond";
            problems.warning(place, what);
        } else if config.agent.poll == Poll::Dedicated {
            let what = "agent.poll = \"dedicated\" is for policies that grant CPUs by Quell's own scheduler: no policy \
                        here does; leave it out";
            problems.error(place, what);
        }
        return;
    }
    let granted = config.scheduled();
    if granted.as_ref().is_some_and(BTreeSet::is_empty) {
        let what = "machine.scheduler = \"quell\" has no effect without a policy that grants CPUs or keeps servers, \
                    such as caladan or vas; add one, or write scheduler = \"auto\"";
        problems.error(place, what);
    }
    if config.pool(all).is_empty() {
        let what = "the loop would occupy the only CPU: write poll = \"adaptive\" under [agent]";
        problems.error(place, what);
    }
    if config.agent.poll == Poll::Dedicated && config.agent.realtime && config.sets_classes() {
        let what = "a polling loop would be real-time beside a policy that sets scheduling classes, and starve kernel threads \
                    on its CPU: write poll = \"adaptive\" under [agent]";
        problems.error(place, what);
    }
    let is_granted = |name: &String| granted.as_ref().is_none_or(|names| names.contains(name));
    for member in config.workloads.iter().filter(|member| is_granted(&member.workload.name)) {
        let by_process = |selector: &&Selector| matches!(selector, Selector::Pid(_) | Selector::Command(_));
        if let Some(selector) = member.workload.selectors.iter().find(by_process) {
            let what = format!(
                "workload '{}' is selected by {selector}: Quell's own scheduler finds threads by their cgroup; put it \
                 into one (systemd-run --scope, or a unit) and select that",
                member.workload.name
            );
            problems.error(&member.place, what);
        }
    }
}

fn overlaps(config: &Config, all: CpuSet, problems: &mut Problems) {
    let layers = config.layers(&ids(config));
    for Clash { first, second, overlap } in clashes(&layers, &config.pool(all)) {
        let name = |layer: usize| config.policies[layer].policy.describe().name;
        let on = match overlap.workload {
            Some(id) => format!("workload '{}'", config.workloads[id.index()].workload.name),
            None => "every workload".into(),
        };
        let what = format!(
            "the policies '{}' ({}) and '{}' would both set {} on {on}: give them different workloads",
            name(first),
            config.policies[first].place,
            name(second),
            overlap.what,
        );
        problems.error(&config.policies[second].place, what);
    }
}

fn ids(config: &Config) -> Vec<Option<WorkloadId>> {
    (0..config.workloads.len() as u32).map(|slot| Some(WorkloadId(slot))).collect()
}

/// Lets every policy decide once as if all workloads were present, and collects its remarks.
fn dry_step(config: &Config, topology: &Arc<Topology>, all: CpuSet, problems: &mut Problems) {
    let mut host = Paper::default();
    let mut view = View::new(Arc::clone(topology));
    view.workloads.spec = config.workloads.iter().map(|member| Some(Arc::new(member.workload.clone()))).collect();
    host.born = ids(config).into_iter().flatten().map(Event::Attached).collect();
    let Ok(mut stack) = Stack::new(config.layers(&ids(config)), view, config.pool(all)) else { return };
    let Ok(_) = stack.turn(&mut host);
    let mut forbidden = BTreeSet::new();
    for (layer, entry) in stack.layers().iter().zip(&config.policies) {
        let policy = entry.policy.describe().name;
        for note in &layer.plan.notes {
            let about = note.about.and_then(|id| config.workloads.get(id.index()));
            let place = about.map_or(&entry.place, |member| &member.place);
            let what = match about {
                Some(member) => format!("workload '{}', policy '{policy}': {}", member.workload.name, note.text),
                None => format!("policy '{policy}': {}", note.text),
            };
            match note.kind {
                NoteKind::Refused => problems.error(place, what),
                NoteKind::Warning => problems.warning(place, what),
                NoteKind::Because => {}
            }
        }
        for setting in &layer.plan.knobs {
            let key = match setting.knob {
                Knob::Partition(true) if !config.machine.partition => "partition",
                Knob::Preemption(_) if !config.machine.preemption => "preemption",
                _ => continue,
            };
            if forbidden.insert((policy, key)) {
                let what = format!(
                    "policy '{policy}' needs machine.{key}: write {key} = true under [machine], or change \
                                    the policy's parameters"
                );
                problems.error(&entry.place, what);
            }
        }
    }
}

/// A host on which every workload is there, nothing runs and every command succeeds.
#[derive(Default)]
struct Paper {
    born: Vec<Event>,
}

impl Host for Paper {
    type Error = Infallible;

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn observe(&mut self, _: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), Infallible> {
        events.append(&mut self.born);
        // No thread waits where nothing runs.
        let no_delay = Sample::exact(Nanos::ZERO, view.now);
        view.workloads.queueing_delay.resize(view.workloads.spec.len(), no_delay);
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), Infallible> {
        if plan.is_idle() {
            return Ok(());
        }
        let verdict = Verdict::Applied(Nanos::ZERO);
        events.push(Event::Outcome(Outcome { plan: plan.number, part: Part::Knobs, verdict }));
        Ok(())
    }

    fn wait(&mut self, _: Wake) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_configuration_changes_is_one_line_a_policy() {
        let limits = |texts: &[&str]| summed_up("guard", texts.iter().map(ToString::to_string).collect());
        assert!(limits(&[]).is_empty());
        assert_eq!(
            limits(&["knob 'pause': p"]),
            ["policy 'guard': 1 limit of this host: `quell doctor guard` shows it"]
        );
        assert_eq!(
            limits(&["knob 'pause': p", "knob 'scheduling class': without CAP_SYS_NICE", "signal 'x': y"]),
            [
                "policy 'guard': knob 'scheduling class': without CAP_SYS_NICE",
                "policy 'guard': 2 limits of this host: `quell doctor guard` shows them"
            ]
        );
    }

    /// A machine with the CPUs 0 and 1, and others.
    struct With(OtherCpus);

    impl Matches for With {
        fn find(&mut self, _: &Selector) -> Result<(), String> {
            Ok(())
        }

        fn other_cpus(&mut self) -> OtherCpus {
            self.0
        }
    }

    fn said(machine: &str, offline: &str, isolated: &str) -> (Option<Severity>, String) {
        let text = format!(
            "{machine}\n[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"a\"\nclass = \"be\"\nmatch = [{{ cgroup = \"a\" }}]\n"
        );
        let config = crate::config::read_text(std::path::Path::new("quell.toml"), &text).unwrap();
        let set = |text: &str| text.parse().unwrap_or_default();
        let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
        let other = OtherCpus { offline: set(offline), isolated: set(isolated) };
        let found = check_rest(&config, Problems::default(), &topology, None, &mut With(other));
        (found.0.first().map(|problem| problem.severity), found.to_string())
    }

    #[test]
    fn an_offline_cpu_may_be_named_beside_one_that_is_online() {
        let (severity, text) = said("machine.cpus = \"1-2\"", "2-3", "");
        assert!(
            severity == Some(Severity::Warning) && text.contains("CPUs 2, which are offline: they are managed"),
            "{text}"
        );
        let (severity, text) = said("machine.cpus = \"2\"", "2-3", "");
        assert!(severity == Some(Severity::Error) && text.contains("chcpu -e), or name one of 0-1"), "{text}");
        let (severity, text) = said("machine.cpus = \"1,4\"", "2-3", "");
        assert!(severity == Some(Severity::Error) && text.contains("CPUs 4, which do not exist"), "{text}");
        assert_eq!(said("machine.cpus = \"1\"", "2-3", "").0, None);
    }

    #[test]
    fn isolated_cpus_are_named_where_they_are_left_out() {
        let (severity, text) = said("", "", "1,3");
        assert!(severity == Some(Severity::Info) && text.contains("the CPUs 1 are isolated"), "{text}");
        assert_eq!(said("machine.cpus = \"1\"", "", "1").0, None, "it is named");
        assert_eq!(said("", "", "0-1").0, None, "all are: none is kept for others");
    }

    #[test]
    fn a_loop_of_its_own_has_a_cpu_that_is_online() {
        let text = "machine = { scheduler = \"quell\", cpus = \"0-3\" }\nagent.poll = \"dedicated\"\n[[policy]]\nname = \"caladan\"\n";
        let config = crate::config::read_text(std::path::Path::new("quell.toml"), text).unwrap();
        let online = "0-1".parse().unwrap();
        assert_eq!(config.loops_cpu(online), Some(quell_model::CpuId(1)));
        assert_eq!(config.pool_to_come((online, "0-3".parse().unwrap())), "0,2-3".parse().unwrap());
    }
}
