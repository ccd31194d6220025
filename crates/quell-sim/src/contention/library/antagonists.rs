//! Synthetic work that stresses one thing.

use super::{Core, Known};

/// The antagonists.
pub(super) static ANTAGONISTS: &[Known] = &[
    Known::new(
        "computing",
        "assumed: arithmetic on what fits into the core's own caches",
        Core(0.6, 0.05, 2.0),
        &[(0.0, 0.5), (1.0, 0.05)],
    )
    .apart(),
    Known::new(
        "streaming",
        "assumed: a loop over arrays that no cache holds, with prefetching, as STREAM's copy: a line read, half a line \
         written back for each",
        Core(0.5, 60.0, 10.0),
        &[(0.0, 1.0)],
    )
    .apart()
    .lines(1.5)
    .sibling(0.5, 0.5),
    Known::new(
        "stress-ng-cpu",
        "stress-ng --cpu: all its methods in turn, integer and floating point, in small buffers; assumed as \"computing\", \
         a heavier sibling",
        Core(0.7, 0.1, 2.0),
        &[(0.0, 0.5), (1.0, 0.05)],
    )
    .apart()
    .sibling(0.9, 0.9),
    Known::new(
        "stress-ng-memory",
        "stress-ng --vm: writes patterns over 256 MB for each worker, and reads them again; assumed: arithmetic between, \
         every line read and written back",
        Core(0.6, 20.0, 8.0),
        &[(0.0, 1.0)],
    )
    .apart()
    .lines(2.0)
    .sibling(0.7, 0.7),
    Known::new(
        "stream-L2",
        "caladan-osdi20 §7: reads and writes arrays, and \"displaces the L2 cache\"; its published script gives each thread \
         two sevenths of that cache, and its source copies one half of them to the other (caladan-all, caladan_common.py, \
         streamL2; caladan, apps/netbench, CacheAntagonistWorker): so it stays within the core's own caches, and all its \
         time goes for a path that siblings share; else assumed",
        Core(0.5, 0.5, 8.0),
        &[(0.0, 1.0), (0.25, 0.01)],
    )
    .apart()
    .lines(1.5)
    .sibling(0.8, 1.0),
    Known::new(
        "stream-DRAM",
        "caladan-osdi20 §7: the same with larger arrays, \"displaces the LLC and consumes all available memory bandwidth\"; \
         assumed as \"streaming\"",
        Core(0.5, 60.0, 10.0),
        &[(0.0, 1.0)],
    )
    .apart()
    .lines(1.5)
    .sibling(0.5, 0.5),
];
