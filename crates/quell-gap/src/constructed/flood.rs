//! A thread of the kernel that never stops wanting one CPU: the one that looks for equal pages, with pages of ours to look at.

use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use quell_linux::procfs::ProcFs;
use quell_model::CpuSet;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Pid;
use rustix::thread::sched_setaffinity;

const CONTROLS: &str = "/sys/kernel/mm/ksm";
const PAGE: usize = 4096;
const LENGTH: usize = 16 * 1024 * PAGE;
/// Beside a cgroup of a high weight: a quarter of the CPU.
const NICE: i32 = -20;

/// The flood; everything is as before when this is dropped.
pub(crate) struct KernelFlood {
    pid: Pid,
    before: Vec<(PathBuf, String)>,
    nice: i32,
    set: rustix::thread::CpuSet,
    pages: NonNull<std::ffi::c_void>,
}

impl KernelFlood {
    /// None: this kernel has no such thread, or we may not steer it.
    pub fn start(cpus: CpuSet) -> Option<KernelFlood> {
        let mut proc = ProcFs::open(Path::new("/proc")).ok()?;
        let mut is_it = |pid: &i32| {
            let is_kernels = proc.stat(*pid, *pid).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_kernels));
            is_kernels && quell_linux::comm(&Path::new("/proc").join(pid.to_string()).join("comm")) == "ksmd"
        };
        let mut numbers =
            fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let pid = Pid::from_raw(numbers.find(&mut is_it)?)?;
        let set = rustix::thread::sched_getaffinity(Some(pid)).ok()?;
        let nice = rustix::process::getpriority_process(Some(pid)).ok()?;
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: memory of its own, at no given address.
        let pages = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), LENGTH, writable, MapFlags::PRIVATE) };
        let pages = NonNull::new(pages.ok()?)?;
        let mut flood = KernelFlood { pid, before: Vec::new(), nice, set, pages };
        for page in 0..LENGTH / PAGE {
            // SAFETY: within the mapping. No two pages are equal, so that the kernel looks at all of them again.
            unsafe { pages.as_ptr().cast::<u8>().add(page * PAGE).cast::<u64>().write(page as u64 + 1) };
        }
        // SAFETY: it changes nothing that a program notices.
        unsafe { rustix::mm::madvise(pages.as_ptr(), LENGTH, Advice::LinuxMergeable) }.ok()?;
        for (control, value) in [("sleep_millisecs", "0"), ("pages_to_scan", "1000000"), ("run", "1")] {
            let path = PathBuf::from(CONTROLS).join(control);
            flood.before.push((path.clone(), fs::read_to_string(&path).ok()?));
            fs::write(&path, value).ok()?;
        }
        let mut on = rustix::thread::CpuSet::new();
        cpus.iter().for_each(|cpu| on.set(cpu.index()));
        sched_setaffinity(Some(pid), &on).ok()?;
        rustix::process::setpriority_process(Some(pid), NICE).ok()?;
        Some(flood)
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

impl Drop for KernelFlood {
    fn drop(&mut self) {
        for (path, value) in self.before.iter().rev() {
            let _ = fs::write(path, value.trim());
        }
        let _ = rustix::process::setpriority_process(Some(self.pid), self.nice);
        let _ = sched_setaffinity(Some(self.pid), &self.set);
        // SAFETY: the mapping is this value's.
        let _ = unsafe { rustix::mm::munmap(self.pages.as_ptr(), LENGTH) };
    }
}
