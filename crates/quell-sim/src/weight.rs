//! Weights, in the kernel's high-resolution unit: nice 0 is 1024 × 1024.

/// Bits that weights have below the unit of nice values.
pub(crate) const SCALE: u32 = 10;
/// The weight of nice 0.
pub(crate) const NICE_0: u64 = 1024 << SCALE;
/// The weight of SCHED_IDLE and of a group with cpu.idle.
pub(crate) const IDLE: u64 = 3 << SCALE;
/// The smallest weight of a group's part on one CPU.
pub(crate) const LEAST: u64 = 2 << SCALE;

/// The kernel's `sched_prio_to_weight`, from nice −20 to 19: a step is a factor of about 1.25.
const BY_NICE: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// A thread's weight.
pub(crate) fn of_nice(nice: i8) -> u64 {
    BY_NICE[(i32::from(nice) + 20).clamp(0, 39) as usize] << SCALE
}

/// A group's weight from `cpu.weight` (1–10000, 100 is nice 0's).
pub(crate) fn of_group(cpu_weight: u32) -> u64 {
    ((u64::from(cpu_weight) * 1024 + 50) / 100) << SCALE
}

/// Virtual time that passes while an entity of this weight runs for this long.
pub(crate) fn virtual_time(span: u64, weight: u64) -> i64 {
    if weight == NICE_0 {
        return span as i64;
    }
    match span.checked_mul(NICE_0) {
        Some(product) => (product / weight) as i64,
        None => (u128::from(span) * u128::from(NICE_0) / u128::from(weight)) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_kernels() {
        assert_eq!((of_nice(-20), of_nice(0), of_nice(19)), (88761 << 10, NICE_0, 15 << 10));
        assert_eq!((of_group(100), of_group(1)), (NICE_0, 10 << 10));
        assert_eq!(virtual_time(3_000, of_nice(0)), 3_000);
        assert_eq!(virtual_time(u64::MAX / 4, NICE_0 * 2), (u64::MAX / 8) as i64);
    }
}
