//! Cache ways and memory throttle: a resctrl group of Quell's own for each workload that has a value.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quell_model::{Capabilities, Knob, KnobKind, KnobSetting, LlcWays, Support, ThreadId, foreign};

use super::{Actuator, Aim, Draft, Here, Subject};
use crate::LinuxError;
use crate::members::Members;
use crate::resctrl::{self, Info, Line, Membership, Resctrl};
use crate::write::{Place, Value, Write};

const MOUNT: &str =
    "mount -t resctrl resctrl /sys/fs/resctrl (on Intel from Xeon E5 v4 on, AMD from Zen 2, Arm with MPAM)";

/// resctrl.
pub(super) struct Groups;

impl Actuator for Groups {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let info = Resctrl::find(here.roots).and_then(|found| Info::read(&found, here.roots, here.topology).ok());
        let lacks = |why: &str, fix: &str| Support::No { why: why.into(), fix: fix.into() };
        let (ways, throttle) = match &info {
            None => {
                let no = lacks("resctrl is not mounted, or the machine has none", MOUNT);
                (no.clone(), no)
            }
            Some(info) => {
                let ways = match (info.cache_lines.is_empty(), here.options.cache) {
                    (true, _) => lacks("resctrl has no L3 here: the processor cannot divide its cache", MOUNT),
                    (false, true) => Support::Yes,
                    (false, false) => Support::Partly(
                        "unmanaged work fills the same ways: machine.cache = true moves it to the rest".into(),
                    ),
                };
                let throttle = match info.throttle {
                    Some(_) => Support::Yes,
                    None => lacks("resctrl has no MB here: the processor has no memory throttle", MOUNT),
                };
                (ways, throttle)
            }
        };
        found.knobs.extend([
            (KnobKind::CacheWays, ways.clone()),
            (KnobKind::WaysOfLlc, ways),
            (KnobKind::Throttle, throttle),
        ]);
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        let touches = |subject: &Subject<'_>, draft: &Draft<'_>| own_group(subject, draft).is_some();
        if !aim.workloads.iter().any(|subject| wants(subject) || touches(subject, draft)) {
            return Ok(());
        }
        let Some(resctrl) = Resctrl::find(draft.roots) else {
            return Err(LinuxError::unsupported("resctrl is not mounted", MOUNT));
        };
        let info = Info::read(&resctrl, draft.roots, draft.topology)?;
        for subject in &aim.workloads {
            match (wants(subject), own_group(subject, draft)) {
                (true, known) => keep(&resctrl, &info, subject, known, aim, draft)?,
                // Its lines are what a new group has: the group stays until the workload goes.
                (false, Some(group)) => lines(&info, subject, &group, draft)?,
                (false, None) => {}
            }
        }
        if draft.cache { root_mask(&resctrl, &info, aim, draft) } else { Ok(()) }
    }
}

fn wants(subject: &Subject<'_>) -> bool {
    subject.wanted.has_group()
}

/// The group that Quell made for a workload.
fn own_group(subject: &Subject<'_>, draft: &Draft<'_>) -> Option<PathBuf> {
    let start = resctrl::own_prefix(subject.id);
    draft
        .ledger
        .groups()
        .find(|group| group.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&start)))
        .map(Path::to_owned)
}

/// Refuses what this machine cannot have, even if a solo run lifts it now.
///
/// # Errors
/// The reason, and the fix.
pub(crate) fn check_groups(settings: &[KnobSetting], members: &Members) -> Result<(), LinuxError> {
    let mut found = None;
    for setting in settings {
        let (Knob::CacheWays(_) | Knob::WaysOfLlc(_) | Knob::Throttle(_)) = setting.knob else { continue };
        let info = match &found {
            Some(info) => info,
            None => {
                let resctrl = Resctrl::find(&members.roots);
                let resctrl = resctrl.ok_or_else(|| LinuxError::unsupported("resctrl is not mounted", MOUNT))?;
                found.insert(Info::read(&resctrl, &members.roots, &members.topology)?)
            }
        };
        let lacks = |what: &str| Err(LinuxError::unsupported(format!("this machine has no {what}"), MOUNT));
        match setting.knob {
            Knob::Throttle(_) if info.throttle.is_none() => return lacks("memory throttle"),
            Knob::CacheWays(_) | Knob::WaysOfLlc(_) if info.cache_lines.is_empty() => {
                return lacks("cache ways to give out");
            }
            Knob::CacheWays(mask) | Knob::WaysOfLlc(LlcWays { mask, .. }) => check_mask(info, mask & info.all_ways)?,
            _ => {}
        }
    }
    Ok(())
}

/// A workload's group is there with its lines and all its threads.
fn keep(
    resctrl: &Resctrl,
    info: &Info,
    subject: &Subject<'_>,
    known: Option<PathBuf>,
    aim: &Aim<'_>,
    draft: &mut Draft<'_>,
) -> Result<(), LinuxError> {
    let safe =
        |name: &str| name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect::<String>();
    let is_new = known.is_none();
    let group = known
        .unwrap_or_else(|| resctrl.root().join(format!("{}{}", resctrl::own_prefix(subject.id), safe(subject.name))));
    let mut threads: Vec<_> =
        aim.threads().filter(|(_, of)| of.id == subject.id).map(|(thread, _)| thread.id).collect();
    for other in resctrl.groups().iter().skip(1).filter(|other| **other != group) {
        let inside = resctrl::threads(other)?.unwrap_or_default();
        let is_inside = |thread: &ThreadId| inside.binary_search(&thread.tid).is_ok();
        if let Some(thread) = threads.iter().find(|thread| is_new && is_inside(thread)) {
            return Err(in_anothers(thread, subject, other));
        }
        // Taken since then: it stays there.
        threads.retain(|thread| !is_inside(thread));
    }
    let place = Place::Group(group.clone());
    let there = draft.read(&place)?;
    if there == Some(Value::There(true)) && draft.ledger.touched(&place).is_none() && !draft.is_planned(&place) {
        let what = format!("{} already exists and is not this agent's", foreign::path(&group));
        return Err(LinuxError::unsupported(what, format!("remove it: rmdir {}", foreign::path(&group))));
    }
    if there == Some(Value::There(false)) {
        let used = resctrl.groups().len() as u32 + draft.planned_groups();
        if info.groups > 0 && used >= info.groups {
            let what = format!("all {} resctrl groups are in use", info.groups);
            return Err(LinuxError::unsupported(what, "put workloads together, or remove groups in /sys/fs/resctrl"));
        }
        let (before, after) = (Value::There(false), Value::There(true));
        draft.push(Write { workload: Some(subject.id), place, origin: before.clone(), before, after });
    }
    lines(info, subject, &group, draft)?;
    let inside: BTreeSet<i32> = resctrl::threads(&group)?.unwrap_or_default().into_iter().collect();
    for thread in threads.into_iter().filter(|thread| !inside.contains(&thread.tid)) {
        let place = Place::Membership(Membership { group: group.clone(), thread });
        let before = Value::There(false);
        draft.push(Write {
            workload: Some(subject.id),
            place,
            origin: before.clone(),
            before,
            after: Value::There(true),
        });
    }
    Ok(())
}

/// A workload in a group that another program made stays there.
fn in_anothers(thread: &ThreadId, subject: &Subject<'_>, group: &Path) -> LinuxError {
    let what = format!(
        "thread {} of workload '{}' is in the resctrl group {}",
        thread.tid,
        subject.name,
        foreign::path(group)
    );
    LinuxError::unsupported(
        what,
        "have that program release it (echo the thread into the root's tasks), or leave the workload out",
    )
}

/// The lines of a workload's group; without a value as in a new group.
fn lines(info: &Info, subject: &Subject<'_>, group: &Path, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
    for (llc, id) in info.ids.iter().enumerate().filter_map(|(llc, id)| Some((llc as u32, (*id)?))) {
        let mask = subject.wanted.ways.as_ref().and_then(|ways| ways.of(llc)).map(|mask| mask & info.all_ways);
        for resource in &info.cache_lines {
            let (all, wanted) = (format!("{:x}", info.all_ways), mask.map(|mask| format!("{mask:x}")));
            line(draft, subject, group, (resource, id), wanted, all)?;
        }
        if info.throttle.is_some() {
            let wanted = subject.wanted.throttle.map(|value| info.rounded(value).to_string());
            line(draft, subject, group, ("MB", id), wanted, info.no_throttle())?;
        }
    }
    Ok(())
}

/// What the kernel would refuse in the middle of a plan.
fn check_mask(info: &Info, mask: u32) -> Result<(), LinuxError> {
    let run = mask >> mask.trailing_zeros().min(31);
    let is_run = u64::from(run) & (u64::from(run) + 1) == 0;
    if mask.count_ones() < info.least || (info.contiguous && !is_run) {
        let what = format!("the cache way mask {mask:#x} is not valid here");
        let form = if info.contiguous { "one run of bits" } else { "bits" };
        let fix = format!("choose {form} among {:x}, at least {}", info.all_ways, info.least);
        return Err(LinuxError::unsupported(what, fix));
    }
    Ok(())
}

fn line(
    draft: &mut Draft<'_>,
    subject: &Subject<'_>,
    group: &Path,
    (resource, domain): (&str, u32),
    wanted: Option<String>,
    untouched: String,
) -> Result<(), LinuxError> {
    let place = Place::Line(Line { group: group.to_owned(), resource: resource.to_owned(), domain });
    if wanted.is_none() && draft.ledger.touched(&place).is_none() {
        return Ok(());
    }
    let untouched = Value::Text(untouched);
    // A group that is yet to be made will have everything.
    let before = draft.read(&place)?.unwrap_or_else(|| untouched.clone());
    let after = wanted.map_or_else(|| untouched.clone(), Value::Text);
    if before != after {
        let origin = draft.ledger.origin(&place).unwrap_or(&before).clone();
        draft.push(Write { workload: Some(subject.id), place, origin, before, after });
    }
    Ok(())
}

/// The root's mask: what is not a latency-critical workload's alone, if that is a valid mask; else it stays.
fn root_mask(resctrl: &Resctrl, info: &Info, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
    for (llc, id) in info.ids.iter().enumerate().filter_map(|(llc, id)| Some((llc as u32, (*id)?))) {
        let of = |critical: bool| {
            let own = aim.everyone.iter().filter(move |(is_critical, _)| *is_critical == critical);
            own.filter_map(|(_, wanted)| wanted.ways.as_ref()?.of(llc)).fold(0, |all, mask| all | mask)
        };
        let (critical, others) = (of(true), of(false));
        let rest = info.all_ways & !(critical & !others);
        let mask = if check_mask(info, rest).is_ok() { rest } else { info.all_ways };
        for resource in &info.cache_lines {
            let place =
                Place::Line(Line { group: resctrl.root().to_owned(), resource: (*resource).to_owned(), domain: id });
            let after = match draft.ledger.origin(&place) {
                Some(origin) if mask == info.all_ways => origin.clone(),
                None if mask == info.all_ways => continue,
                _ => Value::Text(format!("{mask:x}")),
            };
            draft.set(None, place, after)?;
        }
    }
    Ok(())
}
