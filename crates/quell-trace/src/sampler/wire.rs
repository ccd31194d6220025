//! The byte layout that the sampling program writes (`bpf/sampler.h`), read without trust in alignment.

use quell_model::CpuId;

use crate::event::{Member, Task};
use crate::wire::{i32_at, name, u16_at, u32_at};

pub(super) use crate::wire::task;

/// Where a name begins.
const NAME_AT: usize = 20;

/// What a record says of the instants from `from` to before `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The first of the instants.
    pub from: u32,
    /// The one after the last.
    pub to: u32,
    /// The CPU.
    pub cpu: CpuId,
    /// What was there.
    pub what: Found,
}

/// What was found on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A watched thread that waited.
    Waits(Member),
    /// What ran. A thread that is not watched comes with its process's name, empty where it is not known.
    Runs(Task, String),
}

/// A `struct record`; `None` if the bytes are none.
pub(super) fn sampled(data: &[u8]) -> Option<Sampled> {
    let (tid, slot) = (i32_at(data, 8)?, u16_at(data, 14)?);
    let what = match u32_at(data, 16)? {
        0 => Found::Waits(Member { tid, slot }),
        1 => Found::Runs(task(tid, slot), String::new()),
        2 => Found::Runs(Task::Other(tid), name(data.get(NAME_AT..NAME_AT + 16)?)),
        _ => return None,
    };
    Some(Sampled { from: u32_at(data, 0)?, to: u32_at(data, 4)?, cpu: CpuId(u32::from(u16_at(data, 12)?)), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_or_foreign_bytes_are_no_record() {
        let mut whole = [0u8; 36];
        whole[16] = 2;
        whole[20..24].copy_from_slice(b"make");
        let Some(Sampled { what: Found::Runs(Task::Other(0), name), .. }) = sampled(&whole) else {
            panic!("{whole:?}")
        };
        assert_eq!(name, "make");
        assert!((0..whole.len()).all(|length| sampled(&whole[..length]).is_none()));
        whole[16] = 3;
        assert_eq!(sampled(&whole), None);
    }
}
