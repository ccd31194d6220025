//! The two messages by which a program gets its pages: it says hello, and the answer comes with two file descriptors, those of the
//! program's page and of Quell's, or says in words what to do.

use crate::VERSION;

const MAGIC: [u8; 8] = *b"QuellHlo";

/// What a program sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the layout that it knows.
    pub version: u32,
}

impl Hello {
    /// Bytes of it.
    pub const SIZE: usize = 16;

    /// As it is sent.
    #[must_use]
    pub fn bytes(self) -> [u8; Hello::SIZE] {
        let mut bytes = [0; Hello::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_ne_bytes());
        bytes
    }

    /// None: this is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Hello> {
        let version = bytes.get(8..12)?.try_into().ok().map(u32::from_ne_bytes)?;
        (bytes.len() == Hello::SIZE && bytes[..8] == MAGIC).then_some(Hello { version })
    }
}

impl Default for Hello {
    fn default() -> Hello {
        Hello { version: VERSION }
    }
}

/// What becomes of a program that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// It has its pages.
    Attached = 0,
    /// It is in no workload.
    Outside = 1,
    /// Its workload, or its user, has as many pages as there may be.
    Full = 2,
    /// It knows another version of the layout.
    Version = 3,
}

impl Verdict {
    const ALL: [Verdict; 4] = [Verdict::Attached, Verdict::Outside, Verdict::Full, Verdict::Version];
}

/// The agent's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of it.
    pub verdict: Verdict,
    text: [u8; Answer::TEXT],
}

impl Answer {
    const TEXT: usize = 240;
    /// Bytes of it.
    pub const SIZE: usize = 16 + Answer::TEXT;

    /// With the fix in words, cut where it is too long.
    #[must_use]
    pub fn new(verdict: Verdict, words: &str) -> Answer {
        let mut text = [0; Answer::TEXT];
        let end = (0..=words.len().min(Answer::TEXT)).rev().find(|&end| words.is_char_boundary(end)).unwrap_or(0);
        text[..end].copy_from_slice(&words.as_bytes()[..end]);
        Answer { verdict, text }
    }

    /// In words.
    #[must_use]
    pub fn words(&self) -> &str {
        let end = self.text.iter().position(|&byte| byte == 0).unwrap_or(Answer::TEXT);
        core::str::from_utf8(&self.text[..end]).unwrap_or_default()
    }

    /// As it is sent.
    #[must_use]
    pub fn bytes(&self) -> [u8; Answer::SIZE] {
        let mut bytes = [0; Answer::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(self.verdict as u32).to_ne_bytes());
        bytes[16..].copy_from_slice(&self.text);
        bytes
    }

    /// None: this is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Answer> {
        let number = bytes.get(8..12)?.try_into().ok().map(u32::from_ne_bytes)?;
        let verdict = Verdict::ALL.into_iter().find(|verdict| *verdict as u32 == number)?;
        let text = bytes.get(16..)?.try_into().ok()?;
        (bytes[..8] == MAGIC).then_some(Answer { verdict, text })
    }
}
