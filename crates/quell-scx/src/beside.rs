//! What the scheduler keeps beside the memory that it shares by layout. It may be written while we read, so it is read in
//! copies, each by one volatile load, and never by reference.

use std::ptr::NonNull;

use quell_model::Nanos;

use crate::inspect::{DECISIONS, as_text};
use crate::layout::MAX_CPUS;
use crate::program::types;

/// The program's variables, mapped.
pub(crate) struct Beside(NonNull<types::bss>);

// All below: the mapping stays as long as the skeleton, beside which this value is kept; places are fields of it.
impl Beside {
    /// Of a program that is loaded. Takes the only reference: there must be none while others write.
    pub fn of(data: &mut Option<&mut types::bss>) -> Beside {
        Beside(NonNull::from(data.take().expect("libbpf maps a program's variables")))
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

    /// What a CPU counted, in the order of `bpf/counts.h`.
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
