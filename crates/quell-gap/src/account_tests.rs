use proptest::prelude::*;
use quell_model::{CpuCount, CpuId, CpuSet, Nanos};
use quell_trace::{Change, Event, Left, Member, Task};

use super::Accounting;
use crate::integrals::{Account, Integrals, Totals};
use crate::stage::{Stage, thread};

/// A thread of no workload.
const OTHER: i32 = 90;
const PERIOD: Nanos = Nanos::from_millis(100);

fn account(stage: &Stage, cpus: usize, requests: &[CpuCount]) -> Vec<Account> {
    let mut accounting = Accounting::new(requests, CpuSet::first(cpus), Nanos::ZERO, PERIOD);
    stage.events.iter().for_each(|event| accounting.apply(event));
    assert_eq!(accounting.late(), 0);
    accounting.close(stage.now).into_iter().map(|settled| settled.account).collect()
}

/// rkube-socc21 Table 2 and Fig. 3 on `1 + alone` CPUs: T and N1 share CPU 0 by weight (T's 1024 against `n1`), and the
/// neighbour's other threads have one CPU each; after `busy` of each period, the neighbour has used its quota up and is
/// suspended. Slices are 1 ms as one turn of the two.
pub(crate) fn figure3(alone: usize, n1: u64, busy: f64, periods: u64) -> (Stage, Vec<CpuCount>) {
    let (target, neighbours): (Member, Vec<Member>) =
        (thread(1, 0), (0..=alone).map(|i| thread(10 + i as i32, 1)).collect());
    let mut stage = Stage::new(1 + alone);
    let slice = Nanos(1_000_000 * 1024 / (1024 + n1));
    stage.wake(0, target);
    for _ in 0..periods {
        let period_end = stage.now + PERIOD;
        let exhausted = stage.now + PERIOD.scaled(busy);
        for (cpu, &neighbour) in neighbours.iter().enumerate() {
            stage.wake(cpu, neighbour);
            if cpu > 0 {
                stage.switch(cpu, Left::Blocked, Task::Member(neighbour));
            }
        }
        while stage.now < exhausted {
            let turn_end = (stage.now + Nanos::from_millis(1)).min(exhausted);
            let slice_end = (stage.now + slice).min(exhausted);
            stage.switch(0, Left::Runnable, Task::Member(target));
            stage.pass(slice_end - stage.now);
            stage.switch(0, Left::Runnable, Task::Member(neighbours[0]));
            stage.pass(turn_end - stage.now);
        }
        if busy < 1.0 {
            stage.switch(0, Left::Blocked, Task::Member(target));
            (1..=alone).for_each(|cpu| stage.switch(cpu, Left::Blocked, Task::Idle));
        }
        stage.pass(period_end - stage.now);
        if busy >= 1.0 {
            // So that the next period can wake them again.
            (0..=alone).for_each(|cpu| stage.switch(cpu, Left::Blocked, Task::Idle));
        }
    }
    (stage, vec![CpuCount::whole(1), CpuCount::whole(alone as u32)])
}

fn assert_near(what: &str, value: Nanos, of: Nanos, expected: f64) {
    let share = value.0 as f64 / of.0 as f64;
    assert!((share - expected).abs() < 0.002, "{what}: {share}, expected {expected}");
}

#[test]
fn figure_3a_a_burstable_neighbour_leaves_60_percent_and_all_of_the_gap_is_sharing() {
    let (stage, requests) = figure3(2, 683, 1.0, 10);
    let target = account(&stage, 3, &requests)[0];
    assert_near("got", target.got, target.requested, 0.6);
    assert_near("frs", target.frs, target.requested, 0.4);
    assert_near("pct", target.pct, target.requested, 0.0);
}

#[test]
fn figure_3b_a_capped_neighbour_leaves_two_thirds_and_the_gap_is_phantom() {
    // 2 CPUs of quota are used up by 0.4 + 1 + 1 CPUs after 2 / 2.4 of the period.
    let (stage, requests) = figure3(2, 683, 2.0 / 2.4, 10);
    let accounts = account(&stage, 3, &requests);
    let (target, neighbour) = (accounts[0], accounts[1]);
    assert_near("got", target.got, target.requested, 2.0 / 3.0);
    assert_near("pct", target.pct, target.requested, 1.0 / 3.0);
    assert_near("frs", target.frs, target.requested, 0.0);
    assert_near("shared", target.shared, target.requested, 1.0 / 3.0);
    assert_near("phantom", target.phantom, target.requested, 1.0 / 3.0);
    assert_near("neighbour's got", neighbour.got, neighbour.requested, 1.0);
}

#[test]
fn figure_3_scaled_to_two_cpus() {
    let (stage, requests) = figure3(1, 512, 1.0, 10);
    let target = account(&stage, 2, &requests)[0];
    assert_near("burstable got", target.got, target.requested, 2.0 / 3.0);
    assert_near("burstable frs", target.frs, target.requested, 1.0 / 3.0);
    // A quota of 1 CPU is used up by 1/3 + 1 CPUs after 3/4 of the period.
    let (stage, requests) = figure3(1, 512, 0.75, 10);
    let target = account(&stage, 2, &requests)[0];
    assert_near("capped got", target.got, target.requested, 0.75);
    assert_near("capped pct", target.pct, target.requested, 0.25);
}

#[test]
fn threads_that_wait_for_each_other_on_their_own_cpu_have_no_gap() {
    let mut stage = Stage::new(1);
    let (a, b) = (thread(1, 0), thread(2, 0));
    stage.wake(0, a);
    stage.switch(0, Left::Blocked, Task::Member(a));
    stage.wake(0, b);
    stage.pass(Nanos::from_millis(10));
    stage.switch(0, Left::Blocked, Task::Member(b));
    stage.pass(Nanos::from_millis(10));
    stage.switch(0, Left::Blocked, Task::Idle);
    stage.pass(Nanos::from_millis(80));
    let account = account(&stage, 1, &[CpuCount::whole(1)])[0];
    assert_eq!((account.due, account.gap), (Nanos::from_millis(20), Nanos::ZERO));
}

#[test]
fn own_threads_stacked_on_one_cpu_beside_a_foreign_one_are_rest() {
    let mut stage = Stage::new(2);
    let (a, b) = (thread(1, 0), thread(2, 0));
    stage.switch(1, Left::Blocked, Task::Other(OTHER));
    stage.wake(0, a);
    stage.switch(0, Left::Blocked, Task::Member(a));
    stage.wake(0, b);
    stage.pass(PERIOD);
    let account = account(&stage, 2, &[CpuCount::whole(2)])[0];
    assert_eq!((account.gap, account.rest), (PERIOD, PERIOD));
}

#[test]
fn a_thread_pinned_behind_another_while_a_cpu_idles_is_phantom_time() {
    let mut stage = Stage::new(2);
    stage.switch(0, Left::Blocked, Task::Other(OTHER));
    stage.wake(0, thread(1, 0));
    stage.pass(PERIOD);
    let account = account(&stage, 2, &[CpuCount::whole(1)])[0];
    assert_eq!((account.gap, account.pct, account.frs, account.shared), (PERIOD, PERIOD, Nanos::ZERO, PERIOD));
}

#[test]
fn a_fractional_request_is_a_slower_cpu() {
    // Half a CPU requested, 80 ms runnable: 40 ms are due. It waits 40 ms behind another and runs 40 ms.
    let mut stage = Stage::new(1);
    stage.switch(0, Left::Blocked, Task::Other(OTHER));
    stage.wake(0, thread(1, 0));
    stage.pass(Nanos::from_millis(40));
    stage.switch(0, Left::Runnable, Task::Member(thread(1, 0)));
    stage.pass(Nanos::from_millis(40));
    stage.switch(0, Left::Blocked, Task::Idle);
    stage.pass(Nanos::from_millis(20));
    let account = account(&stage, 1, &[CpuCount(500)])[0];
    assert_eq!((account.due, account.got, account.gap), (Nanos::from_millis(40), Nanos::from_millis(40), Nanos::ZERO));
}

#[test]
fn a_cpu_never_runs_two_threads_where_the_kernel_does_not_tell_a_switch() {
    // Thread 1 arrives; its departure is not reported; thread 2 leaves 30 ms later without having arrived.
    let mut stage = Stage::new(1);
    let (a, b) = (thread(1, 0), thread(2, 1));
    stage.switch(0, Left::Blocked, Task::Member(a));
    stage.pass(Nanos::from_millis(10));
    stage.switch(0, Left::Untold, Task::Member(b));
    stage.pass(Nanos::from_millis(30));
    stage.switch(0, Left::Blocked, Task::Idle);
    stage.pass(Nanos::from_millis(60));
    let mut accounting = Accounting::new(&[CpuCount::whole(1); 2], CpuSet::first(1), Nanos::ZERO, PERIOD);
    stage.events.iter().for_each(|event| accounting.apply(event));
    let settled = accounting.close(stage.now);
    let of = |slot: usize| (settled[slot].account.got, settled[slot].doubt);
    assert_eq!(of(0), (Nanos::from_millis(10), Nanos::from_millis(30)));
    assert_eq!(of(1), (Nanos::from_millis(30), Nanos::from_millis(30)));

    // Nothing at all was reported of it: the next thread that arrives has the CPU.
    let mut stage = Stage::new(1);
    stage.switch(0, Left::Blocked, Task::Member(a));
    stage.pass(Nanos::from_millis(10));
    stage.events.push(Event {
        at: stage.now,
        cpu: CpuId(0),
        what: Change::Switch { from: Task::Other(OTHER), left: Left::Blocked, to: Task::Member(b) },
    });
    stage.pass(Nanos::from_millis(90));
    let accounts = account(&stage, 1, &[CpuCount::whole(1); 2]);
    assert_eq!(accounts[0].got + accounts[1].got, PERIOD);
}

#[test]
fn who_took_the_time_is_told_by_thread_and_the_parts_are_what_was_lost() {
    let mut stage = Stage::new(2);
    let (a, b) = (thread(1, 0), thread(2, 0));
    stage.switch(0, Left::Blocked, Task::Other(7));
    stage.wake(0, a);
    stage.switch(1, Left::Blocked, Task::Member(thread(3, 1)));
    stage.wake(1, b);
    stage.pass(Nanos::from_millis(20));
    stage.switch(0, Left::Blocked, Task::Other(8));
    stage.pass(Nanos::from_millis(30));
    stage.switch(0, Left::Blocked, Task::Member(a));
    stage.switch(1, Left::Runnable, Task::Member(b));
    stage.pass(Nanos::from_millis(50));
    let mut accounting = Accounting::new(&[CpuCount::whole(2), CpuCount::ZERO], CpuSet::first(2), Nanos::ZERO, PERIOD);
    stage.events.iter().for_each(|event| accounting.apply(event));
    let settled = accounting.close(stage.now).remove(0);
    let expected = [(7, 20), (8, 30), (3, 50)].map(|(tid, millis)| (tid, Nanos::from_millis(millis)));
    assert_eq!(settled.takers, expected.into());
    assert_eq!(settled.account.shared, Nanos::from_millis(100));
}

#[test]
fn the_next_window_goes_on_with_what_threads_do() {
    let mut stage = Stage::new(1);
    stage.switch(0, Left::Blocked, Task::Other(OTHER));
    stage.wake(0, thread(1, 0));
    let mut accounting = Accounting::new(&[CpuCount::whole(1)], CpuSet::first(1), Nanos::ZERO, PERIOD);
    stage.events.iter().for_each(|event| accounting.apply(event));
    let first = accounting.close(PERIOD);
    assert_eq!(accounting.close(PERIOD + PERIOD), first);
    assert_eq!(first[0].account.frs, PERIOD);
}

/// One move of the random scheduler: its kind, two choices, and the pause after it.
pub(crate) type Move = (u8, usize, usize, u64);

/// Plays random moves; yields the stage and, for the same instants, sums made the slow way.
pub(crate) fn play(cpus: usize, requests: &[CpuCount], moves: &[Move]) -> (Stage, Vec<Account>) {
    let mut stage = Stage::new(cpus);
    let mut asleep: Vec<Member> = (0..6).map(|tid| thread(tid, tid as u16 % requests.len() as u16)).collect();
    let mut slow = Slow::new(requests, cpus);
    for &(kind, a, b, pause) in moves {
        let cpu = a % cpus;
        let waiting = stage.waiting(cpu).len();
        let next = |stage: &Stage| match waiting {
            0 if b % 2 == 0 => Task::Idle,
            0 => Task::Other(OTHER),
            count => Task::Member(stage.waiting(cpu)[b % count]),
        };
        match kind % 5 {
            0 if !asleep.is_empty() => stage.wake(cpu, asleep.swap_remove(b % asleep.len())),
            1 if waiting > 0 => stage.migrate(cpu, b % waiting, b % cpus),
            2 => {
                if let Task::Member(member) = stage.running(cpu) {
                    asleep.push(member);
                }
                stage.switch(cpu, Left::Blocked, next(&stage));
            }
            3 => stage.switch(cpu, Left::Runnable, next(&stage)),
            4 => stage.switch(cpu, Left::Runnable, if b % 2 == 0 { Task::Idle } else { Task::Other(OTHER) }),
            _ => {}
        }
        slow.pass(&stage, pause);
        stage.pass(Nanos(pause));
    }
    (stage, slow.accounts())
}

/// The definitions, read literally, nanosecond span by nanosecond span, with no state of its own but the sums.
struct Slow {
    requests: Vec<CpuCount>,
    cpus: usize,
    now: u64,
    periods: Vec<Vec<Integrals>>,
}

impl Slow {
    fn new(requests: &[CpuCount], cpus: usize) -> Slow {
        Slow { requests: requests.to_vec(), cpus, now: 0, periods: Vec::new() }
    }

    fn pass(&mut self, stage: &Stage, mut pause: u64) {
        while pause > 0 {
            let index = (self.now / PERIOD.0) as usize;
            let span = pause.min((index as u64 + 1) * PERIOD.0 - self.now);
            while self.periods.len() <= index {
                self.periods.push(vec![Integrals::default(); self.requests.len()]);
            }
            for slot in 0..self.requests.len() {
                self.add(stage, index, slot, span);
            }
            self.now += span;
            pause -= span;
        }
    }

    fn add(&mut self, stage: &Stage, index: usize, slot: usize, span: u64) {
        let mine = |member: &Member| usize::from(member.slot) == slot;
        let (mut running, mut waiting, mut on_idle, mut behind, mut idle_elsewhere) = (0, 0, 0, 0, 0);
        for cpu in 0..self.cpus {
            let here = stage.waiting(cpu).iter().filter(|member| mine(member)).count() as u128;
            waiting += here;
            match stage.running(cpu) {
                Task::Idle if here > 0 => on_idle += here,
                Task::Idle => idle_elsewhere += 1,
                Task::Member(member) if mine(&member) => running += 1,
                _ => behind += here,
            }
        }
        let (c, span) = (u128::from(self.requests[slot].0), u128::from(span));
        let sums = &mut self.periods[index][slot];
        let due = (1000 * (running + waiting).min(self.cpus as u128)).min(c);
        let short = due.saturating_sub(1000 * running);
        let dispatch = short.min(1000 * on_idle);
        sums.requested += c * span;
        sums.demanded += 1000 * (running + waiting).min(self.cpus as u128) * span;
        sums.due += due * span;
        sums.got += 1000 * running * span;
        sums.dispatch += dispatch * span;
        sums.shared += (short - dispatch).min(1000 * behind) * span;
        sums.phantom += if running + waiting > 0 { 1000 * idle_elsewhere * span } else { 0 };
    }

    fn accounts(&self) -> Vec<Account> {
        let account = |slot: usize| {
            let mut totals = Totals::default();
            self.periods.iter().for_each(|period| totals.settle(&period[slot]));
            totals.account()
        };
        (0..self.requests.len()).map(account).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_fast_sums_are_the_definitions(
        cpus in 1usize..5,
        requests in proptest::collection::vec((0u32..4000).prop_map(CpuCount), 1..4),
        moves in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), 0u64..30_000_000), 0..80),
    ) {
        let (stage, slow) = play(cpus, &requests, &moves);
        let fast = account(&stage, cpus, &requests);
        if stage.now > Nanos::ZERO {
            prop_assert_eq!(&fast, &slow);
        }
        for account in fast {
            prop_assert_eq!(account.kept + account.frs + account.pct + account.rest, account.due);
            prop_assert_eq!(account.frs + account.pct + account.rest, account.gap);
            prop_assert!(account.due <= account.requested && account.due <= account.demanded);
            prop_assert!(account.kept <= account.got && account.got <= account.demanded);
            prop_assert!(account.frs <= account.shared && account.pct <= account.phantom);
        }
    }

    #[test]
    fn what_happens_in_any_order_keeps_the_counts_sane(
        events in proptest::collection::vec((0u8..7, 0u32..5, 0i32..5, 0u16..4, 0u8..4, 0u64..1_000_000), 0..200),
    ) {
        // A broken source: any event about any thread at any time. Nothing may panic, and the parts still add up.
        use quell_trace::Doing;
        let mut accounting = Accounting::new(&[CpuCount(1500); 2], CpuSet::first(3), Nanos(1000), PERIOD);
        for (kind, cpu, tid, slot, how, at) in events {
            let member = thread(tid, slot);
            let task = [Task::Idle, Task::Other(OTHER), Task::Other(0), Task::Member(thread(tid + 1, slot))][usize::from(how)];
            let left = [Left::Runnable, Left::Blocked, Left::Dead, Left::Untold][usize::from(how)];
            let doing = [Doing::Running, Doing::Waiting, Doing::Sleeping, Doing::Running][usize::from(how)];
            let what = match kind {
                0 => Change::Switch { from: Task::Member(member), left, to: task },
                1 => Change::Woke(member),
                2 => Change::Migrated(member),
                3 => Change::Born(member),
                4 => Change::Seen(member, doing),
                5 => Change::Holds(task),
                _ => Change::Unwatched(member),
            };
            accounting.apply(&Event { at: Nanos(at), cpu: CpuId(cpu), what });
        }
        let accounts: Vec<Account> =
            accounting.close(Nanos(2_000_000)).into_iter().map(|settled| settled.account).collect();
        for account in &accounts {
            prop_assert_eq!(account.kept + account.frs + account.pct + account.rest, account.due);
        }
        let got: u64 = accounts.iter().map(|account| account.got.0).sum();
        prop_assert!(got <= 3 * (2_000_000 - 1000), "{got} ns on 3 CPUs");
    }
}
