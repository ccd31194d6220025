//! Core scheduling: threads with different cookies never run on one core at a time
//! (Documentation/admin-guide/hw-vuln/core-scheduling.rst). The kernel leaves CPUs idle for it that a grant counts on.

use std::io;

use crate::LinuxError;
use crate::procfs::ProcFs;

/// Whom `PR_SCHED_CORE_GET` asks about: one thread (`include/linux/pid.h`).
const PIDTYPE_PID: libc::c_ulong = 0;

/// A thread that is scheduled by cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookied {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Its cookie; not zero.
    pub cookie: u64,
}

/// The first thread that has a cookie; None, too, where the kernel has no core scheduling or the machine no siblings.
///
/// # Errors
/// If the processes cannot be listed.
pub fn first_cookied(proc: &mut ProcFs) -> Result<Option<Cookied>, LinuxError> {
    Ok(cookied(proc, 1, &mut cookie)?.pop())
}

/// The first `most` threads that have a cookie, as [`first_cookied`].
///
/// # Errors
/// If the processes cannot be listed.
pub fn all_cookied(proc: &mut ProcFs, most: usize) -> Result<Vec<Cookied>, LinuxError> {
    cookied(proc, most, &mut cookie)
}

/// By this call: a thread's cookie, zero for none.
fn cookied(
    proc: &mut ProcFs,
    most: usize,
    call: &mut dyn FnMut(i32) -> io::Result<u64>,
) -> Result<Vec<Cookied>, LinuxError> {
    let mut all = Vec::new();
    // ENODEV without siblings, EINVAL without CONFIG_SCHED_CORE; 0 is this thread.
    if call(0).is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL))) {
        return Ok(all);
    }
    let (mut pids, mut tids) = (Vec::new(), Vec::new());
    proc.pids(&mut pids)?;
    for pid in pids {
        tids.clear();
        proc.threads(pid, &mut tids)?;
        // One that is gone, or that may not be asked about, has none that is known.
        for &tid in &tids {
            let Some(cookie) = call(tid).ok().filter(|&cookie| cookie != 0) else { continue };
            all.push(Cookied { pid, tid, cookie });
            if all.len() >= most {
                return Ok(all);
            }
        }
    }
    Ok(all)
}

fn cookie(tid: i32) -> io::Result<u64> {
    let mut cookie = 0u64;
    // SAFETY: the kernel writes eight bytes to a local.
    let result = unsafe {
        libc::prctl(
            libc::PR_SCHED_CORE,
            libc::PR_SCHED_CORE_GET as libc::c_ulong,
            tid as libc::c_ulong,
            PIDTYPE_PID,
            &raw mut cookie,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeTree;
    use quell_model::Topology;

    #[test]
    fn a_thread_with_a_cookie_is_found_where_the_kernel_has_them() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 2));
        tree.process(70, 1, "first");
        tree.process(80, 1, "second");
        tree.thread(80, 81);
        let mut proc = ProcFs::open(&tree.path().join("proc")).unwrap();
        let mut found = |of: &mut dyn FnMut(i32) -> io::Result<u64>| cookied(&mut proc, 1, of).unwrap().pop();
        assert_eq!(found(&mut |tid| Ok(u64::from(tid == 81))), Some(Cookied { pid: 80, tid: 81, cookie: 1 }));
        assert_eq!(found(&mut |_| Ok(0)), None);
        for errno in [libc::ENODEV, libc::EINVAL] {
            assert_eq!(found(&mut |tid| if tid == 0 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(1) }), None);
        }
        // Gone meanwhile.
        let gone =
            |tid| if tid == 70 { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(u64::from(tid > 0)) };
        assert_eq!(found(&mut { gone }).map(|found| found.tid), Some(80));
        let all = cookied(&mut proc, 2, &mut |tid| Ok(u64::from(tid >= 70))).unwrap();
        assert_eq!(all.iter().map(|found| found.tid).collect::<Vec<_>>(), [70, 80], "no more than asked for");
    }

    #[test]
    fn here_the_kernel_can_be_asked() {
        first_cookied(&mut ProcFs::open("/proc".as_ref()).unwrap()).unwrap();
    }
}
