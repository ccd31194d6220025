//! Thousands of a stranger's processes cost next to nothing.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{CRITICAL, Ours, STRANGER, Scene, is_root, said, until};

/// Number of a stranger's processes; `QUELL_STRANGERS` is another one.
fn count() -> usize {
    std::env::var("QUELL_STRANGERS").ok().and_then(|count| count.parse().ok()).unwrap_or(4000)
}

/// What a few processes cost, this often …
const RATIO: u32 = 5;
/// … and this much, for what the machine does beside.
const SLACK: Duration = Duration::from_millis(500);

/// Sleeping processes, which end when this does.
struct Crowd(Child);

impl Crowd {
    fn of(count: usize) -> Crowd {
        // A process that reads what never comes: a fork each, and no program.
        let sleepers = "exec 3<&0; i=0; while [ $i -lt $0 ]; do (read x <&3) & i=$((i+1)); done; echo; wait";
        let mut command = Command::new("sh");
        command.args(["-c", sleepers, &count.to_string()]).uid(STRANGER).gid(STRANGER).process_group(0);
        let mut crowd = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(crowd.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        Crowd(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.flush();
        }
        let _ = self.0.wait();
    }
}

struct Times {
    again: Duration,
    restore: Duration,
}

/// A worker's death until its server is protected again; and `quell restore` after both were killed.
fn times(scene: &Scene) -> Times {
    let server = Ours::sleeper(&scene.word("web"));
    let agent = scene.run(&[]);
    until("it is protected", || server.policy() == 1);
    let worker = agent.child().unwrap();
    let begun = Instant::now();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    until("it is put back", || server.policy() == 0);
    until("it is protected again", || server.policy() == 1);
    let again = begun.elapsed();
    agent.kill_with_its_worker();
    let begun = Instant::now();
    let restored = scene.restore();
    let restore = begun.elapsed();
    assert!(restored.status.success(), "{}", said(&restored));
    assert_eq!(server.policy(), 0);
    Times { again, restore }
}

/// Before, with 8,158 processes and with 159: protected again after 15 s and 0.13 s, restored after 22 s and 0.8 s.
#[test]
fn a_strangers_sleeping_processes_delay_neither_protection_nor_restore() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("crowd");
    scene.configure("guard", &[("web", CRITICAL)]);
    let few = times(&scene);
    let (begun, count) = (Instant::now(), count());
    let _crowd = Crowd::of(count);
    println!("{count} processes in {:?}", begun.elapsed());
    let many = times(&scene);
    println!("protected again after {:?}, with {count} strangers {:?}", few.again, many.again);
    println!("restore took {:?}, with {count} strangers {:?}", few.restore, many.restore);
    assert!(many.again <= few.again * RATIO + SLACK, "{:?} and {:?}", few.again, many.again);
    assert!(many.restore <= few.restore * RATIO + SLACK, "{:?} and {:?}", few.restore, many.restore);
}
