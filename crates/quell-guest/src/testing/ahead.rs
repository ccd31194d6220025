//! Boots the suites that a test program was asked for, as many boots at once as there are CPUs: its harness takes tests in the
//! order of their names, so that its threads would wait for the same boot. Suites of the same machine share a boot.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use super::{Suite, boot, wants_ignored};

/// A boot costs 10 to 20 s; a guest that hangs takes the results of all its suites with it.
const SUITES_A_BOOT: usize = 4;

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
    let boots = together(suites);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(boots.len());
    let queue = Arc::new(Mutex::new(VecDeque::from(boots)));
    for _ in 0..workers {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let next = || queue.lock().expect("no holder panics").pop_front();
            while let Some(suites) = next() {
                let report = boot(&suites);
                for suite in suites {
                    // Set before only by a test that did not wait, of which there is none.
                    let _ = suite.report.set(report.clone());
                }
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

/// Those that share a boot, in their order.
fn together(suites: Vec<&'static Suite>) -> Vec<Vec<&'static Suite>> {
    let mut boots: Vec<Vec<&'static Suite>> = Vec::new();
    for suite in suites {
        let machine = suite.machine();
        match boots.iter_mut().find(|boot| boot.len() < SUITES_A_BOOT && boot[0].machine() == machine) {
            Some(boot) => boot.push(suite),
            None => boots.push(vec![suite]),
        }
    }
    boots
}

/// What the harness lists for this program's own arguments and these.
fn listed(more: &[&str]) -> Option<BTreeSet<String>> {
    let arguments = env::args_os().skip(1);
    let output =
        Command::new(env::current_exe().ok()?).args(arguments).args(["--list", "--format=terse"]).args(more).output();
    let text = String::from_utf8(output.ok().filter(|output| output.status.success())?.stdout).ok()?;
    Some(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
