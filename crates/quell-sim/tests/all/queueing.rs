//! Latencies of simple queues against theory, beside those that `quell-lab paper queueing` shows.

use quell_sim::experiment::queueing::{PARTS, Part, Queue, mean, p99};

const REQUESTS: u64 = 400_000;

/// Both within 3 %, or theory within the interval.
fn assert_as_in_theory(queue: Queue, load: f64) {
    let parts: Vec<Part> = (0..PARTS).map(|part| queue.run(load, part, REQUESTS).unwrap()).collect();
    for (seen, theory) in [(mean(&parts), Some(queue.mean(load))), (p99(&parts), queue.p99(load))] {
        let Some(theory) = theory else { continue };
        let off = (seen.value - theory).abs();
        assert!(off < seen.half_width.max(0.03 * theory), "{queue:?} at {load}: {seen:?}, theory says {theory:.4}");
        assert!(seen.half_width < 0.1 * theory, "{queue:?} at {load}: {seen:?} says nothing about {theory:.4}");
    }
}

#[test]
fn many_servers_have_one_queue() {
    assert_as_in_theory(Queue::MMk(16), 0.7);
    assert_as_in_theory(Queue::MMk(16), 0.85);
}

#[test]
fn a_low_load_hardly_waits() {
    assert_as_in_theory(Queue::MMk(2), 0.05);
    assert_as_in_theory(Queue::MD1, 0.05);
}
