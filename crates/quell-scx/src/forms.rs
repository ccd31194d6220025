//! The kernel's functions and numbers in the forms that the program knows (`bpf/lib/compat.h`), held against the kernel's types.

use std::ffi::OsStr;
use std::fmt;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Enum64, Func, Struct};

/// One function under its names: the kernel has to have one of them. The present name first, then later and earlier ones.
const FUNCTIONS: [&[&str]; 7] = [
    &["scx_bpf_dsq_insert", "scx_bpf_dsq_insert___v2", "scx_bpf_dispatch"],
    &["scx_bpf_dsq_insert_vtime", "__scx_bpf_dsq_insert_vtime", "scx_bpf_dispatch_vtime"],
    &["scx_bpf_dsq_move_to_local", "scx_bpf_dsq_move_to_local___v2", "scx_bpf_consume"],
    &["scx_bpf_dsq_move", "scx_bpf_dispatch_from_dsq"],
    &["scx_bpf_dsq_move_vtime", "scx_bpf_dispatch_vtime_from_dsq"],
    &["scx_bpf_dsq_move_set_vtime", "scx_bpf_dispatch_from_dsq_set_vtime"],
    &["scx_bpf_dsq_move_set_slice", "scx_bpf_dispatch_from_dsq_set_slice"],
];

/// The numbers that the program is compiled with, by the kernel's names.
const NUMBERS: [(&str, &str, u64); 11] = [
    ("scx_dsq_id_flags", "SCX_DSQ_LOCAL", 1 << 63 | 2),
    ("scx_dsq_id_flags", "SCX_DSQ_LOCAL_ON", 1 << 63 | 1 << 62),
    ("scx_enq_flags", "SCX_ENQ_WAKEUP", 1),
    ("scx_enq_flags", "SCX_ENQ_PREEMPT", 1 << 32),
    ("scx_enq_flags", "SCX_ENQ_LAST", 1 << 41),
    ("scx_deq_flags", "SCX_DEQ_SLEEP", 1),
    ("scx_kick_flags", "SCX_KICK_IDLE", 1),
    ("scx_kick_flags", "SCX_KICK_PREEMPT", 2),
    ("scx_ops_flags", "SCX_OPS_KEEP_BUILTIN_IDLE", 1),
    ("scx_ops_flags", "SCX_OPS_ENQ_LAST", 2),
    ("scx_ops_flags", "SCX_OPS_ENQ_EXITING", 4),
];

/// Forms of functions that are taken where the kernel has several of them: for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    Present = 0,
    Later = 1,
    Earliest = 2,
}

impl Preference {
    /// As `QUELL_SCX_FORMS` says.
    pub fn of_the_environment() -> Preference {
        match std::env::var("QUELL_SCX_FORMS").as_deref() {
            Ok("later") => Preference::Later,
            Ok("earliest") => Preference::Earliest,
            _ => Preference::Present,
        }
    }
}

/// What the program knows in another form than the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The kernel has the function under none of its names.
    Function(&'static str),
    /// The kernel has another number for it.
    Number(&'static str, u64),
    /// The kernel reports in no known way when a real-time thread takes a CPU.
    Release,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Function(name) => write!(f, "it has no {name}, by no name that it ever had"),
            Unknown::Number(name, number) => write!(f, "{name} is {number:#x} in it"),
            Unknown::Release => f.write_str("it has neither cpu_release nor scx_bpf_reenqueue_local for all callers"),
        }
    }
}

/// All of it.
pub(crate) fn unknown(types: &Btf<'_>) -> Vec<Unknown> {
    let functions = FUNCTIONS.iter().filter(|names| !names.iter().any(|name| has(types, name)));
    let numbers = NUMBERS.iter().filter_map(|&(of, name, ours)| {
        let theirs = number(types, of, name)?;
        (theirs != ours).then_some(Unknown::Number(name, theirs))
    });
    let mut found: Vec<_> = functions.map(|names| Unknown::Function(names[0])).chain(numbers).collect();
    if !releases(types) && !has(types, "scx_bpf_reenqueue_local___v2") && !has(types, "scx_bpf_reenqueue_local") {
        found.push(Unknown::Release);
    }
    found
}

/// Does the kernel have this function?
pub(crate) fn has(types: &Btf<'_>, function: &str) -> bool {
    types.type_by_name::<Func<'_>>(function).is_some()
}

/// Does the kernel call an operation when a higher class takes a CPU? Later ones leave that to a tracepoint.
pub(crate) fn releases(types: &Btf<'_>) -> bool {
    has_member(types, "sched_ext_ops", "cpu_release")
}

/// Does the kernel's structure have this member?
pub(crate) fn has_member(types: &Btf<'_>, of: &str, name: &str) -> bool {
    let found = types.type_by_name::<Struct<'_>>(of);
    found.is_some_and(|found| found.iter().any(|member| member.name == Some(OsStr::new(name))))
}

/// The kernel's number of this name; None: it has no such name.
pub(crate) fn number(types: &Btf<'_>, of: &str, name: &str) -> Option<u64> {
    let name = Some(OsStr::new(name));
    let wide = types.type_by_name::<Enum64<'_>>(of);
    let wide = wide.iter().flat_map(|all| all.iter()).find(|one| one.name == name).map(|one| one.value as u64);
    let narrow = types.type_by_name::<Enum<'_>>(of);
    let narrow = narrow.iter().flat_map(|all| all.iter()).find(|one| one.name == name).map(|one| one.value as u64);
    wide.or(narrow)
}

#[cfg(test)]
mod tests;
