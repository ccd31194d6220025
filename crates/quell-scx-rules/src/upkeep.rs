//! The budget of the kernel's threads of one CPU.

use crate::half::Half;

#[test]
fn the_kernels_threads_of_a_cpu_have_ten_milliseconds_in_fifty() {
    const MS: u64 = 1_000_000;
    let half = Half::with_cpus(2);
    let now = 1000 * MS;
    assert_eq!(half.uses_upkeep(0, 0, now), 10 * MS);
    assert_eq!(half.uses_upkeep(0, 4 * MS, now + 10 * MS), 6 * MS);
    assert_eq!(half.uses_upkeep(0, 6 * MS, now + 20 * MS), 0);
    assert_eq!(half.uses_upkeep(1, 0, now + 20 * MS), 10 * MS, "each CPU has its own");
    assert_eq!(half.uses_upkeep(0, 0, now + 49 * MS), 0);
    assert_eq!(half.uses_upkeep(0, 0, now + 50 * MS), 10 * MS);
}
