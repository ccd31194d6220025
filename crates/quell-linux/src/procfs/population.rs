//! The machine's threads in one line: how many there are, and the number of the youngest.

use super::ProcFs;
use super::name::Name;

/// Long enough for three averages and three numbers.
const LINE: usize = 128;

/// What changes with each birth and each death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Population {
    /// Threads that there are.
    pub threads: u32,
    /// The number that was given out last.
    pub last: i32,
}

impl ProcFs {
    /// The threads as `loadavg` counts them; None where numbers are another namespace's, or the file says nothing.
    pub(crate) fn population(&mut self) -> Option<Population> {
        if !self.is_own {
            return None;
        }
        Population::parse(self.read(&Name::new(format_args!("loadavg")), LINE).ok().flatten()?)
    }
}

impl Population {
    /// Of `0.20 0.18 0.12 1/80 11206`.
    fn parse(line: &[u8]) -> Option<Population> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace().skip(3);
        let (_, threads) = words.next()?.split_once('/')?;
        Some(Population { threads: threads.parse().ok()?, last: words.next()?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_line_is_understood_as_this_kernel_writes_it() {
        let parsed = Population::parse(b"0.20 0.18 0.12 1/80 11206\n");
        assert_eq!(parsed, Some(Population { threads: 80, last: 11_206 }));
        assert_eq!(Population::parse(b"0.20 0.18"), None);
        let mut proc = ProcFs::open(Path::new("/proc")).unwrap();
        if !proc.is_own {
            return eprintln!("not tested here: a pid namespace");
        }
        assert!(proc.population().is_some_and(|found| found.threads > 0 && found.last > 0));
    }
}
