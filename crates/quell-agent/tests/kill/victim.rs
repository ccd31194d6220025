//! A victim: threads that come and go, children that come and go, one pinned thread and one that is nice.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::threads;

/// Lives until it is killed (or its parent's tree forgets it, after a minute). `brief` victims live for half a second.
/// A plain one has no pinned and no nice thread.
pub fn run(kind: &str, token: &str, special: bool) {
    let brief = kind == "brief" || kind == "orphan";
    let end = Instant::now() + if brief { Duration::from_millis(400) } else { Duration::from_secs(60) };
    if !brief && special {
        spawn("pinned", end, || threads::pin_to(0));
        spawn("nice", end, || threads::be_nice(threads::NICE));
    }
    spawn("worker", end, || {});
    let mut round = u64::from(std::process::id());
    while Instant::now() < end {
        // A multiplicative congruential generator: no need for better.
        round = round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        spawn("short", Instant::now() + Duration::from_millis(10 + round % 60), || {});
        if !brief && (round >> 33).is_multiple_of(12) {
            let child = if (round >> 40).is_multiple_of(3) { "orphan" } else { "brief" };
            child_of_mine(child, token);
        }
        thread::sleep(Duration::from_millis(6 + (round >> 35) % 20));
    }
}

/// A thread that works a little now and then.
fn spawn(name: &str, end: Instant, first: impl FnOnce() + Send + 'static) {
    let work = move || {
        first();
        while Instant::now() < end {
            let busy = Instant::now();
            while busy.elapsed() < Duration::from_micros(50) {
                std::hint::spin_loop();
            }
            thread::sleep(Duration::from_millis(10));
        }
    };
    // A limit of threads that the machine sets is no fault of the test's.
    let _ = thread::Builder::new().name(name.into()).spawn(work);
}

/// An orphan's parent (a shell) ends at once.
fn child_of_mine(kind: &'static str, token: &str) {
    let own = std::env::current_exe().expect("this program has a path");
    let mut command = if kind == "orphan" {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "\"$0\" victim orphan \"$1\" & exit 0"]).arg(own).arg(token);
        shell
    } else {
        let mut child = Command::new(own);
        child.args(["victim", kind, token]);
        child
    };
    if let Ok(mut child) = command.stdin(Stdio::null()).spawn() {
        thread::spawn(move || child.wait());
    }
}
