//! The rules in C against their reference functions, on random machines and through random sequences of events.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use quell_model::rule::{Occupancy, Standing, ban_holds, next_holder, on_wake_up, overtakes};
use quell_model::topology::Cpu;
use quell_model::{CpuId, CpuSet, Nanos, Topology, WorkloadId};

use quell_scx::layout::{CpuState, MAX_CPUS, MAX_SLOTS, NO_CPU, NO_SLOT, PARKED, Shared};

unsafe extern "C" {
    fn quell_rule_on_wake_up(shared: *const Shared, slot: u32, last: u32, cpus: *const u64) -> u32;
    fn quell_has_sets(has: bool);
    fn quell_slot_waits(shared: *const Shared, slot: u32);
    fn quell_rule_heir(shared: *const Shared, cpu: u32, after: u64) -> u64;
    fn quell_slot_in_line(place: u64) -> u32;
    fn quell_rule_ban_holds(banned_for: u64, now_on: u64) -> bool;
    fn quell_rule_overtakes(running: u64, woken: u64, latency: u64) -> bool;
    fn quell_rule_system_turn(shared: *const Shared, cpu: u32, polls: bool, now: u64, since: u64) -> bool;
}

const CPUS: usize = 12;
const SLOTS: usize = 5;
const ALL: u64 = (1 << CPUS) - 1;

/// A machine on which nothing happened yet.
fn machine() -> Box<Shared> {
    // SAFETY: all bytes zero are a value of this structure of atomic integers.
    let shared: Box<Shared> = unsafe { Box::new_zeroed().assume_init() };
    shared.nr_cpus.store(CPUS as u32, Relaxed);
    shared.nr_slots.store(SLOTS as u32, Relaxed);
    shared.bans.store(1, Relaxed);
    for (at, cpu) in shared.cpu.iter().enumerate() {
        cpu.holder.store(NO_SLOT, Relaxed);
        cpu.banned_for.store(u64::MAX, Relaxed);
        let live = u32::from(at < CPUS);
        cpu.in_pool.store(live, Relaxed);
        cpu.online.store(live, Relaxed);
        // Pairs of siblings.
        cpu.sibling.iter().for_each(|sibling| sibling.store(NO_CPU, Relaxed));
        cpu.sibling[0].store(at as u32 ^ 1, Relaxed);
    }
    shared.sets.store(1, Relaxed);
    shared.place_cpus(&pairs());
    shared.sort();
    shared
}

/// The topology of that machine: 0 and 1 are siblings, 2 and 3, …; two cores have a cache, and two caches are on a socket.
fn pairs() -> Topology {
    let cpu = |id: u32| Cpu { id: CpuId(id), core: id / 2, llc: id / 4, node: 0, socket: id / 8, capacity: Cpu::FULL };
    Topology::new((0..CPUS as u32).map(cpu).collect()).unwrap()
}

/// The same state as the reference functions see it.
struct Mirror {
    pool: CpuSet,
    banned: CpuSet,
    holder: Vec<Option<WorkloadId>>,
    standing: Vec<Standing>,
    waiting: Vec<bool>,
    topology: Topology,
}

impl Mirror {
    fn of(shared: &Shared) -> Mirror {
        let load = |value: &std::sync::atomic::AtomicU32| value.load(Relaxed);
        let request = |cpu: &CpuState| {
            let start = cpu.request_start.load(Relaxed);
            (start != 0).then_some(Nanos(start))
        };
        let mut mirror = Mirror {
            pool: CpuSet::EMPTY,
            banned: CpuSet::EMPTY,
            holder: Vec::new(),
            standing: Vec::new(),
            waiting: Vec::new(),
            topology: pairs(),
        };
        for (at, cpu) in shared.cpu[..CPUS].iter().enumerate() {
            let id = CpuId(at as u32);
            if load(&cpu.in_pool) == 1 && load(&cpu.online) == 1 && load(&cpu.away) == 0 {
                mirror.pool.insert(id);
            }
            if ban_holds(Nanos(cpu.banned_for.load(Relaxed)), request(cpu)) {
                mirror.banned.insert(CpuId(at as u32 ^ 1));
            }
            let holder = load(&cpu.holder);
            mirror.holder.push(((holder as usize) < MAX_SLOTS).then_some(WorkloadId(holder)));
        }
        for state in &shared.workload[..SLOTS] {
            mirror.standing.push(Standing {
                lc: load(&state.lc) == 1,
                guaranteed: load(&state.guaranteed),
                burst: load(&state.burst),
                limit: load(&state.limit),
                rank: load(&state.rank),
            });
            let waits = state.queued.load(Relaxed) != state.taken.load(Relaxed);
            mirror.waiting.push(waits && load(&state.in_line) == 1);
        }
        mirror
    }

    fn occupancy(&self) -> Occupancy<'_> {
        Occupancy {
            pool: self.pool,
            banned: self.banned,
            holder: &self.holder,
            standing: &self.standing,
            topology: &self.topology,
        }
    }

    fn next_holder(&self, cpu: CpuId, except: &[u32]) -> Option<WorkloadId> {
        let waiting = (0..SLOTS).filter(|&slot| self.waiting[slot] && !except.contains(&(slot as u32)));
        next_holder(&self.occupancy(), cpu, waiting.map(|slot| WorkloadId(slot as u32)))
    }
}

/// Something that happens to the machine.
#[derive(Clone, Debug)]
enum Happening {
    Wake { slot: u32, last: Option<u32>, affinity: u64 },
    Yield { cpu: u32, passes: usize },
    Granted { cpu: u32, slot: Option<u32> },
    Rules { slot: u32, lc: bool, guaranteed: u32, burst: u32, limit: u32, rank: u32, in_line: bool },
    Queue { slot: u32, comes: u64, goes: u64 },
    Request { cpu: u32, start: u64, banned: bool },
    Pool { cpu: u32, in_pool: bool, online: bool, away: bool },
}

fn happening() -> impl Strategy<Value = Happening> {
    let (cpu, slot) = (0..CPUS as u32, 0..SLOTS as u32);
    prop_oneof![
        4 => (slot.clone(), proptest::option::of(cpu.clone()), prop_oneof![Just(ALL), 0..=ALL])
            .prop_map(|(slot, last, affinity)| Happening::Wake { slot, last, affinity }),
        4 => (cpu.clone(), 0..SLOTS).prop_map(|(cpu, passes)| Happening::Yield { cpu, passes }),
        2 => (cpu.clone(), proptest::option::of(slot.clone())).prop_map(|(cpu, slot)| Happening::Granted { cpu, slot }),
        2 => (slot.clone(), any::<bool>(), 0u32..4, 0u32..4, 0u32..5, 0u32..3, any::<bool>()).prop_map(
            |(slot, lc, guaranteed, burst, limit, rank, in_line)| {
                Happening::Rules { slot, lc, guaranteed, burst, limit, rank, in_line }
            }
        ),
        3 => (slot, 0u64..3, 0u64..3).prop_map(|(slot, comes, goes)| Happening::Queue { slot, comes, goes }),
        2 => (cpu.clone(), 0u64..4, any::<bool>())
            .prop_map(|(cpu, start, banned)| Happening::Request { cpu, start, banned }),
        1 => (cpu, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(cpu, in_pool, online, away)| Happening::Pool { cpu, in_pool, online, away }),
    ]
}

/// The CPU changes hands, and the counts of held CPUs follow: of CPUs that are in the pool.
fn hand(shared: &Shared, cpu: u32, to: u32) {
    shared.cpu[cpu as usize].holder.store(to, Relaxed);
    shared.sort_core(cpu as usize);
    recount(shared);
}

/// The scheduler keeps `held` as CPUs change hands; here it is counted as the reference counts.
fn recount(shared: &Shared) {
    let mirror = Mirror::of(shared);
    for slot in 0..SLOTS {
        let held = mirror.occupancy().held(WorkloadId(slot as u32));
        shared.workload[slot].held.store(held, Relaxed);
    }
}

/// A thread of the workload has begun to wait; or it has another class.
fn waits(shared: &Shared, slot: u32) {
    // SAFETY: the pointer is to a value of the type that the function takes.
    unsafe { quell_slot_waits(shared, slot) };
}

fn as_cpu(cpu: u32) -> Option<CpuId> {
    (cpu != NO_CPU).then_some(CpuId(cpu))
}

fn happens(shared: &Shared, what: &Happening) -> Result<(), TestCaseError> {
    match *what {
        Happening::Wake { slot, last, affinity } => {
            let mut words = [0; MAX_CPUS / 64];
            words[0] = affinity;
            let [with, ours] = [true, false].map(|sets| {
                // SAFETY: both point to values of the types that the function takes.
                as_cpu(unsafe {
                    quell_has_sets(sets);
                    quell_rule_on_wake_up(shared, slot, last.unwrap_or(NO_CPU), words.as_ptr())
                })
            });
            prop_assert_eq!(with, ours, "with sets of CPUs");
            let mut mirror = Mirror::of(shared);
            // A CPU that the thread may not use is none for it, as if it were banned.
            mirror.banned =
                mirror.banned.union(&(0..CPUS as u32).filter(|cpu| affinity >> cpu & 1 == 0).map(CpuId).collect());
            prop_assert_eq!(ours, on_wake_up(&mirror.occupancy(), WorkloadId(slot), last.map(CpuId)));
            if let Some(cpu) = ours {
                hand(shared, cpu.0, slot);
            }
        }
        Happening::Yield { cpu, passes } => {
            hand(shared, cpu, NO_SLOT);
            let (mut place, mut passed) = (0, Vec::new());
            loop {
                // SAFETY: the pointer is to a value of the type that the function takes.
                place = unsafe { quell_rule_heir(shared, cpu, place) };
                // SAFETY: a number only.
                let ours = unsafe { quell_slot_in_line(place) };
                let reference = Mirror::of(shared).next_holder(CpuId(cpu), &passed);
                prop_assert_eq!((ours != NO_SLOT).then_some(WorkloadId(ours)), reference, "after {:?}", passed);
                if ours == NO_SLOT {
                    break;
                }
                if passed.len() == passes {
                    hand(shared, cpu, ours);
                    break;
                }
                passed.push(ours);
            }
        }
        Happening::Granted { cpu, slot } => hand(shared, cpu, slot.unwrap_or(PARKED)),
        Happening::Rules { slot, lc, guaranteed, burst, limit, rank, in_line } => {
            let state = &shared.workload[slot as usize];
            state.lc.store(lc.into(), Relaxed);
            state.guaranteed.store(guaranteed, Relaxed);
            state.burst.store(burst, Relaxed);
            state.limit.store(limit, Relaxed);
            state.rank.store(rank, Relaxed);
            state.in_line.store(in_line.into(), Relaxed);
            shared.sort();
            waits(shared, slot);
        }
        Happening::Queue { slot, comes, goes } => {
            let state = &shared.workload[slot as usize];
            let queued = state.queued.fetch_add(comes, Relaxed) + comes;
            let taken = state.taken.load(Relaxed);
            state.taken.store((taken + goes).min(queued), Relaxed);
            waits(shared, slot);
        }
        Happening::Request { cpu, start, banned } => {
            let state = &shared.cpu[cpu as usize];
            state.request_start.store(start, Relaxed);
            if banned {
                state.banned_for.store(start.max(1), Relaxed);
            }
        }
        Happening::Pool { cpu, in_pool, online, away } => {
            let state = &shared.cpu[cpu as usize];
            state.in_pool.store(in_pool.into(), Relaxed);
            state.online.store(online.into(), Relaxed);
            state.away.store(away.into(), Relaxed);
            shared.sort_core(cpu as usize);
            recount(shared);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn events_are_decided_as_by_the_reference(sequence in proptest::collection::vec(happening(), 1..80)) {
        let shared = machine();
        for what in &sequence {
            happens(&shared, what)?;
        }
    }

    #[test]
    fn bans_hold_as_by_the_reference(banned_for in 1u64..5, now_on in 0u64..5) {
        let reference = ban_holds(Nanos(banned_for), (now_on != 0).then_some(Nanos(now_on)));
        // SAFETY: numbers only.
        prop_assert_eq!(unsafe { quell_rule_ban_holds(banned_for, now_on) }, reference);
    }

    #[test]
    fn who_overtakes_does_so_as_in_the_reference(
        woken in prop_oneof![any::<u64>(), 0u64..20, (u64::MAX - 20)..=u64::MAX],
        ahead in -30i64..30,
        latency in prop_oneof![0u64..30, any::<u64>()],
    ) {
        let running = woken.wrapping_add_signed(ahead);
        let reference = overtakes(Nanos(running), Nanos(woken), Nanos(latency));
        // SAFETY: numbers only.
        prop_assert_eq!(unsafe { quell_rule_overtakes(running, woken, latency) }, reference);
    }
}

#[test]
fn the_system_has_its_turns() {
    let shared = machine();
    shared.be_slice_ns.store(4, Relaxed);
    shared.system_ns.store(50, Relaxed);
    shared.workload[1].lc.store(1, Relaxed);
    // SAFETY: the pointer is to a value of the type that the function takes.
    let turn_if = |polls, now, since| unsafe { quell_rule_system_turn(&raw const *shared, 0, polls, now, since) };
    let turn = |now, since| turn_if(false, now, since);
    shared.cpu[0].system_until.store(98, Relaxed);
    assert!(!turn(100, 0), "no one holds the CPU: the next in line may inherit it");
    assert!(turn(102, 102));
    shared.cpu[0].system_since.store(97, Relaxed);
    assert!(turn(100, 100), "its turn lasts a slice, whichever of it runs");
    assert!(!turn(101, 100));
    shared.cpu[0].system_since.store(90, Relaxed);
    hand(&shared, 0, PARKED);
    assert!(turn(100, 100), "no one inherits it");
    assert!(!turn_if(true, 200, 150), "the loop polls there, and others give way first");
    assert!(turn_if(true, 200, 100));
    assert!(!turn_if(true, 140, 0), "nor again before the pause is over");
    hand(&shared, 0, 0);
    assert!(!turn(100, 0), "the BE's slice comes first");
    assert!(turn(102, 102));
    hand(&shared, 0, 1);
    assert!(!turn(200, 180), "an LC's CPU is not for who has just come");
    assert!(turn(200, 150));
    assert!(!turn(140, 0), "nor again before the pause is over");
    shared.workload[1].guaranteed.store(1, Relaxed);
    assert!(!turn(200, 150), "others give way before one that has what it is guaranteed");
    assert!(turn(200, 100));
}
