//! What is fair among spinning threads that may use some CPUs each: the weighted max-min shares.

use crate::shares::Spinner;

/// The CPUs that each thread is to get: all get more alike, by weight, until a set of CPUs is full or a thread has one CPU;
/// then the others get more. Up to about ten CPUs: all sets of them are looked at.
pub fn weighted_max_min(spinners: &[Spinner], cpus: u32) -> Vec<f64> {
    let mut fixed: Vec<Option<f64>> = vec![None; spinners.len()];
    while fixed.iter().any(Option::is_none) {
        let open = |thread: usize| fixed[thread].is_none();
        // Each limit: up to which level, and who reaches it.
        let alone = (0..spinners.len()).filter(|&thread| open(thread));
        let alone = alone.map(|thread| (1.0 / f64::from(spinners[thread].weight), 1 << thread));
        let full = (1_u64..1 << cpus).filter_map(|set| {
            let within = || (0..spinners.len()).filter(move |&thread| spinners[thread].cpus & !set == 0);
            let weight: u32 = within().filter(|&thread| open(thread)).map(|thread| spinners[thread].weight).sum();
            let taken: f64 = within().filter_map(|thread| fixed[thread]).sum();
            let who = within().filter(|&thread| open(thread)).fold(0_u64, |who, thread| who | 1 << thread);
            (weight > 0).then(|| ((f64::from(set.count_ones()) - taken) / f64::from(weight), who))
        });
        let (level, who) = alone.chain(full).min_by(|a, b| a.0.total_cmp(&b.0)).expect("a thread is open");
        for (thread, spinner) in spinners.iter().enumerate() {
            if who >> thread & 1 == 1 {
                fixed[thread] = Some(level.max(0.0) * f64::from(spinner.weight));
            }
        }
    }
    fixed.into_iter().flatten().collect()
}
