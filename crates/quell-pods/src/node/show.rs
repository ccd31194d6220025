//! What there is to show of the node's pods, and why there is no room.

use std::collections::BTreeMap;

use quell_model::CpuCount;

use super::reservations::{Held, Place, Reservations};
use super::tracked::{Stage, Tracked};
use super::{Node, SHARES_OF_A_CPU};
use crate::class::{Class, classify};
use crate::path::PodPath;
use crate::pod::Sandbox;
use crate::request::{limit, requested};
use crate::rules::Mode;
use crate::strict::is_strict;
use crate::view::{ContainerView, PodView};

/// Pods named in a refusal; the rest is counted.
const NAMED: usize = 3;

/// The pods, by namespace and name.
pub(super) fn pods(node: &Node) -> Vec<PodView> {
    let mut sandboxes: Vec<&Sandbox> = node.sandboxes.values().collect();
    sandboxes.sort_by_key(|sandbox| (&sandbox.namespace, &sandbox.name, &sandbox.id));
    let mut containers = node.by_sandbox();
    let mut its = |sandbox: &Sandbox| containers.remove(sandbox.id.as_str()).unwrap_or_default();
    sandboxes.into_iter().map(|sandbox| pod(node, sandbox, its(sandbox))).collect()
}

fn pod(node: &Node, sandbox: &Sandbox, mut its: Vec<&Tracked>) -> PodView {
    its.sort_by_key(|tracked| (&tracked.container.name, &tracked.container.id));
    let lasting: Vec<&Tracked> = its.iter().copied().filter(|tracked| tracked.stage != Stage::Stopped).collect();
    let place = PodPath::of(sandbox);
    let qos = place.as_ref().ok().map(|place| place.qos);
    let asked: CpuCount = lasting.iter().map(|tracked| requested(&tracked.container, qos)).sum();
    let any = (!lasting.is_empty()).then_some(());
    let limits: Option<CpuCount> = any.and_then(|()| lasting.iter().map(|tracked| limit(&tracked.container)).sum());

    let mut remarks = Vec::new();
    let (mut class, mut strict) = (Class::Unmanaged, false);
    match &place {
        Ok(place) => {
            let (its_class, remark) = classify(sandbox, place.qos, any.map(|()| asked), &node.rules);
            class = its_class;
            remarks.extend(remark);
            let bad = its.iter().filter_map(|tracked| place.container(&tracked.container.cgroup).err());
            remarks.extend(bad.map(|bad| bad.to_string()));
            match is_strict(sandbox, &node.rules) {
                Ok(asks) => strict = asks,
                Err(refused) => remarks.push(unmet(node, &refused.to_string())),
            }
        }
        Err(bad) => remarks.push(bad.to_string()),
    }
    let its_unmet = node.unmet.iter().filter(|((of, _), _)| *of == sandbox.id);
    let runs = its.iter().any(|tracked| tracked.stage == Stage::Running);
    // One that requests whole CPUs may be still to come.
    let runs = runs && (sandbox.shares < SHARES_OF_A_CPU || its.len() > 1);
    if strict && runs && its_unmet.clone().next().is_none() && node.reservations.of(&sandbox.id).next().is_none() {
        remarks.push(
            "has no CPUs of its own: none of its containers requests a whole CPU; request 1 CPU or more in one container".to_owned(),
        );
    }
    remarks.extend(its_unmet.map(|(_, refused)| unmet(node, &refused.to_string())));
    remarks.extend(node.reservations.of(&sandbox.id).filter_map(|(name, held)| short(node, name, held)));
    remarks.sort();
    remarks.dedup();

    let cpus = node.reservations.cpus_of(&sandbox.id);
    PodView {
        sandbox: sandbox.clone(),
        qos,
        class,
        strict,
        requested: asked,
        limit: limits,
        cpus: (!cpus.is_empty()).then_some(cpus),
        cgroup: place.as_ref().ok().map(|place| place.path.clone()),
        containers: its.iter().map(|tracked| container(node, tracked, place.as_ref().ok())).collect(),
        remarks,
    }
}

fn container(node: &Node, tracked: &Tracked, pod: Option<&PodPath>) -> ContainerView {
    let container = &tracked.container;
    let cpus = node.reservations.get(&tracked.place()).map(|held| held.cpus);
    ContainerView {
        name: container.name.clone(),
        id: container.id.clone(),
        requested: requested(container, pod.map(|pod| pod.qos)),
        cpus: cpus.filter(|cpus| !cpus.is_empty()),
        cgroup: pod.and_then(|pod| pod.container(&container.cgroup).ok()),
        is_running: container.is_running,
    }
}

fn unmet(node: &Node, refused: &str) -> String {
    match node.rules.mode {
        Mode::Observe => format!("would be refused: {refused}"),
        Mode::Enforce => format!("has no CPUs of its own: {refused}"),
    }
}

/// What a reservation has lost.
fn short(node: &Node, name: &str, held: &Held) -> Option<String> {
    let lacks = if node.machine.whole_cores { held.cpus.is_empty() } else { held.cpus.len() < held.asked };
    let has = if held.cpus.is_empty() { "none".to_owned() } else { format!("only {}", held.cpus) };
    let text = format!(
        "container {name} reserved {} CPUs and has {has}: others are offline and none is free; bring CPUs online or request less",
        held.asked
    );
    lacks.then_some(text)
}

/// Why `count` cannot be reserved at a place: where the CPUs are.
pub(super) fn no_room(node: &Node, reservations: &Reservations, place: &Place, count: usize) -> String {
    let machine = &node.machine;
    let beside = reservations.beside(place);
    let own = reservations.get(place).map(|held| held.cpus).unwrap_or_default();
    let room = machine.room(&beside);
    let given = machine.pick(&beside, &own, room).map_or(0, |cpus| cpus.len());
    let remain = machine.usable().difference(&beside).len().saturating_sub(given);

    let mut by_pod: BTreeMap<&str, usize> = BTreeMap::new();
    for ((sandbox, _), held) in reservations.iter().filter(|(of, _)| *of != place) {
        *by_pod.entry(sandbox).or_default() += held.cpus.len();
    }
    let mut holders: Vec<(usize, String)> = by_pod
        .into_iter()
        .filter(|(_, cpus)| *cpus > 0)
        .map(|(sandbox, cpus)| (cpus, node.sandboxes.get(sandbox).map(Sandbox::full_name).unwrap_or_default()))
        .collect();
    holders.sort_by(|(more, a), (less, b)| less.cmp(more).then(a.cmp(b)));

    let verb = |count: usize, one: &'static str, many: &'static str| if count == 1 { one } else { many };
    let mut parts = Vec::new();
    if remain > 0 {
        parts.push(format!("{remain} shared {}", verb(remain, "remains", "remain")));
    }
    let reserved = machine.reserved.intersection(&machine.online).len();
    if reserved > 0 {
        parts.push(format!("{reserved} reserved for the system"));
    }
    let has = |(cpus, name): &(usize, String)| format!("{cpus} {} pod {name}", verb(*cpus, "has", "have"));
    parts.extend(holders.iter().take(NAMED).map(has));
    if let Some(rest) = holders.get(NAMED..).filter(|rest| !rest.is_empty()) {
        let cpus: usize = rest.iter().map(|(cpus, _)| cpus).sum();
        let pods = verb(rest.len(), "pod", "pods");
        parts.push(format!("{cpus} {} {} more {pods}", verb(cpus, "has", "have"), rest.len()));
    }
    let (unit, units, of) = match machine.whole_cores {
        true => ("whole core", "whole cores", format!("of {} CPUs ", machine.online.len())),
        false => ("CPU", "CPUs", String::new()),
    };
    let fix = match room {
        0 => "use another node".to_owned(),
        _ => format!("request at most {room}, or use another node"),
    };
    format!(
        "container {} asks for {count} {}; {room} of {} can be reserved: {of}{}; {fix}",
        place.1,
        verb(count, unit, units),
        machine.size(),
        parts.join(", ")
    )
}
