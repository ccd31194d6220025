//! Numbers of threads and processes that may have been given out again.

use quell_model::Nanos;

use super::ProcFs;

/// Above what a CPU can create threads in a second.
const BIRTHS_A_SECOND: u64 = 50_000;

/// The numbers that the kernel gave out between two looks. It gives them out in turn, round and round: a number outside of that
/// range still belongs to the thread that had it, or to none. (A privileged program may choose a number, clone3(2); for that the
/// start times of processes are compared at each scan, too.)
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// The last number given out, and when that was read.
    at: Option<(i32, Nanos)>,
    /// After the first, up to the second; None: any may have been.
    given: Option<(i32, i32)>,
}

impl Numbers {
    /// Looks where the kernel is now, before the numbers themselves are read. `cpus`: number of CPUs; 0 if that is not known.
    pub fn look(&mut self, proc: &mut ProcFs, cpus: usize, now: Nanos) {
        let last = proc.number("sys/kernel/ns_last_pid");
        let most = proc.number("sys/kernel/pid_max");
        self.given = match (self.at, last, most) {
            (Some((before, since)), Some(last), Some(most)) if cpus > 0 => {
                let births = (now - since).0.saturating_mul(BIRTHS_A_SECOND * cpus as u64) / 1_000_000_000;
                (births < most.unsigned_abs().into()).then_some((before, last))
            }
            _ => None,
        };
        self.at = last.map(|last| (last, now));
    }

    /// A look was in vain: after the next one any number is doubtful.
    pub fn forget(&mut self) {
        *self = Numbers::default();
    }

    /// May this number have been given out again between the last two looks?
    pub fn is_doubtful(&self, number: i32) -> bool {
        match self.given {
            None => true,
            Some((before, last)) if before <= last => before < number && number <= last,
            Some((before, last)) => number > before || number <= last,
        }
    }

    /// Is no number doubtful?
    pub fn all_certain(&self) -> bool {
        self.given.is_some_and(|(before, last)| before == last)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_lies_between_two_looks_is_doubtful_and_all_if_that_cannot_be_known() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        let last = |last: i32| fs::write(root.path().join("sys/kernel/ns_last_pid"), format!("{last}\n")).unwrap();
        fs::write(root.path().join("sys/kernel/pid_max"), "32768\n").unwrap();
        let mut proc = ProcFs::open(root.path()).unwrap();
        let mut numbers = Numbers::default();
        let millis = Nanos::from_millis;
        let doubtful = |numbers: &Numbers| [1, 90, 100, 101, 32_000].map(|number| numbers.is_doubtful(number));
        last(90);
        numbers.look(&mut proc, 2, millis(10));
        assert_eq!(doubtful(&numbers), [true; 5], "the first look");
        last(100);
        numbers.look(&mut proc, 2, millis(20));
        assert_eq!(doubtful(&numbers), [false, false, true, false, false]);
        last(1);
        numbers.look(&mut proc, 2, millis(30));
        assert_eq!(doubtful(&numbers), [true, false, false, true, true], "round");
        numbers.look(&mut proc, 2, millis(40));
        assert!(numbers.all_certain() && doubtful(&numbers) == [false; 5]);
        numbers.forget();
        numbers.look(&mut proc, 2, millis(40));
        assert_eq!(doubtful(&numbers), [true; 5], "after a look in vain");
        numbers.look(&mut proc, 2, millis(40));
        assert!(numbers.all_certain());
        numbers.look(&mut proc, 2, millis(1040));
        assert_eq!(doubtful(&numbers), [true; 5], "time enough to go round");
        fs::remove_file(root.path().join("sys/kernel/ns_last_pid")).unwrap();
        numbers.look(&mut proc, 2, millis(1050));
        assert_eq!(doubtful(&numbers), [true; 5], "the kernel does not report");
    }
}
