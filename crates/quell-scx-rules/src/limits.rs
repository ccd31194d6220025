//! Limits where cgroups are many, and deep.

use std::sync::atomic::Ordering::Relaxed;

use crate::half::Half;

const ROOT: u64 = 1;
const TENANT: u64 = 2;
const FIRST: u64 = 10_000;
/// `MAX_DEPTH`, the root not counted.
const DEEPEST: u64 = 63;

#[test]
fn a_tenants_many_cgroups_leave_places_for_others_and_those_without_one_are_counted() {
    let half = Half::with_cpus(2);
    half.begins_groups();
    assert!(half.makes_group(TENANT, ROOT, false));
    let placed = (0..5000).filter(|at| half.makes_group(FIRST + at, TENANT, true)).count();
    assert_eq!(placed, 2048);
    assert_eq!(half.shared().unplaced.load(Relaxed), 5000 - 2048);
    assert!(half.makes_group(3, ROOT, false), "a container that comes later has its own limit");
    assert!(!half.makes_group(4, FIRST + 4999, true), "what is below one without a place has none");
    half.removes_group(4);
    half.removes_group(FIRST + 4999);
    half.removes_group(FIRST);
    assert_eq!(half.shared().unplaced.load(Relaxed), 5000 - 2048 - 1);
    assert!(half.makes_group(FIRST + 6000, TENANT, true), "a place that becomes free is given again");
}

#[test]
fn a_limit_holds_for_all_that_is_below_however_deep() {
    let half = Half::with_cpus(2);
    half.begins_groups();
    let placed: Vec<u64> = (0..100).map(|at| ROOT + at).filter(|&at| half.makes_group(at + 1, at, true)).collect();
    assert_eq!(placed.len() as u64, DEEPEST, "what is deeper is under the limits of the deepest that has a place");
    half.limits_group(TENANT, 20_000_000);
    assert!(!half.throttles_group(ROOT + DEEPEST, 10_000_000, TENANT));
    assert!(half.throttles_group(ROOT + DEEPEST, 10_000_000, TENANT));
}
