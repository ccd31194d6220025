//! Random, lying and torn pages: what is read of them is within bounds, and nothing panics.

use proptest::prelude::*;
use quell_page::{Answer, Copied, FREE, Hello, LINE, PROGRAM_MAGIC, RUNNING, SIZE, Seen, VERSION, Verdict, WORKERS};

/// A page with a right header that says this many lines are used.
fn page(used: u32) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    bytes[..8].copy_from_slice(&PROGRAM_MAGIC.to_ne_bytes());
    for (at, value) in [(8, VERSION), (12, LINE as u32), (16, WORKERS as u32), (20, used)] {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// A worker's line.
fn line(state: u32, request: u64, task: u64, event: u64, queued: u32) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    bytes[4..8].copy_from_slice(&state.to_ne_bytes());
    for (at, value) in [(8, request), (16, task), (24, event)] {
        bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    bytes[32..36].copy_from_slice(&queued.to_ne_bytes());
    bytes
}

fn check(bytes: &[u8], attached: u64, now: u64) -> Result<(), TestCaseError> {
    let Some(copied) = Copied::new(bytes, attached, now) else { return Ok(()) };
    prop_assert!((LINE..=SIZE).contains(&copied.next_size()));
    for (at, worker) in copied.workers() {
        prop_assert!(at < WORKERS && worker.delay <= now.saturating_sub(attached));
        prop_assert!(worker.request.is_none_or(|start| start <= now && start >= attached.min(now)));
    }
    let seen = copied.seen();
    prop_assert!(seen.workers as usize <= WORKERS && seen.delay <= now.saturating_sub(attached));
    prop_assert!(seen.queued <= u64::from(u32::MAX) * WORKERS as u64);
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_give_figures_within_bounds(
        head in any::<bool>(), noise in prop::collection::vec(any::<u8>(), 0..6 * LINE), attached: u64, now: u64,
    ) {
        let mut bytes = noise;
        if head && bytes.len() >= LINE {
            let used = u32::from_ne_bytes(bytes[20..24].try_into().unwrap());
            bytes[..24].copy_from_slice(&page(used)[..24]);
        }
        check(&bytes, attached, now)?;
    }

    #[test]
    fn a_lie_is_worth_no_more_than_the_time_since_the_page_was_handed_out(
        lines in prop::collection::vec((0..4u32, any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()), 0..WORKERS),
        attached in 0..1u64 << 60, age in 0..1u64 << 60, used: u32,
    ) {
        let mut bytes = page(used);
        for (at, (state, request, task, event, queued)) in lines.into_iter().enumerate() {
            bytes[LINE * (at + 1)..][..LINE].copy_from_slice(&line(state, request, task, event, queued));
        }
        check(&bytes, attached, attached + age)?;
    }

    /// A copy that was made while the program wrote has parts of two pages, and may be cut anywhere.
    #[test]
    fn a_torn_page_is_read_as_any_other(
        cut in 0..SIZE, end in 0..=SIZE, first: u64, second: u64, attached in 0..1u64 << 60, age in 0..1u64 << 60,
    ) {
        let filled = |time| {
            let mut bytes = page(WORKERS as u32);
            bytes[LINE..].chunks_exact_mut(LINE).for_each(|at| at.copy_from_slice(&line(RUNNING, time, time, time, 1)));
            bytes
        };
        let (mut bytes, other) = (filled(first), filled(second));
        bytes[cut..].copy_from_slice(&other[cut..]);
        check(&bytes[..end], attached, attached + age)?;
    }

    #[test]
    fn any_message_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let (_, answer) = (Hello::read(&bytes), Answer::read(&bytes));
        prop_assert!(answer.is_none_or(|answer| answer.words().len() <= bytes.len()));
    }

    #[test]
    fn an_answer_arrives_as_it_was_sent(words in "\\PC{0,300}") {
        let answer = Answer::new(Verdict::Outside, &words);
        prop_assert_eq!(Answer::read(&answer.bytes()), Some(answer));
        prop_assert!(words.starts_with(answer.words()));
    }
}

#[test]
fn the_oldest_of_a_task_and_an_event_counts_and_times_are_clamped() {
    let mut bytes = page(4);
    let lines = [line(RUNNING, 50, 700, 600, 2), line(FREE, 1, 1, 1, 9), line(RUNNING, 0, 0, 2_000, 1)];
    for (at, line) in lines.iter().enumerate() {
        bytes[LINE * (at + 1)..][..LINE].copy_from_slice(line);
    }
    let copied = Copied::new(&bytes, 100, 1_000).unwrap();
    let workers: Vec<_> = copied.workers().map(|(at, worker)| (at, worker.request, worker.delay)).collect();
    assert_eq!(workers, [(0, Some(100), 400), (2, None, 0)]);
    assert_eq!(copied.seen(), Seen { workers: 2, delay: 400, queued: 3 });
    assert_eq!(copied.next_size(), 5 * LINE);
}

#[test]
fn another_version_is_no_page() {
    let mut bytes = page(1);
    bytes[8] = bytes[8].wrapping_add(1);
    assert!(Copied::new(&bytes, 0, 1).is_none());
    assert!(Copied::new(&page(1)[..LINE - 1], 0, 1).is_none());
    assert_eq!(Hello::read(&Hello::default().bytes()), Some(Hello { version: VERSION }));
}
