//! A million random, lying and torn pages, in seconds.

use quell_page::{Copied, LINE, PROGRAM_MAGIC, SIZE, VERSION, WORKERS};

/// Numbers that are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time that is tempting to believe: none, before the attachment, now, in the future, or any.
    fn time(&mut self, attached: u64, now: u64) -> u64 {
        match self.next() % 8 {
            0 => 0,
            1 => 1,
            2 => attached,
            3 => now,
            4 => now.wrapping_add(1),
            5 => u64::MAX,
            6 => attached.wrapping_add(self.next() % 1_000_000),
            _ => self.next(),
        }
    }
}

#[test]
fn no_page_of_a_million_says_more_than_may_be() {
    let mut numbers = Numbers(57);
    let (mut read, mut lied) = (0_u32, 0_u32);
    let mut bytes = vec![0; 4 * LINE];
    for _ in 0..1_000_000 {
        let (attached, age) = (numbers.next() >> 2, numbers.next() % 1_000_000_000_000);
        let now = attached + age;
        // What stood there before stays between the words: a page is torn between those of two programs.
        for line in 1..4 {
            for word in 0..5 {
                if numbers.next().is_multiple_of(2) {
                    let value = if (1..4).contains(&word) { numbers.time(attached, now) } else { numbers.next() };
                    bytes[LINE * line + 8 * word..][..8].copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
        let used = if numbers.next().is_multiple_of(4) { numbers.next() as u32 } else { (numbers.next() % 5) as u32 };
        let version = if numbers.next().is_multiple_of(16) { numbers.next() as u32 } else { VERSION };
        bytes[..8].copy_from_slice(&PROGRAM_MAGIC.to_ne_bytes());
        for (at, value) in [(8, version), (12, LINE as u32), (16, WORKERS as u32), (20, used)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let end = LINE + (numbers.next() as usize) % (3 * LINE + 1);
        let Some(copied) = Copied::new(&bytes[..end], attached, now) else {
            assert_ne!(version, VERSION);
            continue;
        };
        read += 1;
        assert!((LINE..=SIZE).contains(&copied.next_size()));
        for (place, worker) in copied.workers() {
            assert!(place < 3 && worker.delay <= age);
            assert!(worker.request.is_none_or(|start| (attached..=now).contains(&start)));
            lied += u32::from(worker.request == Some(now));
        }
        assert!(copied.seen().delay <= age);
    }
    assert!(read > 900_000 && lied > 10_000, "{read} pages, {lied} requests that began in the future");
}
