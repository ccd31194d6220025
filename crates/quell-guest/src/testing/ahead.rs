//! Boots the suites that a test program was asked for, as many at once as there are CPUs: its harness takes tests in the order
//! of their names, so that its threads would wait for the same boot.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use super::{Suite, wants_ignored};

/// A suite of this test program.
pub struct Registered(pub &'static Suite);

inventory::collect!(Registered);

/// Begins to boot the suites of which a test is going to run, once; returns whether this one is among them.
pub(super) fn boots(suite: &Suite) -> bool {
    static AHEAD: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    AHEAD.get_or_init(begin).contains(suite.module)
}

/// Returns the modules that are booted.
fn begin() -> BTreeSet<&'static str> {
    let tests = selected().unwrap_or_default();
    let mut suites: Vec<&'static Suite> = inventory::iter::<Registered>().map(|registered| registered.0).collect();
    suites.retain(|suite| tests.iter().any(|test| test.starts_with(&suite.prefix())));
    suites.sort_by_key(|suite| suite.module);
    let modules = suites.iter().map(|suite| suite.module).collect();
    let workers = thread::available_parallelism().map_or(1, usize::from).min(suites.len());
    let queue = Arc::new(Mutex::new(VecDeque::from(suites)));
    for _ in 0..workers {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let next = || queue.lock().expect("no holder panics").pop_front();
            while let Some(suite) = next() {
                suite.report();
            }
        });
    }
    modules
}

/// Names of the tests that the harness was asked for; None: it does not say.
fn selected() -> Option<BTreeSet<String>> {
    let mut tests = listed(&[])?;
    if !wants_ignored() {
        let ignored = listed(&["--ignored"])?;
        tests.retain(|test| !ignored.contains(test));
    }
    Some(tests)
}

/// What the harness lists for this program's own arguments and these.
fn listed(more: &[&str]) -> Option<BTreeSet<String>> {
    let arguments = env::args_os().skip(1);
    let output =
        Command::new(env::current_exe().ok()?).args(arguments).args(["--list", "--format=terse"]).args(more).output();
    let text = String::from_utf8(output.ok().filter(|output| output.status.success())?.stdout).ok()?;
    Some(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
