//! The journal's format: one JSON object a line.

use quell_linux::write::Write;
use serde::{Deserialize, Serialize};

use super::Owner;

/// The format's version. A journal of another version is read as far as possible.
pub const VERSION: u32 = 1;

/// Start of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// [`VERSION`].
    pub version: u32,
    /// The boot that it belongs to (`/proc/sys/kernel/random/boot_id`): after another one there is nothing to put back.
    pub boot: String,
    /// The process that writes it.
    pub pid: i32,
    /// That process's start time, in clock ticks since boot.
    pub start: u64,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and nearly all are writes")]
pub enum Record {
    /// The first line.
    Begin(Begin),
    /// This write is about to be made. A write that was refused or taken back is followed by one with two equal values:
    /// the present one.
    Write {
        /// Counts the writes of this journal.
        n: u64,
        /// Time, in clock ticks since boot: threads that were created later may have inherited the value.
        at: u64,
        /// The write.
        write: Write,
        /// The thread's owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
        /// The inode of the directory that the file is in: a cgroup that was removed and made again is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inode: Option<u64>,
    },
    /// There is nothing to write to any more.
    Vanished(u64),
}

impl Record {
    /// Appends the record as a line.
    pub fn append_to(&self, text: &mut Vec<u8>) {
        let length = text.len();
        if serde_json::to_writer(&mut *text, self).is_err() {
            // Only a path that is not UTF-8 cannot be written; the line is then left out, and so is the write.
            text.truncate(length);
            return;
        }
        text.push(b'\n');
    }
}
