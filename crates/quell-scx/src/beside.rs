//! What the scheduler keeps beside the memory that it shares by layout. It may be written while we read, so it is read in
//! copies, each by one volatile load, and never by reference.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use libbpf_rs::MapInfo;
use quell_model::Nanos;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::inspect::{DECISIONS, as_text};
use crate::layout::MAX_CPUS;
use crate::program::types;

/// The program's variables, mapped for as long as this value lives.
pub(crate) struct Beside(NonNull<types::bss>);

// SAFETY: the pointer is to a mapping of this value's own, which is not bound to a thread.
unsafe impl Send for Beside {}

impl Drop for Beside {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, of this length, and there are no references to it.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<types::bss>()) };
    }
}

// All below: the mapping stays as long as this value; places are fields of it.
impl Beside {
    /// Of a program that is loaded: the map of its variables.
    ///
    /// # Errors
    /// If the map is smaller, or the system gives no memory.
    pub fn of(variables: BorrowedFd<'_>) -> libbpf_rs::Result<Beside> {
        if (MapInfo::new(variables)?.info.value_size as usize) < size_of::<types::bss>() {
            return Err(std::io::Error::other("the map of variables is another program's").into());
        }
        let (length, access) = (size_of::<types::bss>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let mapped = unsafe { mmap(null_mut(), length, access, MapFlags::SHARED, variables, 0) };
        let mapped = NonNull::new(mapped.map_err(std::io::Error::from)?.cast());
        Ok(Beside(mapped.expect("the kernel maps nothing at address 0")))
    }

    pub fn shared(&self) -> NonNull<crate::layout::Shared> {
        // SAFETY: see above; only its address is taken. `layout` mirrors the header that both sides were compiled from.
        unsafe { NonNull::new_unchecked((&raw mut (*self.0.as_ptr()).shared).cast()) }
    }

    pub fn set_giving_calls(&self, calls: [u64; 8]) {
        // SAFETY: see above.
        unsafe { (&raw mut (*self.0.as_ptr()).giving_calls).write_volatile(calls) };
    }

    /// The kernel's number for what is to be done after the end, and why.
    pub fn exit_code(&self) -> i64 {
        // SAFETY: see above.
        unsafe { (&raw const (*self.0.as_ptr()).exit_code).read_volatile() }
    }

    /// When the scheduler ended, by the monotonic clock.
    pub fn ended_at(&self) -> Nanos {
        // SAFETY: see above.
        Nanos(unsafe { (&raw const (*self.0.as_ptr()).exit_at).read_volatile() })
    }

    /// Why the scheduler ended, in the kernel's words: the reason, and the message.
    pub fn why_ended(&self) -> (String, String) {
        let text = |bytes: &[i8]| as_text(&bytes.iter().map(|&byte| byte as u8).collect::<Vec<_>>());
        // SAFETY: see above.
        let (reason, message) = unsafe {
            let data = self.0.as_ptr();
            ((&raw const (*data).exit_reason).read_volatile(), (&raw const (*data).exit_message).read_volatile())
        };
        (text(&reason), text(&message))
    }

    /// What stood where at the end.
    pub fn dump(&self) -> String {
        // SAFETY: see above; bytes have no alignment, and one that is written meanwhile is some byte.
        let text = unsafe { (&raw const (*self.0.as_ptr()).exit_dump).read_volatile() };
        as_text(&text.map(|byte| byte as u8))
    }

    /// What a CPU counted, in the order of `bpf/lib/counts.h`.
    pub fn counts(&self, cpu: usize) -> [u64; DECISIONS] {
        // SAFETY: see above; the place is within the array.
        unsafe { (&raw const (*self.0.as_ptr()).counts[cpu % MAX_CPUS].of).read_volatile() }
    }

    /// Does any thread have a cookie of core scheduling, as of the last patrol?
    pub fn is_core_scheduled(&self) -> bool {
        // SAFETY: see above.
        unsafe { (&raw const (*self.0.as_ptr()).core_scheduled).read_volatile() != 0 }
    }

    /// The threads that the last look found behind real-time ones.
    pub fn stuck(&self) -> Vec<types::stuck> {
        // SAFETY: see above.
        let (found, all) = unsafe {
            let data = self.0.as_ptr();
            ((&raw const (*data).nr_stuck).read_volatile(), (&raw const (*data).stuck).read_volatile())
        };
        all.into_iter().take(found as usize).collect()
    }
}
