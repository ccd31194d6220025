//! Locks on single bytes of a file (open file description locks, fcntl(2)): they last as long as a process has the open file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Locks this byte for the open file.
///
/// # Errors
/// If another open file has it, or the system has no lock to give.
pub(super) fn lock(file: &File, at: i64) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, libc::F_WRLCK, at, 1).map(|_| ())
}

/// Unlocks this byte.
pub(super) fn unlock(file: &File, at: i64) {
    // It fails for want of memory alone, where a lock is split; then it stays until the file is closed.
    let _ = call(file, libc::F_OFD_SETLK, libc::F_UNLCK, at, 1);
}

/// Unlocks the whole file.
pub(super) fn unlock_all(file: &File) {
    let _ = call(file, libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0);
}

/// Has another open file locked this byte? Where the system does not say, no.
pub(super) fn is_locked(file: &File, at: i64) -> bool {
    call(file, libc::F_OFD_GETLK, libc::F_WRLCK, at, 1).is_ok_and(|kind| kind != libc::F_UNLCK)
}

/// Returns the kind of lock that the system answers with.
fn call(file: &File, operation: i32, kind: i32, start: i64, length: i64) -> io::Result<i32> {
    // SAFETY: the structure is plain numbers, for which zeroes are valid.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as i16;
    range.l_whence = libc::SEEK_SET as i16;
    (range.l_start, range.l_len) = (start, length);
    // SAFETY: the descriptor is open, and the structure lives during the call, which writes no more than it.
    match unsafe { libc::fcntl(file.as_raw_fd(), operation, &raw mut range) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(range.l_type.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_locked_by_one_open_file() {
        let directory = tempfile::tempdir().unwrap();
        let open =
            || File::options().create(true).truncate(false).read(true).write(true).open(directory.path().join("f"));
        let (one, other) = (open().unwrap(), open().unwrap());
        lock(&one, 1 << 60).unwrap();
        assert!(is_locked(&other, 1 << 60) && !is_locked(&one, 1 << 60) && !is_locked(&other, 7));
        assert!(lock(&other, 1 << 60).is_err());
        let kept = one.try_clone().unwrap();
        drop(one);
        assert!(is_locked(&other, 1 << 60), "as long as one process has it open");
        unlock(&kept, 1 << 60);
        assert!(!is_locked(&other, 1 << 60));
        lock(&kept, 3).unwrap();
        unlock_all(&kept);
        assert!(!is_locked(&other, 3));
    }
}
