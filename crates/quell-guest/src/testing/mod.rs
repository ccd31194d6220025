//! Rust tests that run inside the lab.
//!
//! ```no_run
//! quell_guest::lab_tests! {
//!     /// Checks of the guest itself.
//!     mod in_the_guest {
//!         machine: quell_guest::Machine { cpus: 2, ..quell_guest::Machine::packed(Vec::new()) };
//!
//!         fn the_kernel_has_sched_ext() {
//!             assert!(std::path::Path::new("/sys/kernel/sched_ext").exists());
//!         }
//!     }
//! }
//! ```
//!
//! On the host this very test program is packed, its machine is booted, and the whole suite runs in it, with the next ones that
//! want the same machine; each test then passes or fails as it did there, and prints its output from there
//! (`-- --show-output` shows it). A test that was not executed inside has failed. There are as many boots at once as CPUs.

mod ahead;
mod report;
mod script;

use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::time::Duration;

use crate::{Job, Lab, Machine, Root, ToStderr};
pub use ahead::Registered;
use report::{Report, Verdict};
pub use script::{Said, Script};

/// Set in the guest: the tests' bodies run.
const INSIDE: &str = "QUELL_LAB_INSIDE";
/// A suite that hangs is ended after this wall-clock time …
const LIMIT: Duration = Duration::from_secs(900);
/// … or after as many seconds as this variable says.
const OTHER_LIMIT: &str = "QUELL_LAB_SUITE_SECONDS";

/// Defines modules of tests that run inside the lab; see [`crate::testing`].
#[macro_export]
macro_rules! lab_tests {
    ($(
        $(#[$suite_doc:meta])*
        mod $suite:ident {
            machine: $machine:expr;
            $( $(#[$test_attribute:meta])* fn $test:ident() $body:block )+
        }
    )+) => {$(
        $(#[$suite_doc])*
        mod $suite {
            #[allow(unused_imports)]
            use super::*;

            static SUITE: $crate::testing::Suite = $crate::testing::Suite::new(module_path!(), || $machine);
            $crate::inventory::submit! { $crate::testing::Registered(&SUITE) }

            $(
                $(#[$test_attribute])*
                #[test]
                fn $test() {
                    SUITE.run(stringify!($test), || $body);
                }
            )+
        }
    )+};
}

/// The tests of one module and the machine that they run in.
pub struct Suite {
    module: &'static str,
    machine: fn() -> Machine,
    report: OnceLock<Result<Report, String>>,
}

impl Suite {
    /// The tests of `module` (its full path), in a machine of this make whose root is packed.
    #[must_use]
    pub const fn new(module: &'static str, machine: fn() -> Machine) -> Self {
        Self { module, machine, report: OnceLock::new() }
    }

    /// Inside the lab: runs `body`. Outside: passes if the test passed inside.
    ///
    /// # Panics
    /// When the test failed inside, did not run there, or the lab itself failed.
    pub fn run(&'static self, test: &str, body: fn()) {
        if env::var_os(INSIDE).is_some() {
            return body();
        }
        let name = format!("{}{test}", self.prefix());
        let report = if ahead::boots(self) { self.report.wait() } else { self.report() };
        match report {
            Err(failure) => panic!("the lab failed: {failure}"),
            Ok(report) => match report.verdict(&name) {
                Some(Verdict::Passed(output)) => println!("{output}"),
                Some(Verdict::Failed(output)) => panic!("failed inside the lab:\n{output}"),
                None => panic!("{name} was not executed inside the lab, whose tests printed:\n{}", report.text()),
            },
        }
    }

    /// What the suite's boot came to.
    fn report(&'static self) -> &'static Result<Report, String> {
        self.report.get_or_init(|| boot(&[self]))
    }

    /// The machine; files of the host are not seen in it.
    fn machine(&self) -> Machine {
        let mut machine = (self.machine)();
        if machine.root == Root::Host {
            machine.root = Root::Packed(Vec::new());
        }
        machine
    }

    /// The start of the test program's own names for these tests: the module's path without the crate.
    fn prefix(&self) -> String {
        self.module.split_once("::").map(|(_, path)| format!("{path}::")).unwrap_or_default()
    }
}

/// Runs these suites, which want the same machine, in a boot.
fn boot(suites: &[&'static Suite]) -> Result<Report, String> {
    panic::catch_unwind(AssertUnwindSafe(|| boot_and_run(suites))).unwrap_or_else(|_| Err("it panicked".into()))
}

fn boot_and_run(suites: &[&'static Suite]) -> Result<Report, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut job = Job::new([program.as_os_str(), "--test-threads=1".as_ref(), "--show-output".as_ref()]);
    job.command.extend(suites.iter().map(|suite| suite.prefix().into()));
    // Who asked for ignored tests has them executed inside, too.
    if wants_ignored() {
        job.command.push("--include-ignored".into());
    }
    job.directory = "/".into();
    job.environment.push((INSIDE.into(), "1".into()));
    // What the scheduler under test is asked to do.
    job.environment.extend(env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("QUELL_SCX_")));
    let other = env::var(OTHER_LIMIT).ok().and_then(|seconds| seconds.parse().ok());
    job.timeout = Some(other.map_or(LIMIT, Duration::from_secs) * suites.len() as u32);
    let lab = Lab::new(&ToStderr).map_err(|error| error.to_string())?;
    let output = lab.output(&suites[0].machine(), &job).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // 101 is the status of a test program some of whose tests have failed.
    let status = output.ending.status;
    if status != 0 && status != 101 {
        return Err(format!("the test program ended with status {status}:\n{text}"));
    }
    Ok(Report::read(text))
}

/// Was this test program asked for ignored tests?
fn wants_ignored() -> bool {
    env::args().any(|argument| argument == "--include-ignored" || argument == "--ignored")
}
