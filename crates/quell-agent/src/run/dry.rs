//! Says every write, and is told of none that is made.

use std::fmt;
use std::io;

use quell_linux::write::{Fate, Journal, Write};

/// A journal that prints each write as it would be made. With `HostOptions::dry_run` the host makes none of them.
pub struct PrintedJournal<W> {
    out: W,
}

impl<W: io::Write> PrintedJournal<W> {
    /// Prints there.
    pub fn to(out: W) -> PrintedJournal<W> {
        PrintedJournal { out }
    }
}

impl<W> fmt::Debug for PrintedJournal<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrintedJournal")
    }
}

impl<W: io::Write + Send> Journal for PrintedJournal<W> {
    fn before(&mut self, write: &Write) -> io::Result<()> {
        writeln!(self.out, "would write  {write}")
    }

    fn done(&mut self, _: &Write, fate: Fate) -> io::Result<()> {
        match fate {
            Fate::Applied => Ok(()),
            Fate::Vanished => writeln!(self.out, "             it is gone"),
            Fate::Refused => writeln!(self.out, "             it would be refused"),
            Fate::TakenBack => writeln!(self.out, "             it would be taken back"),
        }
    }
}
