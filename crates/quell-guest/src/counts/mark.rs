//! The marks between which instructions are counted.

/// A number that a program sets as a mark by executing a no-operation that has it as its displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// All counters become 0.
    Begin,
    /// The counters are written.
    End,
}

const BEGIN: u32 = 0x5155_4c31;
const END: u32 = 0x5155_4c32;

impl Mark {
    /// The displacement.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Begin => BEGIN,
            Self::End => END,
        }
    }

    /// Sets the mark, if this program runs in a guest whose instructions are counted; else nothing happens.
    pub fn set(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an instruction of eight bytes that changes neither registers nor memory.
        unsafe {
            use std::arch::asm;
            match self {
                Self::Begin => {
                    asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {}", const BEGIN, options(nostack, preserves_flags))
                }
                Self::End => {
                    asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {}", const END, options(nostack, preserves_flags))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_does_nothing_where_nothing_is_counted() {
        Mark::Begin.set();
        Mark::End.set();
        assert_ne!(Mark::Begin.number(), Mark::End.number());
    }
}
