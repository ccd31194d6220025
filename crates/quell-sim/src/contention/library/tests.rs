//! What the papers say about programs alone, each alone on a machine of those papers.

use super::*;
use crate::contention::settled::{Settled, Thread, settled};
use crate::machine::Preset;

/// This many threads of a program on the first cores of a machine's first socket.
fn alone(machine: &str, name: &str, threads: u32) -> Settled {
    let profile = named(name).unwrap();
    let threads: Vec<Thread<'_>> = (0..threads).map(|core| Thread::new(profile, 0, core)).collect();
    settled(&Preset::named(machine).unwrap().machine().socket(), &threads, 0.0)
}

fn instructions_a_cycle(found: &Settled) -> f64 {
    found.threads[0].rates.instructions / found.threads[0].rates.cycles
}

fn hit_ratio(found: &Settled) -> f64 {
    1.0 - found.threads[0].rates.misses / found.threads[0].rates.references
}

#[test]
fn names_are_unique_and_servers_have_service_times() {
    let mut names: Vec<&str> = all().map(|known| known.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]) && names.len() == 38, "{names:?}");
    assert_eq!(all().filter(|known| known.service.is_some()).count(), 9);
}

/// snu2020 §3.5.2, Figure 3.10.
#[test]
fn tailbench_uses_memory_as_measured() {
    let [xapian, moses, sphinx] = ["xapian", "moses", "sphinx"].map(|name| alone("his", name, 8));
    assert!(xapian.load < 0.05, "barely: {}", xapian.load);
    assert!(xapian.load < moses.load && moses.load < sphinx.load, "{} {}", moses.load, sphinx.load);
    assert!(hit_ratio(&xapian) > hit_ratio(&moses));
    assert!(instructions_a_cycle(&xapian) > instructions_a_cycle(&moses));
}

/// caladan-osdi20 §2, §7 and §7.2, with 11 cores for the best-effort work.
#[test]
fn caladans_antagonists_use_memory_as_said() {
    let load = |name| alone("caladan-socket", name, 11).load;
    for (name, least) in [("stream-DRAM", 0.9), ("swaptions-gc", 0.9), ("streamcluster", 0.5)] {
        assert!(load(name) > least, "{name}: {}", load(name));
    }
    for (name, most) in [("stream-L2", 0.1), ("swaptions", 0.1), ("x264", 0.3)] {
        assert!(load(name) < most, "{name}: {}", load(name));
    }
}

/// snu2020 §3.5: SP and UA for bandwidth, canneal for the cache, swaptions for the CPU; §5.3.1: lbm is memory-intensive and
/// sjeng is not, though its miss rate is the higher one.
#[test]
fn batch_programs_are_as_intensive_as_the_dissertation_says() {
    let of = |name| alone("his", name, 8);
    let (sp, ua, canneal) = (of("SP").load, of("UA").load, of("canneal").load);
    assert!(sp > ua && ua > 1.5 * canneal && canneal > 10.0 * of("swaptions").load, "{sp} {ua} {canneal}");
    // For the comparison with Heracles: bfs is a CPU workload, facesim one of the LLC.
    let (bfs, facesim) = (of("bfs"), of("facesim"));
    assert!(bfs.load < 0.1 && facesim.load < ua && hit_ratio(&facesim) > hit_ratio(&of("UA")), "{}", facesim.load);
    let (lbm, sjeng) = (of("lbm"), of("sjeng"));
    assert!(hit_ratio(&lbm) > hit_ratio(&sjeng) && lbm.load > 10.0 * sjeng.load, "{} {}", lbm.load, sjeng.load);
}

/// Only streams are near the bandwidth of a socket with one thread, and all retire a usual number of instructions.
/// `docs/lab/workloads.md` lists the profiles by the bandwidth of one thread.
#[test]
fn single_threads_are_of_the_usual_order() {
    println!(
        "| | instructions a cycle | references that miss | GB/s, 1 thread | GB/s, 8 threads |\n|---|---|---|---|---|"
    );
    for known in all() {
        let (one, eight) = (alone("his", known.name, 1), alone("his", known.name, 8));
        let rate = instructions_a_cycle(&one);
        let bytes = |found: &Settled| found.threads.iter().map(|thread| thread.rates.bytes).sum::<f64>();
        let misses = 1.0 - hit_ratio(&one);
        println!("| `{}` | {rate:.2} | {misses:.2} | {:.2} | {:.1} |", known.name, bytes(&one), bytes(&eight));
        assert!((0.3..2.1).contains(&rate) && one.load < 0.25, "{}: {rate}, {}", known.name, one.load);
    }
}
