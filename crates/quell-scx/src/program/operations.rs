//! The scheduler's operations, set in the kernel's map of them: from then on it can be attached, by any process that has the map.
//!
//! libbpf does the same only when it attaches (`bpf_map__attach_struct_ops`), from a value that it does not expose.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::skel::Skel;
use libbpf_rs::{Error, MapCore, MapFlags, ProgramType, Result};

use super::skeleton::GrantSkel;
use super::types::sched_ext_ops;

/// What precedes an operation's name in that of its program.
const PREFIX: &str = "grant_";

/// Sets them, in the layout of the kernel's types. Those that the object has and the kernel lacks were refused at the load.
pub(super) fn set(skeleton: &GrantSkel<'_>, types: &Btf<'_>) -> Result<()> {
    let map = &skeleton.maps.grant_ops;
    let value = types.type_by_name::<Struct<'_>>("bpf_struct_ops_sched_ext_ops");
    let operations = types.type_by_name::<Struct<'_>>("sched_ext_ops");
    let (Some(value), Some(operations)) = (value, operations) else { return Err(unknown("sched_ext_ops")) };
    let mut bytes = vec![0; map.value_size() as usize];
    let data = place_of(&value, "data")?;
    let mut put = |member: &str, from: &[u8]| {
        let at = data + place_of(&operations, member)?;
        bytes.get_mut(at..at + from.len()).ok_or_else(|| unknown(member))?.copy_from_slice(from);
        Ok::<(), Error>(())
    };
    // Each member by its name, so that the compiler asks about a new one.
    let sched_ext_ops {
        name,
        flags,
        timeout_ms,
        exit_dump_len,
        hotplug_seq,
        // Programs, which are set below.
        select_cpu: _,
        enqueue: _,
        dispatch: _,
        running: _,
        stopping: _,
        quiescent: _,
        update_idle: _,
        set_cpumask: _,
        cpu_release: _,
        cpu_online: _,
        cpu_offline: _,
        init_task: _,
        cgroup_init: _,
        cgroup_exit: _,
        init: _,
        exit: _,
        dump: _,
        dump_cpu: _,
        dump_task: _,
    } = *skeleton.struct_ops().grant_ops();
    put("name", &name.map(|byte| byte as u8))?;
    put("flags", &flags.to_ne_bytes())?;
    put("timeout_ms", &timeout_ms.to_ne_bytes())?;
    put("exit_dump_len", &exit_dump_len.to_ne_bytes())?;
    put("hotplug_seq", &hotplug_seq.to_ne_bytes())?;
    for program in skeleton.object().progs() {
        if program.prog_type() == ProgramType::StructOps && program.autoload() {
            let name = program.name().to_string_lossy();
            let operation = name.strip_prefix(PREFIX).ok_or_else(|| unknown(&name))?;
            put(operation, &(program.as_fd().as_raw_fd() as u64).to_ne_bytes())?;
        }
    }
    map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY)
}

/// In bytes from the structure's begin.
fn place_of(of: &Struct<'_>, name: &str) -> Result<usize> {
    let member = of.iter().find(|member| member.name == Some(OsStr::new(name)));
    match member.map(|member| member.attr) {
        Some(MemberAttr::Normal { offset }) => Ok(offset as usize / 8),
        _ => Err(unknown(name)),
    }
}

fn unknown(what: &str) -> Error {
    Error::from(std::io::Error::other(format!("the kernel's types have no {what}")))
}
