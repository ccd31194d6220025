//! The two pages, at the same addresses from the first attachment on: what is behind them is exchanged.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use quell_page::{
    FREE, IDLE, LINE, PROGRAM_MAGIC, ProgramLine, ProgramPage, QUELL_MAGIC, QuellLine, QuellPage, SIZE, WORKERS,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

static PROGRAM: AtomicPtr<ProgramPage> = AtomicPtr::new(null_mut());
static QUELL: AtomicPtr<QuellPage> = AtomicPtr::new(null_mut());
/// Its destructor frees the line of a thread that ends.
static ENDING: AtomicPtr<libc::pthread_key_t> = AtomicPtr::new(null_mut());

const OWN: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

thread_local! {
    static LINE_HERE: Cell<Option<&'static ProgramLine>> = const { Cell::new(None) };
}

/// Makes pages of the program's own, once; the child of a fork calls this. Returns false if the system has no memory.
pub fn prepare(in_child: unsafe extern "C" fn()) -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: new memory, of which no other part of the program knows.
        let fresh = || unsafe { mmap_anonymous(null_mut(), SIZE, OWN, MapFlags::PRIVATE) };
        let (Ok(program), Ok(quell)) = (fresh(), fresh()) else { return };
        let key = Box::leak(Box::new(0));
        // SAFETY: the handlers are plain functions of this library; the key's place lives for ever.
        let made =
            unsafe { libc::pthread_key_create(key, Some(ends)) | libc::pthread_atfork(None, None, Some(in_child)) };
        if made == 0 {
            ENDING.store(key, Release);
            QUELL.store(quell.cast(), Release);
            PROGRAM.store(program.cast(), Release);
        }
    });
    program().is_some()
}

/// None before [`prepare`].
fn program() -> Option<&'static ProgramPage> {
    // SAFETY: the memory is never unmapped, only exchanged as a whole; any bytes are a value, and all accesses are atomic.
    unsafe { PROGRAM.load(Acquire).as_ref() }
}

/// The lines of this process's workers.
pub fn lines() -> impl Iterator<Item = &'static ProgramLine> {
    program().into_iter().flat_map(|page| &page.lines).filter(|line| line.state.load(Acquire) != FREE)
}

/// What Quell says at this place; None before [`prepare`]. Zeros: nothing.
pub fn said(at: usize) -> Option<&'static QuellLine> {
    // SAFETY: as for the program's page.
    unsafe { QUELL.load(Acquire).as_ref() }?.lines.get(at)
}

/// The place of a line of the program's page.
pub fn place_of(line: &'static ProgramLine) -> usize {
    let from = PROGRAM.load(Acquire) as usize + LINE;
    (std::ptr::from_ref(line) as usize).wrapping_sub(from) / LINE
}

/// The calling thread's line; takes a free one at first.
pub fn of_this_thread() -> Option<&'static ProgramLine> {
    LINE_HERE.get().or_else(|| {
        let page = program()?;
        let is_taken = |line: &&ProgramLine| line.state.compare_exchange(FREE, IDLE, AcqRel, Relaxed).is_ok();
        let line = page.lines.iter().find(is_taken)?;
        line.tid.store(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(), Relaxed);
        page.header.used.fetch_max(place_of(line) as u32 + 1, AcqRel);
        // SAFETY: the key was made before the page was shown; what is set is a line's address.
        unsafe { libc::pthread_setspecific(*ENDING.load(Acquire), std::ptr::from_ref(line).cast()) };
        LINE_HERE.set(Some(line));
        Some(line)
    })
}

/// A thread ends: its line is free.
extern "C" fn ends(line: *mut libc::c_void) {
    // SAFETY: `of_this_thread` set it, and lines are never unmapped.
    if let Some(line) = unsafe { line.cast::<ProgramLine>().as_ref() } {
        clear(line);
    }
}

fn clear(line: &ProgramLine) {
    [&line.request, &line.task, &line.event].into_iter().for_each(|time| time.store(0, Relaxed));
    line.queued.store(0, Relaxed);
    line.tid.store(0, Relaxed);
    line.state.store(FREE, Release);
}

/// In the child of a fork: nothing is shared with the parent's agent, and no other thread is there.
pub fn leave_parent() {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    for page in [PROGRAM.load(Acquire).cast(), QUELL.load(Acquire).cast()] {
        // SAFETY: the memory is this library's; zeros are a value of both pages.
        if unsafe { mmap_anonymous(page, SIZE, OWN, flags) }.is_err() {
            // Zeros by hand would be written into the parent's page.
            std::process::abort();
        }
    }
    // SAFETY: as in `of_this_thread`.
    unsafe { libc::pthread_setspecific(*ENDING.load(Acquire), std::ptr::null()) };
    LINE_HERE.set(None);
}

/// Quell says nothing any more.
pub fn forget_answers() {
    // SAFETY: as in `leave_parent`. If it fails, what was said last stands.
    let _ = unsafe { mmap_anonymous(QUELL.load(Acquire).cast(), SIZE, OWN, MapFlags::PRIVATE | MapFlags::FIXED) };
}

/// Puts the agent's pages in the place of those before. Returns false if they are none of this layout.
pub fn exchange(program_memory: &OwnedFd, quell_memory: &OwnedFd) -> bool {
    let Some(before) = program() else { return false };
    // SAFETY: new memory of a descriptor that the agent has sealed: it has this size for ever.
    let map = |memory, rights| unsafe { mmap(null_mut(), SIZE, rights, MapFlags::SHARED, memory, 0) };
    let (Ok(ours), Ok(theirs)) = (map(program_memory, OWN), map(quell_memory, ProtFlags::READ)) else { return false };
    // SAFETY: as in `program`.
    let (new, answers) = unsafe { (&*ours.cast::<ProgramPage>(), &*theirs.cast::<QuellPage>()) };
    let fits = new.header.is(PROGRAM_MAGIC) && answers.header.is(QUELL_MAGIC);
    if fits {
        // What a worker stores meanwhile is lost; its next store counts.
        for (old, new) in before.lines.iter().zip(&new.lines).take(WORKERS) {
            new.tid.store(old.tid.load(Relaxed), Relaxed);
            new.queued.store(old.queued.load(Relaxed), Relaxed);
            new.state.store(old.state.load(Relaxed), Relaxed);
            let times = [(&old.request, &new.request), (&old.task, &new.task), (&old.event, &new.event)];
            times.into_iter().for_each(|(old, new)| new.store(old.load(Relaxed), Relaxed));
        }
        new.header.used.store(before.header.used.load(Acquire), Release);
    }
    let fixed = MapFlags::SHARED | MapFlags::FIXED;
    let (own, answered) = (PROGRAM.load(Acquire).cast(), QUELL.load(Acquire).cast());
    // SAFETY: the memory is this library's, and what replaces it has the same layout.
    let done = fits
        && unsafe {
            mmap(own, SIZE, OWN, fixed, program_memory, 0).is_ok()
                && mmap(answered, SIZE, ProtFlags::READ, fixed, quell_memory, 0).is_ok()
        };
    // SAFETY: the second mappings are used no more.
    let _ = unsafe { (munmap(ours, SIZE), munmap(theirs, SIZE)) };
    done
}
