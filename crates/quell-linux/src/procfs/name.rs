//! Names of procfs's files.

use std::ffi::CStr;
use std::fmt::Write as _;

/// A path below /proc, built on the stack.
pub(super) struct Name {
    bytes: [u8; 64],
    length: usize,
}

impl Name {
    pub(super) fn new(text: std::fmt::Arguments<'_>) -> Name {
        let mut name = Name { bytes: [0; 64], length: 0 };
        name.write_fmt(text).expect("two numbers and a file name fit");
        name
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("written as text")
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("one byte is always left zero")
    }
}

impl std::fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        if end >= self.bytes.len() {
            return Err(std::fmt::Error);
        }
        self.bytes[self.length..end].copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
