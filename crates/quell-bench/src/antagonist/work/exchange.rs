//! Threads that wake each other up.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::Work;
use crate::{Error, Result};

/// Bytes each way in a block.
const BYTES: u32 = 16;

/// A thread's end of a pair of sockets.
pub(super) struct Exchange {
    mine: UnixStream,
    /// Of a thread without a partner.
    others: Option<UnixStream>,
}

impl Exchange {
    /// One for each thread: two in turn are partners.
    pub fn all(threads: u32) -> Result<Vec<Option<Self>>> {
        let mut ends = Vec::new();
        while ends.len() < threads as usize {
            let (mine, others) =
                UnixStream::pair().map_err(Error::system("make a pair of sockets", "the antagonist's threads"))?;
            if ends.len() + 1 == threads as usize {
                ends.push(Some(Self { mine, others: Some(others) }));
            } else {
                ends.extend([mine, others].map(|mine| Some(Self { mine, others: None })));
            }
        }
        Ok(ends)
    }
}

impl Work for Exchange {
    /// If the partner has ended, its socket is closed: nothing is waited for any more.
    fn block(&mut self) {
        for _ in 0..BYTES {
            let _ = self.mine.write_all(&[1]);
            let _ = self.others.as_mut().unwrap_or(&mut self.mine).read(&mut [0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn partners_wait_for_each_other_and_for_none_that_has_ended() {
        let mut ends: Vec<_> = Exchange::all(3).unwrap().into_iter().map(Option::unwrap).collect();
        let mut single = ends.pop().unwrap();
        (0..10).for_each(|_| single.block());
        let [mut one, mut two] = <[_; 2]>::try_from(ends).ok().unwrap();
        let other = thread::spawn(move || (0..50).for_each(|_| two.block()));
        // Fifty come back; the rest end at once.
        (0..60).for_each(|_| one.block());
        other.join().unwrap();
    }
}
