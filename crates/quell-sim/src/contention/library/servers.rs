//! Latency-critical servers.

use quell_model::Nanos;

use super::{Core, Known};

/// The servers. References and their parallelism are of the order that Ferdman et al. (Clearing the Clouds, ASPLOS 2012)
/// measured for such work: many instruction misses, little parallelism (1.4 to 2.3 references at a time), a last-level
/// cache that holds code and hot data and little else. The curves are assumed.
pub(super) static SERVERS: &[Known] = &[
    Known::new(
        "memcached",
        "service time: caladan-osdi20 §7 (\"about 1 μs\", its runtime without the kernel's network); the rest of the order \
         of Ferdman et al. 2012, data caching; curve assumed: code and hot keys in a few MiB, values beyond",
        Core(1.2, 15.0, 1.8),
        &[(0.0, 0.7), (1.0, 0.4), (4.0, 0.2), (16.0, 0.12), (64.0, 0.08)],
    )
    .serves(Nanos(1_000)),
    Known::new(
        "silo",
        "service time: caladan-osdi20 §7, TPC-C (median 20 μs, 99.9 % 280 μs: lognormal, mean 29 μs); \"sensitive to LLC \
         interference\" (§7.2); the rest assumed, as an in-memory database",
        Core(0.9, 18.0, 2.0),
        &[(0.0, 0.9), (2.0, 0.6), (8.0, 0.35), (30.0, 0.15)],
    )
    .serves(Nanos(29_000)),
    Known::new(
        "storage",
        "service time: caladan-osdi20 §7 (99 % 35 μs, 1 % 250 μs, of which the device takes 10 μs); compression and \
         encryption (§7); the rest assumed",
        Core(0.6, 3.0, 3.0),
        &[(0.0, 0.6), (1.0, 0.4), (8.0, 0.25)],
    )
    .lines(1.5)
    .serves(Nanos(27_000)),
    Known::new(
        "img-dnn",
        "handwriting recognition of Tailbench (Kasture and Sanchez, IISWC 2016); assumed: small matrices that fit the \
         cache; service time of the usual order",
        Core(0.55, 6.0, 4.0),
        &[(0.0, 0.9), (4.0, 0.3), (12.0, 0.05)],
    )
    .sibling(0.9, 0.9)
    .serves(Nanos::from_millis(2)),
    Known::new(
        "masstree",
        "key-value store of Tailbench, half gets and half puts (dasec-socc22 Table 2); assumed: a walk down a tree larger \
         than the cache, a few nodes prefetched; service time of the usual order",
        Core(0.8, 14.0, 2.0),
        &[(0.0, 0.9), (4.0, 0.6), (16.0, 0.45), (64.0, 0.3)],
    )
    .serves(Nanos::from_micros(150)),
    Known::new(
        "xapian",
        "search of Tailbench; snu2020 §3.5.2: barely uses memory bandwidth, higher hit ratio and IPC than moses; service \
         time: 8 cores over its peak load of 2,200 requests a second (1,540 are 70 % of it)",
        Core(0.6, 3.0, 2.0),
        &[(0.0, 0.6), (2.0, 0.2), (8.0, 0.06)],
    )
    .serves(Nanos::from_micros(3_600)),
    Known::new(
        "moses",
        "translation of Tailbench; snu2020 §3.5.2: moderate memory bandwidth; service time: 8 cores over its peak load of \
         200 requests a second (140 are 70 % of it)",
        Core(0.9, 10.0, 2.5),
        &[(0.0, 0.9), (8.0, 0.5), (40.0, 0.35)],
    )
    .serves(Nanos::from_millis(40)),
    Known::new(
        "sphinx",
        "speech recognition of Tailbench; snu2020 §3.5.2: the most memory bandwidth of the three; service time: 8 cores \
         over its peak load of 8 requests a second (5.6 are 70 % of it)",
        Core(0.7, 16.0, 4.0),
        &[(0.0, 0.95), (8.0, 0.7), (40.0, 0.5)],
    )
    .serves(Nanos::from_millis(1_000)),
    Known::new(
        "apache",
        "web server with its kernel work, of the order of Ferdman et al. 2012, web front end; curve and service time assumed, \
         for static pages",
        Core(1.1, 12.0, 1.8),
        &[(0.0, 0.7), (1.0, 0.4), (4.0, 0.2), (16.0, 0.1)],
    )
    .serves(Nanos::from_micros(500)),
];
