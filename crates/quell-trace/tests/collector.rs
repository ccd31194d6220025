//! The collector on this machine's kernel. Where the kernel does not allow tracing, there is nothing to test, and the
//! tests say so.

use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quell_trace::{Change, Collector, Doing, Event, Left, Member, Options, Task, TraceError, Watched};

/// One at a time: while one comes or goes, a kernel may not report every switch to another.
static ONE: Mutex<()> = Mutex::new(());

/// A collector, and the right to have one.
struct Alone(Collector, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Deref for Alone {
    type Target = Collector;

    fn deref(&self) -> &Collector {
        &self.0
    }
}

impl DerefMut for Alone {
    fn deref_mut(&mut self) -> &mut Collector {
        &mut self.0
    }
}

fn collector(options: Options) -> Option<Alone> {
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match Collector::open(options) {
        Ok(collector) => Some(Alone(collector, alone)),
        Err(error @ (TraceError::Refused { .. } | TraceError::Namespace)) if !must_work() => {
            eprintln!("not tested here: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// With CAP_BPF and CAP_PERFMON on a kernel with type information, a refusal is a fault of the program.
fn must_work() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    (38..=39).all(|capability| effective >> capability & 1 == 1)
        && namespace.as_os_str() == "pid:[4026531836]"
        && std::path::Path::new("/sys/kernel/btf/vmlinux").exists()
}

/// A process of ours that ends with the test.
struct Ours(Child);

impl Ours {
    fn shell(script: &str) -> Ours {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ours(command.spawn().unwrap())
    }

    fn member(&self) -> Member {
        Member { tid: self.0.id() as i32, slot: 3 }
    }

    /// Waits for what it prints next.
    fn says(&mut self, expected: &str) {
        let mut said = vec![0; expected.len()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), expected);
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn drained(collector: &mut Collector) -> Vec<Event> {
    let mut events = Vec::new();
    collector.drain(&mut events).unwrap();
    events
}

#[test]
fn a_spinning_process_is_seen_and_its_time_adds_up() {
    let Some(mut collector) = collector(Options { events: true, ..Options::default() }) else { return };
    let mut spinner = Ours::shell("echo spins; while :; do :; done");
    let member = spinner.member();
    // A shell that is still read from a slow disk does not spin.
    spinner.says("spins\n");
    collector.watch(member).unwrap();
    collector.look().unwrap();
    let begin = Instant::now();
    // Stopping ends its run, so that the totals hold all of it.
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(member.tid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let elapsed = begin.elapsed().as_secs_f64();

    let events = drained(&mut collector);
    assert!(events.is_sorted_by_key(|event| event.at));
    let seen = events.iter().filter(|event| matches!(event.what, Change::Seen(who, _) if who == member)).count();
    assert_eq!(seen, 1);
    assert!(events.iter().any(|event| matches!(event.what, Change::Holds(Task::Other(_)))), "we ourselves ran");
    let (_, Watched { totals, .. }) = *collector.threads().unwrap().iter().find(|(who, _)| *who == member).unwrap();
    let busy = (totals.run + totals.delay).as_secs_f64();
    assert!(busy > 0.2 && busy < elapsed, "{busy} s runnable in {elapsed} s: {totals:?}; {}", story(&events, member));
    assert_eq!(collector.losses().events, 0);
}

#[test]
fn children_are_watched_from_birth_to_death() {
    let Some(mut collector) = collector(Options { events: true, ..Options::default() }) else { return };
    let mut parent =
        Ours::shell("read go; sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; echo done; read end");
    collector.watch(parent.member()).unwrap();
    collector.look().unwrap();
    writeln!(parent.0.stdin.as_mut().unwrap(), "go").unwrap();
    parent.says("done\n");

    let events = drained(&mut collector);
    let born: Vec<Member> = events
        .iter()
        .filter_map(|event| match event.what {
            Change::Born(member) => Some(member),
            _ => None,
        })
        .collect();
    assert_eq!(born.len(), 1, "{born:?}");
    assert_eq!(born[0].slot, 3);
    let died = events.iter().any(|event| {
        matches!(event.what, Change::Switch { from: Task::Member(who), left: Left::Dead, .. } if who == born[0])
    });
    assert!(died);
    assert!(collector.threads().unwrap().iter().all(|(member, _)| *member != born[0]), "it is not watched any more");
    assert!(collector.ended(3).run.0 > 0, "what it did is kept");
}

#[test]
fn a_waker_is_named_and_a_sleeper_is_seen_asleep() {
    let Some(mut collector) = collector(Options { events: true, edges: true, cost: true, ..Options::default() }) else {
        return;
    };
    // `cat` wakes the shell that reads from it.
    let mut sleeper = Ours::shell("cat | while read line; do :; done");
    let cat = Member { tid: child_named(sleeper.0.id(), "cat"), slot: 1 };
    let reader = Member { tid: child_named(sleeper.0.id(), "sh"), slot: 2 };
    // Both have their names before they have come to their first read.
    until_asleep(cat.tid);
    until_asleep(reader.tid);
    collector.watch(cat).unwrap();
    collector.watch(reader).unwrap();
    collector.look().unwrap();
    for _ in 0..10 {
        until_asleep(cat.tid);
        until_asleep(reader.tid);
        writeln!(sleeper.0.stdin.as_mut().unwrap(), "line").unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let events = drained(&mut collector);
    assert!(events.iter().any(|event| event.what == Change::Seen(reader, Doing::Sleeping)));
    let edges = collector.edges().unwrap();
    let woken = edges.iter().find(|edge| edge.waker == Some(cat.tid) && edge.wakee == reader.tid);
    assert!(woken.is_some_and(|edge| edge.count >= 8), "{edges:?}");
    assert!(edges.iter().any(|edge| edge.waker.is_none() && edge.wakee == cat.tid), "we are not watched: {edges:?}");
    assert!(collector.cost().unwrap().runs > 0);
    let woken = *woken.unwrap();
    collector.forget_edge(woken).unwrap();
    assert!(!collector.edges().unwrap().iter().any(|edge| edge.waker == woken.waker && edge.wakee == woken.wakee));

    let mut timed = Ours::shell("exec sleep 0.2");
    collector.watch(timed.member()).unwrap();
    timed.0.wait().unwrap();
    assert!(collector.losses().interrupts > 0, "a timer is no waker");
}

#[test]
fn pairs_beyond_the_room_are_counted_as_lost() {
    let Some(mut collector) = collector(Options { edges: true, edge_room: 1, ..Options::default() }) else { return };
    let mut readers = [0, 1].map(|_| Ours::shell("while read line; do :; done"));
    for reader in &readers {
        collector.watch(reader.member()).unwrap();
    }
    let losses = || {
        for reader in &mut readers {
            writeln!(reader.0.stdin.as_mut().unwrap(), "line").unwrap();
        }
        (collector.losses().edges > 0).then_some(())
    };
    eventually("a pair without room", losses);
    assert_eq!(collector.edges().unwrap().len(), 1);
}

/// What became of one thread, a line an event.
fn story(events: &[Event], of: Member) -> String {
    let concerns = |event: &&Event| format!("{:?}", event.what).contains(&format!("tid: {}", of.tid));
    events.iter().filter(concerns).map(|event| format!("\n{event:?}")).collect()
}

/// A thread that is awake already needs no waking.
fn until_asleep(tid: i32) {
    let is_asleep = || {
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S').then_some(())
    };
    eventually(&format!("{tid} asleep"), is_asleep);
}

/// The child of a process that runs this program, once there is one.
fn child_named(parent: u32, name: &str) -> i32 {
    let is_named =
        |pid: &&str| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    eventually(&format!("{name} among the children of {parent}"), || {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        children.split_whitespace().find(is_named).map(|pid| pid.parse().unwrap())
    })
}

/// What is there within ten seconds: a slow disk keeps programs from starting.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..10_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not within ten seconds: {what}");
}
