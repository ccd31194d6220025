//! Any bytes in the files of proc, sys and of cgroups that Quell reads: a value, none, or an error that names the file.
//! The first byte chooses the file.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quell_linux::procfs::{ProcFs, steal};
use quell_linux::{LinuxError, cgroup, sysfs};

/// A directory for this process alone, in memory where there is such a place.
static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let root = place.join(format!("quell-fuzz-{}", std::process::id()));
    for directory in ["7/task/7", "devices/system/cpu"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    root
});

type Read = fn(&Path) -> Result<(), LinuxError>;

fn of_thread<T>(root: &Path, read: impl Fn(&mut ProcFs) -> Result<T, LinuxError>) -> Result<(), LinuxError> {
    read(&mut ProcFs::open(root)?).map(drop)
}

const FILES: [(&str, Read); 9] = [
    ("7/task/7/stat", |root| of_thread(root, |proc| proc.stat(7, 7))),
    ("7/task/7/schedstat", |root| of_thread(root, |proc| proc.schedstat(7, 7))),
    ("7/task/7/status", |root| of_thread(root, |proc| proc.switches(7, 7))),
    ("7/cmdline", |root| of_thread(root, |proc| proc.command(7))),
    ("stat", |root| steal(root).map(drop)),
    ("cpu.stat", |root| cgroup::cpu_stat(root).map(drop)),
    ("cpu.pressure", |root| cgroup::pressure(root).map(drop)),
    ("cgroup.procs", |root| cgroup::members(root, &mut Vec::new())),
    ("devices/system/cpu/online", |root| sysfs::online(root).map(drop)),
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (name, read) = FILES[usize::from(*first) % FILES.len()];
    let path = ROOT.join(name);
    fs::write(&path, rest).unwrap();
    let result = read(&ROOT);
    fs::remove_file(&path).unwrap();
    if let Err(error) = result {
        assert!(!error.to_string().is_empty());
    }
});
