//! The two pages of a program that cooperates: shared memory that can neither shrink nor grow, so that no access to it ends in a
//! signal. Of the program's page Quell makes copies by read(2), which a program that punches holes into it cannot slow down; Quell's
//! page is sealed against the program.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memmap2::{MmapMut, MmapOptions};
use quell_model::Nanos;
use quell_page::{Copied, Header, LINE, PROGRAM_MAGIC, QUELL_MAGIC, QuellPage, SIZE};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};

use crate::LinuxError;

/// Seals of both pages.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The pages of a process.
#[derive(Debug)]
pub struct Pages {
    program: Arc<File>,
    quell: MmapMut,
    attached: Nanos,
    /// Bytes of the next copy.
    size: usize,
}

/// The memory of a process's pages, which is the agent's to the kernel for as long as any process has it.
#[derive(Debug)]
pub struct Memory([Arc<File>; 2]);

impl Memory {
    /// Has any process a page open or mapped, or on its way in a message? None: this kernel does not say.
    #[must_use]
    pub fn is_elsewhere(&self) -> Option<bool> {
        let [program, quell] = &self.0;
        Some(is_elsewhere(program)? || is_elsewhere(quell)?)
    }
}

/// Is this file open besides, by whatever descriptor? The kernel gives a lease for writing to the only one that has it open; what
/// it was made by, and the agent's mapping, do not count. So none can come meanwhile and break the lease.
fn is_elsewhere(file: &File) -> Option<bool> {
    let set = |lease: libc::c_int| {
        // SAFETY: a call with plain numbers.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, lease) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    match set(libc::F_WRLCK) {
        Ok(()) => set(libc::F_UNLCK).ok().map(|()| false),
        Err(error) => (error.kind() == std::io::ErrorKind::WouldBlock).then_some(true),
    }
}

impl Pages {
    /// Makes them; the descriptors are for the program: that of its page, and that of Quell's, which it can only read.
    ///
    /// # Errors
    /// If the system has no memory or no descriptor for them.
    pub fn new(now: Nanos) -> Result<(Pages, Memory, [OwnedFd; 2]), LinuxError> {
        let (program, quell) = (memory("quell-program")?, memory("quell-answers")?);
        let map = |file: &File| {
            // SAFETY: the memory can neither shrink nor go away while it is mapped; both sides access it by atomics alone.
            let map = unsafe { MmapOptions::new().len(SIZE).map_mut(file) };
            map.map_err(LinuxError::io("map", "a page for a program"))
        };
        header(&map(&program)?).begin(PROGRAM_MAGIC, now.0);
        seal(&program, FIXED)?;
        let mapped = map(&quell)?;
        header(&mapped).begin(QUELL_MAGIC, now.0);
        // What is mapped stays writable here, and nowhere else.
        seal(&quell, FIXED.union(SealFlags::FUTURE_WRITE))?;
        let again = |file: &File, writes: bool| {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let opened = File::options().read(true).write(writes).open(path);
            opened.map_err(LinuxError::io("share", "a page for a program"))
        };
        let own = [Arc::new(again(&program, false)?), Arc::new(again(&quell, false)?)];
        let theirs = [again(&program, true)?.into(), again(&quell, false)?.into()];
        let pages = Pages { program: Arc::clone(&own[0]), quell: mapped, attached: now, size: LINE };
        Ok((pages, Memory(own), theirs))
    }

    /// A copy of the program's page in this buffer. None: it is not what was handed out any more.
    pub(crate) fn copy<'a>(&mut self, now: Nanos, buffer: &'a mut [u8; SIZE]) -> Option<Copied<'a>> {
        let part = &mut buffer[..self.size];
        self.program.read_exact_at(part, 0).ok()?;
        let copied = Copied::new(part, self.attached.0, now.0)?;
        self.size = copied.next_size();
        Some(copied)
    }

    /// Lines that the program uses.
    pub(crate) fn lines(&self) -> usize {
        self.size / LINE - 1
    }

    /// What Quell says to the program.
    pub(crate) fn answers(&self) -> &QuellPage {
        // SAFETY: the mapping has `SIZE` bytes, is aligned to a page of memory, and lives as long as `self`; any bytes are a value.
        unsafe { &*self.quell.as_ptr().cast::<QuellPage>() }
    }

    /// Says this to each worker of the program whose line has something else.
    pub(crate) fn notify(&self, notice: Notice, leaves: impl Fn(usize) -> bool) {
        for (at, line) in self.answers().lines.iter().enumerate().take(self.lines().max(1)) {
            let leave = u32::from(leaves(at));
            let new = [notice.granted, notice.guaranteed, notice.limit, leave];
            let places = [&line.granted, &line.guaranteed, &line.limit, &line.leave];
            if new.iter().zip(places).any(|(new, place)| place.load(Relaxed) != *new) {
                new.iter().zip(places).for_each(|(new, place)| place.store(*new, Relaxed));
                line.generation.fetch_add(1, Relaxed);
            }
        }
    }
}

/// An agent that goes asks for nothing more.
impl Drop for Pages {
    fn drop(&mut self) {
        self.answers().lines.iter().for_each(|line| line.leave.store(0, Relaxed));
    }
}

/// What is said to all workers of a program, in thousandths of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    pub granted: u32,
    pub guaranteed: u32,
    pub limit: u32,
}

fn header(map: &MmapMut) -> &Header {
    // SAFETY: the mapping has `SIZE` bytes and is aligned to a page of memory; any bytes are a header.
    unsafe { &*map.as_ptr().cast::<Header>() }
}

/// Memory of a page, all of it there.
fn memory(name: &str) -> Result<File, LinuxError> {
    let failed = |errno: rustix::io::Errno| LinuxError::io("make", "memory for a program's page")(errno.into());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux before 6.3 does not know it; one with vm.memfd_noexec=2 wants it.
    let file = memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create(name, flags));
    let file = file.map_err(failed)?;
    fallocate(&file, FallocateFlags::empty(), 0, SIZE as u64).map_err(failed)?;
    Ok(file.into())
}

fn seal(file: &File, seals: SealFlags) -> Result<(), LinuxError> {
    fcntl_add_seals(file, seals).map_err(|errno| LinuxError::io("seal", "a page for a program")(errno.into()))
}

#[cfg(test)]
mod tests {
    use quell_page::{ProgramPage, RUNNING};

    use super::*;

    #[test]
    fn the_program_reads_what_quell_says_and_can_change_neither_that_nor_a_size() {
        let (mut pages, memory, [program, quell]) = Pages::new(Nanos(100)).unwrap();
        assert_eq!(memory.is_elsewhere(), Some(true));
        let (program, quell) = (File::from(program), File::from(quell));
        for file in [&program, &quell] {
            assert!(file.set_len(0).is_err() && file.set_len(2 * SIZE as u64).is_err());
        }
        assert!(quell.write_at(b"x", 0).is_err(), "sealed");
        // SAFETY: the mapping is not used.
        assert!(unsafe { MmapOptions::new().map_mut(&quell) }.is_err(), "sealed");
        // SAFETY: as in `Pages::new`.
        let map = unsafe { MmapOptions::new().map_mut(&program) }.unwrap();
        // SAFETY: as in `Pages::answers`.
        let page = unsafe { &*map.as_ptr().cast::<ProgramPage>() };
        page.header.used.store(2, Relaxed);
        page.lines[1].state.store(RUNNING, Relaxed);
        page.lines[1].task.store(400, Relaxed);
        let mut buffer = [0; SIZE];
        pages.copy(Nanos(1_000), &mut buffer).unwrap();
        assert_eq!(pages.copy(Nanos(1_000), &mut buffer).unwrap().seen().delay, 600);
        pages.notify(Notice { granted: 2_000, guaranteed: 1_000, limit: 4_000 }, |at| at == 1);
        // SAFETY: as in `Pages::new`.
        let map = unsafe { MmapOptions::new().map(&quell) }.unwrap();
        // SAFETY: as in `Pages::answers`.
        let answers = unsafe { &*map.as_ptr().cast::<QuellPage>() };
        let said = |at: usize| [&answers.lines[at].granted, &answers.lines[at].leave].map(|place| place.load(Relaxed));
        assert_eq!([said(0), said(1), said(2)], [[2_000, 0], [2_000, 1], [0, 0]], "unused lines are left alone");
        page.header.magic.store(0, Relaxed);
        assert!(pages.copy(Nanos(1_000), &mut buffer).is_none());
        drop((map, program));
        assert_eq!(memory.is_elsewhere(), Some(true), "Quell's page is there");
        drop(quell);
    }

    #[test]
    fn memory_is_elsewhere_until_the_last_mapping_goes() {
        let (pages, memory, [program, quell]) = Pages::new(Nanos(100)).unwrap();
        // SAFETY: the mapping is not used.
        let map = unsafe { MmapOptions::new().map(&quell) }.unwrap();
        drop((pages, program, quell));
        assert_eq!(memory.is_elsewhere(), Some(true), "mapped");
        drop(map);
        assert_eq!(memory.is_elsewhere(), Some(false));
    }

    #[test]
    fn a_hole_is_read_as_zeros() {
        let (mut pages, _, [program, _]) = Pages::new(Nanos(100)).unwrap();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&program, flags, 0, SIZE as u64).unwrap();
        assert!(pages.copy(Nanos(1_000), &mut [0; SIZE]).is_none(), "no page");
    }
}
