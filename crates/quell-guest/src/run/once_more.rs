//! The one fault of the emulation that a second boot fixes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::Progress;
use crate::error::{LabError, Result};

/// Boots once more if the emulator broke the kernel and `may` allows it then; `count` gets each boot and each repeat.
pub(super) fn once_more<T>(
    progress: &dyn Progress,
    count: impl Fn(&str),
    mut boot: impl FnMut() -> Result<T>,
    may: impl FnOnce() -> bool,
) -> Result<T> {
    count("boot");
    match boot() {
        Err(error) if is_stale_breakpoint(&error) && may() => {
            progress.step("the emulator ran a breakpoint that was gone; booting once more");
            count("again");
            boot()
        }
        ended => ended,
    }
}

/// The file in which this variable's value names it gets a line for each boot, and one for each that is repeated.
const BOOTS: &str = "QUELL_LAB_BOOTS";

pub(super) fn count(what: &str) {
    if let Some(path) = std::env::var_os(BOOTS) {
        let _ = count_in(Path::new(&path), what);
    }
}

/// One write a line: other processes count in the same file.
fn count_in(path: &Path, what: &str) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(format!("{what}\n").as_bytes())
}

/// The kernel patches its own code by way of breakpoints, as when a scheduler is unloaded. QEMU executes one now and then
/// that is in the code no longer, and the kernel, which knows of none there, panics; no real CPU does so. The plugin
/// `breakpoints` fixes that, where there is a C compiler.
fn is_stale_breakpoint(error: &LabError) -> bool {
    matches!(error, LabError::GuestPanic { console } if console.contains("Oops: int3"))
}

/// Passes output on, and notes that there was some.
pub(super) struct Watched<'a> {
    pub(super) to: &'a mut dyn Write,
    pub(super) anything: &'a Cell<bool>,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.anything.set(true);
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::Silent;

    const STALE: &str =
        "[   57.466652] Oops: int3: 0000 [#1] SMP NOPTI\n[   57.470395] RIP: 0010:sched_tick+0xef/0x260";

    fn panic(console: &str) -> LabError {
        LabError::GuestPanic { console: console.to_owned() }
    }

    #[test]
    fn no_other_panic_is_taken_for_the_emulators() {
        assert!(is_stale_breakpoint(&panic(STALE)));
        assert!(!is_stale_breakpoint(&panic("[   57.466652] Oops: general protection fault: 0000 [#1] SMP NOPTI")));
        assert!(!is_stale_breakpoint(&panic("[   57.466652] Kernel panic - not syncing: sysrq triggered crash")));
        assert!(!is_stale_breakpoint(&LabError::TimedOut { seconds: 3, last: String::new() }));
    }

    #[test]
    fn a_guest_boots_twice_at_most_and_only_where_nothing_was_heard() {
        let boots = Cell::new(0);
        let output = Cell::new(false);
        let broken = |words: &'static [u8]| {
            boots.set(boots.get() + 1);
            Watched { to: &mut io::sink(), anything: &output }.write_all(words).unwrap();
            Err::<(), _>(panic(STALE))
        };
        let counted = RefCell::new(Vec::new());
        let count = |what: &str| counted.borrow_mut().push(what.to_owned());
        assert!(once_more(&Silent, count, || broken(b""), || !output.get()).is_err());
        assert_eq!((boots.take(), counted.take()), (2, vec!["boot".to_owned(), "again".to_owned()]));
        assert!(once_more(&Silent, count, || broken(b"words"), || !output.get()).is_err());
        assert_eq!((boots.take(), counted.take()), (1, vec!["boot".to_owned()]));
        let mut first = true;
        let fixes = || if std::mem::take(&mut first) { Err(panic(STALE)) } else { Ok("ran") };
        assert_eq!(once_more(&Silent, count, fixes, || true).unwrap(), "ran");
    }

    #[test]
    fn boots_and_repeated_ones_are_counted_by_all_in_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boots");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| count_in(&path, "boot").unwrap()));
            }
        });
        count_in(&path, "again").unwrap();
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines.lines().filter(|line| *line == "boot").count(), 100);
        assert_eq!(lines.lines().last(), Some("again"));
    }
}
