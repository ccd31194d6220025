//! A program that asks for core scheduling while the scheduler runs: the host says that it ends, and names the thread. Debian's
//! cloud kernels, which the lab boots, are built without core scheduling; that of `scripts/checked-kernel` has it.

use quell_guest::lab_tests;
use quell_linux::LinuxError;
use quell_model::{Host, SignalSet};
use quell_scx::ScxError;

use crate::support::*;

fn guest_with_siblings() -> quell_guest::Machine {
    quell_guest::Machine { topology: "1,1,2".parse().ok(), ..guest(2) }
}

/// `PR_SCHED_CORE` about this very process, whose cookie is written there, if anywhere.
fn of_cores(what: libc::c_int, to: *mut u64) -> bool {
    let (process, of_group) = (0 as libc::c_ulong, 1 as libc::c_ulong);
    let kind = if to.is_null() { of_group } else { 0 };
    // SAFETY: eight bytes are written at most, to where the caller says.
    unsafe { libc::prctl(libc::PR_SCHED_CORE, what as libc::c_ulong, process, kind, to) == 0 }
}

/// Continued once more it takes a cookie, and sleeps: a thread that is scheduled by cores need not run to be found.
fn takes_a_cookie() {
    // SAFETY: stops this very process.
    unsafe { libc::raise(libc::SIGSTOP) };
    while of_cores(libc::PR_SCHED_CORE_CREATE, std::ptr::null_mut()) {
        // SAFETY: no arguments.
        unsafe { libc::pause() };
    }
}

lab_tests! {
    mod cookies {
        machine: guest_with_siblings();

        #[ignore = "needs a kernel with CONFIG_SCHED_CORE"]
        fn threads_that_are_scheduled_by_cores_later_end_the_scheduler() {
            let mut cookie = 0;
            assert!(of_cores(libc::PR_SCHED_CORE_GET, &raw mut cookie), "this kernel has no core scheduling");
            // There before the scheduler: a child that inherits its descriptors keeps it loaded as long as it lives.
            let cookied = Child::run(None, None, takes_a_cookie);
            let mut machine = Machine::load();
            for _ in 0..10 {
                machine.observe();
                pass(20);
            }
            let ended = (0..500).find_map(|_| {
                cookied.signal(libc::SIGCONT);
                pass(20);
                machine.host.observe(SignalSet::default(), &mut machine.view, &mut machine.events).err()
            });
            let Some(LinuxError::SchedulerEnded { why, by_hand: false, .. }) = ended else { panic!("{ended:?}") };
            assert!(why.starts_with(&format!("thread {} of process {0} is scheduled by cores", cookied.0)), "{why}");
            drop(machine);
            // The kernel takes a while to end it.
            let is_refused = |_: &i32| {
                pass(20);
                matches!(quell_scx::ready(), Err(ScxError::CoreScheduled { .. }))
            };
            let refused = (0..1_500).find(is_refused);
            assert!(refused.is_some(), "it is loaded again beside it: {:?}", quell_scx::ready());
            drop(cookied);
            Machine::load().observe();
        }
    }
}
