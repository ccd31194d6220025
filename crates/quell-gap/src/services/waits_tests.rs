use super::*;
use crate::stage::{Stage, thread};

fn play(stage: &Stage, services: usize, cpus: usize) -> Vec<Lost> {
    let mut waits = Waits::new(services, CpuSet::first(cpus), Nanos::ZERO);
    stage.events.iter().for_each(|event| waits.apply(event));
    waits.close(stage.now)
}

fn by(lost: &Lost) -> Vec<(Holder, u64)> {
    lost.by.iter().map(|(holder, time)| (*holder, time.0 / 1_000_000)).collect()
}

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

#[test]
fn a_wait_is_laid_to_whatever_has_the_cpu_meanwhile() {
    let (web, batch) = (thread(10, 0), thread(20, 1));
    let mut stage = Stage::new(2);
    stage.wake(0, batch);
    stage.switch(0, Left::Blocked, Task::Member(batch));
    stage.pass(millis(1));
    stage.wake(0, web);
    stage.pass(millis(40));
    stage.switch(0, Left::Runnable, Task::Other(7));
    stage.pass(millis(5));
    stage.switch(0, Left::Blocked, Task::Member(web));
    stage.pass(millis(10));
    stage.switch(0, Left::Blocked, Task::Member(batch));
    stage.pass(millis(2));
    let lost = play(&stage, 2, 2);
    assert_eq!(by(&lost[0]), [(Holder::Service(1), 40), (Holder::Thread(7), 5)]);
    assert_eq!((lost[0].ran, lost[1].ran), (millis(10), millis(43)));
    assert_eq!(by(&lost[1]), [(Holder::Service(0), 10), (Holder::Thread(7), 5)]);
}

#[test]
fn threads_that_wait_together_lose_one_cpus_time_and_those_behind_their_own_nothing() {
    let (web, crowd) = (thread(10, 0), [20, 21, 22].map(|tid| thread(tid, 1)));
    let mut stage = Stage::new(1);
    stage.switch(0, Left::Blocked, Task::Member(web));
    crowd.iter().for_each(|member| stage.wake(0, *member));
    stage.pass(millis(10));
    stage.switch(0, Left::Blocked, Task::Member(crowd[0]));
    stage.pass(millis(30));
    let lost = play(&stage, 2, 1);
    assert_eq!(by(&lost[1]), [(Holder::Service(0), 10), (Holder::Own, 30)]);
    assert_eq!(by(&lost[0]), []);
}

#[test]
fn a_thread_that_moves_or_ends_waits_there_no_longer() {
    let (web, batch, other) = (thread(10, 0), thread(20, 1), thread(30, 2));
    let mut stage = Stage::new(2);
    stage.switch(0, Left::Blocked, Task::Member(batch));
    stage.switch(1, Left::Blocked, Task::Member(other));
    stage.wake(0, web);
    stage.pass(millis(3));
    stage.migrate(0, 0, 1);
    stage.pass(millis(4));
    stage.events.push(Event { at: stage.now, cpu: CpuId(1), what: Change::Unwatched(web) });
    stage.pass(millis(50));
    let lost = play(&stage, 3, 2);
    assert_eq!(by(&lost[0]), [(Holder::Service(1), 3), (Holder::Service(2), 4)]);
}

#[test]
fn what_was_before_the_window_sets_the_scene_alone() {
    let (web, batch) = (thread(10, 0), thread(20, 1));
    let mut stage = Stage::new(1);
    stage.switch(0, Left::Blocked, Task::Member(batch));
    stage.wake(0, web);
    stage.pass(millis(100));
    let mut waits = Waits::new(2, CpuSet::first(1), millis(60));
    stage.events.iter().for_each(|event| waits.apply(event));
    let lost = waits.close(millis(100));
    assert_eq!(by(&lost[0]), [(Holder::Service(1), 40)]);
    assert_eq!(lost[1].ran, millis(40));
}

#[test]
fn an_event_of_a_service_or_a_cpu_that_is_not_ours_changes_nothing() {
    let (web, stranger) = (thread(10, 0), thread(20, 9));
    let mut stage = Stage::new(3);
    stage.switch(2, Left::Blocked, Task::Member(stranger));
    stage.wake(2, web);
    stage.wake(0, stranger);
    stage.pass(millis(9));
    let lost = play(&stage, 1, 1);
    assert_eq!((by(&lost[0]), lost[0].ran), (vec![], Nanos::ZERO));
}
