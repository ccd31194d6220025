//! Batch programs.

use super::{Core, Known};

/// The batch programs. Working sets of PARSEC's are those of its own characterisation (Bienia et al., PACT 2008, and
/// Bienia's thesis), scaled to its native inputs by its words on how they grow; the other numbers are assumed, of the
/// order that is usual for such loops.
pub(super) static BATCH: &[Known] = &[
    Known::new(
        "bodytrack",
        "PARSEC: working sets of 512 KB and 8 MB, input images streamed; else assumed",
        Core(0.55, 2.5, 3.0),
        &[(0.0, 0.8), (1.0, 0.5), (8.0, 0.1), (32.0, 0.05)],
    ),
    Known::new(
        "fluidanimate",
        "PARSEC: cells of particles, a working set of 64 MB and more, neighbours reused; else assumed",
        Core(0.65, 4.0, 3.0),
        &[(0.0, 0.9), (2.0, 0.6), (16.0, 0.4), (64.0, 0.1)],
    )
    .lines(1.5),
    Known::new(
        "streamcluster",
        "PARSEC: streams through a block of points that no cache holds (200,000 of 128 dimensions, 100 MB, native input), \
         read only, prefetched; \"uses a larger amount of memory bandwidth\" (caladan-osdi20 §7.2); else assumed",
        Core(0.6, 18.0, 6.0),
        &[(0.0, 1.0), (2.0, 0.95), (16.0, 0.85), (128.0, 0.05)],
    ),
    Known::new(
        "ocean_cp",
        "SPLASH-2: stencils over grids that no cache holds, prefetched, written back; else assumed",
        Core(0.7, 15.0, 6.0),
        &[(0.0, 1.0), (4.0, 0.9), (16.0, 0.75), (256.0, 0.1)],
    )
    .lines(1.5),
    Known::new(
        "volrend",
        "SPLASH-2: rays through a volume of a few MB; else assumed",
        Core(0.6, 1.5, 2.0),
        &[(0.0, 0.7), (2.0, 0.25), (8.0, 0.05)],
    ),
    Known::new(
        "canneal",
        "PARSEC: random swaps in a net-list of 256 MB and more, pointers followed; LLC-intensive (snu2020 §3.5); else \
         assumed",
        Core(0.9, 14.0, 2.0),
        &[(0.0, 0.95), (4.0, 0.75), (16.0, 0.6), (40.0, 0.45), (256.0, 0.1)],
    ),
    Known::new(
        "swaptions",
        "PARSEC: a working set of 512 KB; CPU-intensive (snu2020 §3.5); else assumed",
        Core(0.55, 0.2, 2.0),
        &[(0.0, 0.6), (0.5, 0.05)],
    )
    .apart(),
    Known::new(
        "swaptions-gc",
        "swaptions while its collector marks: \"scans the entire heap using all cores … which saturates memory bandwidth\" \
         (caladan-osdi20 §2); for the collecting phase only, 100 to 200 ms at a time; else assumed",
        Core(0.6, 35.0, 6.0),
        &[(0.0, 1.0), (16.0, 0.85)],
    )
    .lines(1.5),
    Known::new(
        "x264",
        "PARSEC: frames of a few MB, a working set of 16 MB, reference frames streamed; else assumed",
        Core(0.5, 2.5, 4.0),
        &[(0.0, 0.8), (2.0, 0.45), (16.0, 0.15)],
    ),
    Known::new(
        "SP",
        "NPB: solves along lines of a grid that no cache holds; \"high memory bandwidth and LLC usage than other \
         benchmarks\" (snu2020 §3.5); else assumed",
        Core(0.6, 28.0, 6.0),
        &[(0.0, 1.0), (8.0, 0.75), (40.0, 0.55), (256.0, 0.1)],
    )
    .lines(1.5),
    Known::new(
        "UA",
        "NPB: an unstructured adaptive mesh; bandwidth-intensive (snu2020 §3.5); else assumed",
        Core(0.7, 20.0, 5.0),
        &[(0.0, 1.0), (8.0, 0.7), (40.0, 0.5), (256.0, 0.1)],
    )
    .lines(1.5),
    Known::new(
        "lbm",
        "SPEC 2006: streams through two lattices of 200 MB and writes one, prefetched, so that half of its references hit \
         (snu2020 §5.3.1: memory-intensive, with a lower miss rate than sjeng); else assumed",
        Core(0.5, 50.0, 8.0),
        &[(0.0, 1.0), (1.0, 0.5), (512.0, 0.05)],
    )
    .apart()
    .lines(2.0),
    Known::new(
        "sjeng",
        "SPEC 2006: chess; few references, most of them into a hash table of 170 MB (snu2020 §5.3.1: CPU-intensive); else \
         assumed",
        Core(0.75, 0.8, 1.5),
        &[(0.0, 0.9), (4.0, 0.6), (256.0, 0.1)],
    )
    .apart(),
    Known::new(
        "GemsFDTD",
        "SPEC 2006: Maxwell's equations over grids of 800 MB, swept and written (snu2020 §5.3.1: memory-intensive); else \
         assumed",
        Core(0.7, 35.0, 7.0),
        &[(0.0, 1.0), (1.0, 0.75), (32.0, 0.6), (800.0, 0.05)],
    )
    .apart()
    .lines(1.5),
    Known::new(
        "zeusmp",
        "SPEC 2006: magnetohydrodynamics over grids of 500 MB in blocks, few references, most of which miss (snu2020 §5.3.1: \
         CPU-intensive, with a higher miss rate than lbm); else assumed",
        Core(0.7, 4.0, 3.0),
        &[(0.0, 1.0), (1.0, 0.75), (64.0, 0.5), (500.0, 0.05)],
    )
    .apart(),
    Known::new(
        "dedup",
        "PARSEC: a stream cut into chunks and hashed, a hash table of 256 MB and more, written back; else assumed",
        Core(0.6, 5.0, 3.0),
        &[(0.0, 0.8), (2.0, 0.5), (16.0, 0.3), (256.0, 0.1)],
    )
    .lines(1.5),
    Known::new(
        "facesim",
        "PARSEC: meshes of a face, working sets of 8 MB and 256 MB; LLC-intensive (snu2020 §3.5); else assumed",
        Core(0.65, 12.0, 3.0),
        &[(0.0, 0.9), (8.0, 0.6), (40.0, 0.25), (256.0, 0.1)],
    ),
    Known::new(
        "ferret",
        "PARSEC: similarity search in tables of 64 MB and more; else assumed",
        Core(0.6, 6.0, 3.0),
        &[(0.0, 0.8), (8.0, 0.4), (64.0, 0.1)],
    ),
    Known::new(
        "vips",
        "PARSEC: an image through a chain of filters, a working set of 16 MB, streamed; else assumed",
        Core(0.5, 3.0, 4.0),
        &[(0.0, 0.8), (2.0, 0.4), (16.0, 0.15)],
    ),
    Known::new(
        "bfs",
        "Rodinia: a graph breadth first; \"for CPU workloads\" (snu2020 §3.5), so that few references leave its core; else assumed",
        Core(0.8, 1.0, 2.0),
        &[(0.0, 0.7), (4.0, 0.3), (40.0, 0.1)],
    ),
    Known::new(
        "cfd",
        "Rodinia: Euler's equations on an unstructured grid that no cache holds; else assumed",
        Core(0.7, 14.0, 5.0),
        &[(0.0, 1.0), (8.0, 0.8), (40.0, 0.6), (256.0, 0.1)],
    )
    .lines(1.3),
    Known::new(
        "kmeans",
        "Rodinia: points streamed against a few centres; else assumed",
        Core(0.5, 6.0, 5.0),
        &[(0.0, 0.9), (8.0, 0.5), (40.0, 0.2)],
    ),
    Known::new(
        "nn",
        "Rodinia: nearest neighbours in a list of records, streamed; with swaptions one of the two that are not contended \
         (snu2020 Fig. 3.3); else assumed",
        Core(0.6, 2.0, 4.0),
        &[(0.0, 1.0), (1.0, 0.6), (16.0, 0.4)],
    ),
];
