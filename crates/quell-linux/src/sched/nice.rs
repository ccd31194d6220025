//! Nice values and weights.
//!
//! A thread has no weight of its own to set, only a nice value. The kernel turns it into a weight by a table
//! (`sched_prio_to_weight`, kernel/sched/core.c): 1024 at nice 0, a factor of about 1.25 a step. A cgroup's `cpu.weight`
//! of 100 counts as 1024 too, so weight 100 is nice 0, and the range of nice values covers weights from about 1.5 to
//! 8670.
//!
//! Nice values count only among threads of one cgroup, or of one autogroup (autogroups, one a session, compete with
//! each other as equals): this can do less than `cpu.weight` can.

/// `sched_prio_to_weight`, from nice −20 to 19.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The nice value whose weight comes nearest, by ratio, to a `cpu.weight` of 1–10000.
#[must_use]
pub fn nice_of_weight(weight: u32) -> i8 {
    let wanted = (f64::from(weight.clamp(1, 10_000)) * 1024.0 / 100.0).ln();
    let distance = |index: usize| (f64::from(WEIGHTS[index]).ln() - wanted).abs();
    let nearest = (0..WEIGHTS.len()).min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or(20) as i8 - 20
}

/// The `cpu.weight` that corresponds to a nice value, rounded.
#[must_use]
pub fn weight_of_nice(nice: i8) -> u32 {
    let weight = WEIGHTS[(nice.clamp(-20, 19) + 20) as usize];
    ((weight * 100 + 512) / 1024).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nice_value_is_its_own_weights_nearest() {
        // Above nice 14 several nice values share a whole weight.
        for nice in -20..=14 {
            assert_eq!(nice_of_weight(weight_of_nice(nice)), nice);
        }
        assert_eq!((nice_of_weight(100), nice_of_weight(1), nice_of_weight(10_000)), (0, 19, -20));
    }

    #[test]
    fn more_weight_is_never_a_higher_nice_value() {
        let nices: Vec<i8> = (1..=10_000).map(nice_of_weight).collect();
        assert!(nices.windows(2).all(|pair| pair[0] >= pair[1]));
    }
}
