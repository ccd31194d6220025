//! The model of contention without time: what is known of it, and what has to hold for any threads.

use std::borrow::Cow;

use proptest::prelude::*;
use quell_sim::contention::library::named;
use quell_sim::contention::llc::{Occupancy, Sharer};
use quell_sim::contention::settled::{Pace, Settled, Thread, settled};
use quell_sim::contention::solve::{Load, Running, Socket, load, ns_alone};
use quell_sim::contention::{MissCurve, Profile, memory};
use quell_sim::machine::{PRESETS, Preset};

fn caladan() -> Socket {
    Preset::named("caladan-socket").unwrap().machine().socket()
}

fn bytes(found: &Settled) -> f64 {
    found.threads.iter().map(|thread| thread.rates.bytes).sum()
}

/// Waits for nothing but memory: a miss in every few instructions, one at a time.
fn chasing() -> Profile {
    Profile { parallelism: 1.0, ..named("streaming").unwrap().clone() }
}

#[test]
fn a_thread_alone_has_speed_one() {
    for preset in PRESETS {
        let socket = preset.machine().socket();
        for name in ["computing", "streaming"] {
            let thread = Thread::new(named(name).unwrap(), 0, 0);
            let found = settled(&socket, &[thread], 0.0).threads[0];
            assert!((found.speed - 1.0).abs() < 1e-6, "{} {name}: {found:?}", preset.name);
        }
    }
}

#[test]
fn a_streaming_thread_on_each_core_reaches_the_peak_and_no_more() {
    let streaming = named("streaming").unwrap();
    for preset in PRESETS.iter().filter(|preset| preset.name != "edgeiso") {
        let (socket, cores) = (preset.machine().socket(), preset.shape.1 * preset.shape.2);
        let all: Vec<Thread<'_>> = (0..cores).map(|core| Thread::new(streaming, 0, core)).collect();
        let used = bytes(&settled(&socket, &all, 0.0)) / socket.bytes_per_ns;
        assert!((0.9..1.0).contains(&used), "{}: {used}", preset.name);
        // More of them reach no more.
        let more: Vec<Thread<'_>> = (0..2 * cores).map(|cpu| Thread::new(streaming, 0, cpu % cores)).collect();
        let used_by_more = bytes(&settled(&socket, &more, 0.0)) / socket.bytes_per_ns;
        assert!((used..1.0).contains(&used_by_more), "{}: {used_by_more}", preset.name);
    }
}

/// A thread that waits for one reference at a time measures the latency, while others load memory.
#[test]
fn latency_follows_the_curve() {
    let (socket, chasing, streaming) = (caladan(), chasing(), named("streaming").unwrap());
    for (least, others, streams) in [(0.0, 0.0, 0), (0.5, 0.5, 0), (0.8, 0.8, 0), (0.95, 0.85, 11)] {
        let mut threads = vec![Thread::new(&chasing, 0, 0)];
        threads.extend((1..=streams).map(|core| Thread::new(streaming, 1, core)));
        let others = others * socket.bytes_per_ns;
        let found = settled(&socket, &threads, others);
        let load = (others + bytes(&found)) / socket.bytes_per_ns;
        let Pace { rates, .. } = found.threads[0];
        let in_core = chasing.cpi / socket.ghz;
        let latency = (1.0 / rates.instructions - in_core) * rates.instructions / rates.misses - socket.llc_ns;
        let (times, curve) = (latency / socket.memory_ns, 1.0 + 0.1 * load * load / (1.0 - load));
        assert!(load >= least && (times / curve - 1.0).abs() < 1e-3, "{load}: {times} {curve}");
    }
}

#[test]
fn equal_threads_have_equal_parts_of_the_cache_and_masks_bound_them() {
    let streaming = named("streaming").unwrap();
    let socket = caladan();
    let pair = [Thread::new(streaming, 0, 0), Thread::new(streaming, 1, 1)];
    let found = settled(&socket, &pair, 0.0).threads;
    assert!((found[0].llc_bytes - found[1].llc_bytes).abs() < 1.0);
    assert!((found[0].llc_bytes / socket.llc_bytes - 0.5).abs() < 0.01);
    let masked = [Thread { ways: 0b11, ..pair[0] }, Thread { ways: !0b11, ..pair[1] }];
    let found = settled(&socket, &masked, 0.0).threads;
    assert!((found[0].llc_bytes / socket.llc_bytes - 0.1).abs() < 0.001, "{found:?}");
}

#[test]
fn siblings_together_do_a_little_more_than_one() {
    let socket = caladan();
    let cached = Profile {
        llc_references: 10.0,
        misses: MissCurve(Cow::Borrowed(&[(0.0, 0.8), (4.0, 0.02)])),
        parallelism: 4.0,
        ..named("computing").unwrap().clone()
    };
    for profile in [named("computing").unwrap(), &cached] {
        let pair = settled(&socket, &[Thread::new(profile, 0, 0), Thread::new(profile, 0, 0)], 0.0);
        let apart = settled(&socket, &[Thread::new(profile, 0, 0), Thread::new(profile, 0, 1)], 0.0);
        let work = |found: &Settled| found.threads.iter().map(|thread| thread.speed).sum::<f64>();
        assert!((1.0..1.3).contains(&work(&pair)), "{pair:?}");
        assert!(work(&apart) > 1.95, "{apart:?}");
    }
}

#[test]
fn frequency_slows_what_computes_and_hardly_what_waits() {
    let socket = caladan();
    let speed = |profile: &Profile| {
        settled(&socket, &[Thread { frequency: 0.5, ..Thread::new(profile, 0, 0) }], 0.0).threads[0].speed
    };
    assert!((0.49..0.51).contains(&speed(named("computing").unwrap())));
    assert!(speed(&chasing()) > 0.9);
}

#[test]
fn throttling_bounds_what_a_core_draws() {
    let (socket, streaming) = (caladan(), named("streaming").unwrap());
    let drawn = |throttle: f64| bytes(&settled(&socket, &[Thread { throttle, ..Thread::new(streaming, 0, 0) }], 0.0));
    assert!((drawn(0.1) * 2.0 - drawn(0.2)).abs() < 1e-9);
    assert!(drawn(0.1) < drawn(1.0) / 3.0);
}

#[test]
fn buffers_are_full_where_memory_is_short() {
    let (socket, streaming) = (caladan(), named("streaming").unwrap());
    let full = |threads: u32, profile: &Profile| {
        let all: Vec<Thread<'_>> = (0..threads).map(|core| Thread::new(profile, core, core)).collect();
        let rates = settled(&socket, &all, 0.0).threads[0].rates;
        rates.buffer_full / rates.instructions
    };
    assert!(full(12, streaming) > 1.2 * full(1, streaming));
    assert!(full(12, named("computing").unwrap()) < full(1, streaming) / 1e3);
}

#[test]
fn the_power_of_the_filling_moves_full_buffers_and_no_speed() {
    let streaming = named("streaming").unwrap();
    let alone = |full_power: f64| {
        let socket = Socket { full_power, ..caladan() };
        settled(&socket, &[Thread::new(streaming, 0, 0)], 0.0).threads[0]
    };
    let [second, between, third] = [2.0, 2.5, 3.0].map(|power| alone(power).rates.buffer_full);
    let filling = third / second;
    assert!((0.01..1.0).contains(&filling), "{filling}");
    assert!((between * between / (second * third) - 1.0).abs() < 1e-9, "{between}");
    assert_eq!(alone(2.0).speed, alone(4.0).speed);
}

fn any_profile() -> impl Strategy<Value = Profile> {
    let curve = (0.1..1.0f64, 0.5..40.0f64, 0.0..1.0f64);
    let rest = (0.3..3.0f64, 0.0..80.0f64, 1.0..16.0f64, 64.0..160.0f64, any::<bool>(), 0.0..1.0f64, 0.0..1.0f64);
    (curve, rest).prop_map(|((high, mib, low), (cpi, refs, parallelism, bytes, shared, pressure, sensitivity))| {
        Profile {
            cpi,
            llc_references: refs,
            misses: MissCurve(Cow::Owned(vec![(0.0, high), (mib, high * low)])),
            shared,
            parallelism,
            bytes_per_miss: bytes,
            pressure,
            sensitivity,
        }
    })
}

/// Profile, core, frequency, bytes of cache, throttle.
type Placed = (Profile, usize, f64, f64, f64);

fn any_thread() -> impl Strategy<Value = Placed> {
    (any_profile(), 0..8usize, 0.3..=1.0f64, 0.0..30e6f64, prop_oneof![Just(1.0), 0.1..1.0f64])
}

fn loads(socket: &Socket, threads: &[Placed]) -> Vec<Load> {
    let load = |(at, (profile, core, frequency, llc_bytes, throttle)): (usize, &Placed)| {
        let beside = threads.iter().enumerate().filter(|&(other, thread)| other != at && thread.1 == *core);
        let siblings: Vec<&Profile> = beside.map(|(_, thread)| &thread.0).collect();
        let (frequency, llc_bytes, throttle) = (*frequency, *llc_bytes, *throttle);
        Load::new(socket, &Running { profile, siblings: &siblings, frequency, llc_bytes, remote_ns: 0.0, throttle })
    };
    threads.iter().enumerate().map(load).collect()
}

proptest! {
    /// Whatever runs: no thread is faster than alone, all move on, and memory carries no more than it can. What all
    /// move is what the load says.
    #[test]
    fn any_threads_are_in_balance(threads in proptest::collection::vec(any_thread(), 1..24), others in 0.0..40.0f64) {
        let socket = caladan();
        let loads = loads(&socket, &threads);
        let load = load(&socket, &loads, others);
        let slowdown = memory::slowdown(load);
        let others = others.min(0.9 * socket.bytes_per_ns);
        let moved = others + loads.iter().map(|load| load.rates(slowdown).bytes).sum::<f64>();
        prop_assert!((0.0..1.0).contains(&load));
        prop_assert!((moved / socket.bytes_per_ns - load).abs() < 1e-5, "{} {}", moved, load);
        for (of, (profile, ..)) in loads.iter().zip(&threads) {
            let speed = ns_alone(&socket, profile) / of.ns(slowdown);
            prop_assert!(speed > 0.0 && speed < 1.0 + 1e-6, "{}", speed);
            let rates = of.rates(slowdown);
            prop_assert!(rates.misses <= rates.references && rates.buffer_full <= rates.references);
        }
    }

    /// One more never makes anybody faster.
    #[test]
    fn one_more_speeds_nobody_up(threads in proptest::collection::vec(any_thread(), 1..20), more in any_thread()) {
        let socket = caladan();
        let all: Vec<Placed> = threads.iter().cloned().chain([more]).collect();
        let (before, after) = (loads(&socket, &threads), loads(&socket, &all));
        let slowdown = |loads: &[Load]| memory::slowdown(load(&socket, loads, 0.0));
        let (was, is) = (slowdown(&before), slowdown(&after));
        // A sibling may move less because of the new one, and so relieve the others by as much.
        let alone = all.iter().take(threads.len()).all(|thread| thread.1 != all[threads.len()].1);
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            if alone || all[at].1 == all[threads.len()].1 {
                prop_assert!(after.ns(is) >= before.ns(was) * (1.0 - 1e-6));
            }
        }
    }

    /// Everybody's parts fit into the cache, and into the ways that they may fill.
    #[test]
    fn parts_of_the_cache_fit(sharers in proptest::collection::vec((any_profile(), 0.0..10.0f64, 1u32..1 << 20), 1..10)) {
        let bytes = 20.0 * 1024.0 * 1024.0;
        let of = |(profile, references, ways): &(Profile, f64, u32)| (profile.clone(), *references, *ways);
        let all: Vec<(Profile, f64, u32)> = sharers.iter().map(of).collect();
        let sharers: Vec<Sharer<'_>> = all
            .iter()
            .map(|(profile, references, ways)| Sharer { references: *references, copies: 1.0, misses: &profile.misses, ways: *ways })
            .collect();
        let natural = Occupancy::new(20, bytes).natural(&sharers);
        let total: f64 = (0..sharers.len()).map(|at| natural.of(at)).sum();
        prop_assert!(total <= bytes * (1.0 + 1e-9));
        for (at, sharer) in sharers.iter().enumerate() {
            let most = bytes * f64::from(sharer.ways.count_ones()) / 20.0;
            prop_assert!(natural.of(at) <= most * (1.0 + 1e-6) && natural.of(at) >= 0.0);
        }
    }
}
