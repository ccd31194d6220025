//! What the kernel holds of a loaded program, by descriptors: its maps and its programs. They are the same whichever process loaded it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{
    BPF_STRUCT_OPS, bpf_link_create, bpf_prog_test_run_opts, bpf_raw_tracepoint_open, bpf_test_run_opts,
};
use libbpf_rs::{Error, MapCore, MapHandle, MapInfo, Object};
use serde::{Deserialize, Serialize};

type Result<T> = libbpf_rs::Result<T>;

/// Owned descriptors, by the names in the source.
pub(crate) struct Descriptors {
    maps: BTreeMap<String, OwnedFd>,
    programs: BTreeMap<String, OwnedFd>,
}

/// The names of maps and of programs, in the order of their descriptors.
#[derive(Serialize, Deserialize)]
pub(crate) struct Names {
    maps: Vec<String>,
    programs: Vec<String>,
}

impl Descriptors {
    /// Duplicates of those that libbpf has of a loaded object.
    pub fn of(object: &Object) -> Result<Descriptors> {
        let maps = object.maps().map(|map| Ok((own_name(map.name()), map.as_fd().try_clone_to_owned()?)));
        let loaded = object.progs().filter(|program| program.autoload());
        let programs = loaded.map(|program| Ok((own_name(program.name()), program.as_fd().try_clone_to_owned()?)));
        Ok(Descriptors { maps: maps.collect::<Result<_>>()?, programs: programs.collect::<Result<_>>()? })
    }

    /// To be sent to another process.
    pub fn into_parts(self) -> (Names, Vec<OwnedFd>) {
        let (maps, of_maps): (_, Vec<_>) = self.maps.into_iter().unzip();
        let (programs, of_programs): (_, Vec<_>) = self.programs.into_iter().unzip();
        (Names { maps, programs }, of_maps.into_iter().chain(of_programs).collect())
    }

    /// As they were sent; None if a descriptor is missing.
    pub fn of_parts(names: Names, mut descriptors: Vec<OwnedFd>) -> Option<Descriptors> {
        if descriptors.len() != names.maps.len() + names.programs.len() {
            return None;
        }
        let of_programs = descriptors.split_off(names.maps.len());
        Some(Descriptors {
            maps: names.maps.into_iter().zip(descriptors).collect(),
            programs: names.programs.into_iter().zip(of_programs).collect(),
        })
    }

    /// Was the program loaded? Some are only where the kernel has what they listen to.
    pub fn has(&self, program: &str) -> bool {
        self.programs.contains_key(program)
    }

    pub fn programs(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.programs.iter().map(|(name, program)| (name.as_str(), program.as_fd()))
    }

    /// Kernel memory of all, in bytes (`memlock` in /proc/self/fdinfo; of programs without their translation to machine code).
    pub fn memory(&self) -> u64 {
        let of = |descriptor: &OwnedFd| {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd())).ok()?;
            info.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse::<u64>().ok())
        };
        self.maps.values().chain(self.programs.values()).filter_map(of).sum()
    }

    pub fn map_descriptor(&self, name: &str) -> Result<BorrowedFd<'_>> {
        find(&self.maps, name)
    }

    /// A handle of its own.
    pub fn map(&self, name: &str) -> Result<MapHandle> {
        MapHandle::from_map_id(MapInfo::new(self.map_descriptor(name)?)?.info.id)
    }

    /// Runs the program once; its answer.
    pub fn call(&self, program: &str) -> Result<i32> {
        let program = find(&self.programs, program)?;
        let mut options = bpf_test_run_opts { sz: size_of::<bpf_test_run_opts>() as u64, ..Default::default() };
        // SAFETY: the options are a local of the size that they say, and without any buffer.
        check(unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
        Ok(options.retval as i32)
    }

    /// The program runs at its tracepoint until the link is dropped.
    pub fn listen(&self, program: &str) -> Result<OwnedFd> {
        let program = find(&self.programs, program)?;
        // SAFETY: a descriptor of a program, which knows its tracepoint by the kernel's type: there is no name.
        owned(unsafe { bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
    }

    /// The scheduler of which the map has the operations runs until the link is dropped.
    pub fn start(&self, operations: &str) -> Result<OwnedFd> {
        let operations = find(&self.maps, operations)?;
        // SAFETY: a descriptor of a map, and no options.
        owned(unsafe { bpf_link_create(operations.as_raw_fd(), 0, BPF_STRUCT_OPS, std::ptr::null()) })
    }
}

fn find<'a>(all: &'a BTreeMap<String, OwnedFd>, name: &str) -> Result<BorrowedFd<'a>> {
    all.get(name).map(AsFd::as_fd).ok_or_else(|| Error::from_raw_os_error(libc::ENOENT))
}

/// Without what libbpf sets before the name of a section.
fn own_name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    name.rsplit('.').next().unwrap_or_default().to_owned()
}

/// libbpf's functions return a negative error.
fn check(returned: i32) -> Result<i32> {
    if returned < 0 { Err(Error::from_raw_os_error(-returned)) } else { Ok(returned) }
}

fn owned(returned: i32) -> Result<OwnedFd> {
    let new = check(returned)?;
    // SAFETY: the kernel just made it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}
