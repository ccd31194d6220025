//! The journal's format: one JSON object a line.

use quell_linux::write::Write;
use quell_model::foreign;
use serde::{Deserialize, Serialize};

use super::Owner;

/// The format's version. A journal of an older version is read; one of a newer version is refused ([`newer`]), as a part that is not
/// understood would be left behind.
pub const VERSION: u32 = 1;
/// The program's version.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

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
    /// Its version of Quell; empty: 0.1.0.
    #[serde(default)]
    pub program: String,
}

/// The first line of a journal in a format that this program does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newer {
    /// The format's version.
    pub version: u64,
    /// The version of Quell that wrote it; safe to print.
    pub program: String,
    /// The boot that it belongs to.
    pub boot: String,
}

/// Is a journal's format newer than this program? Of a newer first line only what never changes is read: version, boot and program.
#[must_use]
pub fn newer(journal: &[u8]) -> Option<Newer> {
    let first = journal.split(|&byte| byte == b'\n').next()?;
    let first: serde_json::Value = serde_json::from_slice(first).ok()?;
    let begin = first.get("begin")?;
    let version = begin.get("version")?.as_u64().filter(|version| *version > VERSION.into())?;
    let text = |key| begin.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    Some(Newer { version, program: foreign::text(text("program")).into_owned(), boot: text("boot").to_owned() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_recognised_whatever_else_has_changed() {
        let line = |version: u32| {
            format!("{{\"begin\":{{\"version\":{version},\"boot\":\"b\",\"program\":\"9.1.0\",\"new\":[]}}}}\n?")
        };
        assert_eq!(newer(line(VERSION).as_bytes()), None);
        let newer_one = Newer { version: 2, program: "9.1.0".into(), boot: "b".into() };
        assert_eq!(newer(line(2).as_bytes()), Some(newer_one));
        for other in ["", "\n", "{}", "{\"begin\":{}}", "{\"begin\":{\"version\":\"2\"}}", "[1]"] {
            assert_eq!(newer(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn the_first_line_of_0_1_0_is_read() {
        let line = "{\"begin\":{\"version\":1,\"boot\":\"b\",\"pid\":4,\"start\":7}}";
        let begin = Begin { version: 1, boot: "b".into(), pid: 4, start: 7, program: String::new() };
        assert_eq!(serde_json::from_str::<Record>(line).unwrap(), Record::Begin(begin));
    }
}
