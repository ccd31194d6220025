//! All threads of the machine by samples of procfs.

use quell_linux::procfs::ProcFs;
use quell_model::Nanos;
use quell_thread::clock::now;

use super::guess::{Guess, Reading};
use super::waits::Lost;
use super::watch::Cast;
use crate::GapError;

/// Interval of the samples …
const EVERY: Nanos = Nanos::from_millis(100);
/// … and how many times longer than a sample takes the time without one is, at least.
const REST: u64 = 9;

/// Samples so far.
pub(super) struct Sampled {
    guess: Option<Guess>,
    at: Option<Nanos>,
    due: Nanos,
    readings: Vec<Reading>,
}

impl Sampled {
    pub fn new(services: usize) -> Sampled {
        Sampled { guess: Some(Guess::new(services)), at: None, due: Nanos::ZERO, readings: Vec::new() }
    }

    /// Is it time for the next sample?
    pub fn is_due(&self) -> bool {
        now() >= self.due
    }

    /// Takes a sample.
    pub fn take(&mut self, proc: &mut ProcFs, cast: &mut Cast) -> Result<(), GapError> {
        let begin = now();
        self.read(proc, cast)?;
        let interval = self.at.map_or(Nanos::ZERO, |at| begin.since(at));
        if let Some(guess) = &mut self.guess {
            guess.take(&self.readings, interval);
        }
        self.at = Some(begin);
        self.due = (begin + EVERY).max(now() + Nanos(now().since(begin).0 * REST));
        Ok(())
    }

    pub fn close(&mut self) -> Vec<Lost> {
        self.guess.take().map_or_else(Vec::new, Guess::close)
    }

    fn read(&mut self, proc: &mut ProcFs, cast: &mut Cast) -> Result<(), GapError> {
        let (mut pids, mut tids) = (Vec::new(), Vec::new());
        proc.pids(&mut pids)?;
        self.readings.clear();
        for pid in pids {
            let Some(slot) = cast.slot_of(proc, pid)? else { continue };
            tids.clear();
            proc.threads(pid, &mut tids)?;
            for &tid in &tids {
                let Some(times) = proc.schedstat(pid, tid)? else { continue };
                let Some(stat) = proc.stat(pid, tid)? else { continue };
                self.readings.push(Reading { tid, slot, cpu: stat.cpu.0, run: times.run_time, delay: times.run_delay });
            }
        }
        Ok(())
    }
}
