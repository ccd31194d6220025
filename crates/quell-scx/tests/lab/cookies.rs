//! A program that asks for core scheduling while the scheduler runs: of no workload it changes nothing; of a workload that one gets no
//! CPUs meanwhile, and the message names the thread. Debian's cloud kernels, which the lab boots, are built without core scheduling;
//! that of `scripts/checked-kernel` has it.

use quell_guest::lab_tests;
use quell_linux::scheduler::Scheduler;
use quell_model::Class;

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
        fn a_cookie_refuses_its_own_workload_alone() {
            let mut cookie = 0;
            assert!(of_cores(libc::PR_SCHED_CORE_GET, &raw mut cookie), "this kernel has no core scheduling");
            let (first, second) = (Group::new("first"), Group::new("second"));
            // There before the scheduler: a child that inherits its descriptors keeps it loaded as long as it lives.
            let stranger = Child::run(None, None, takes_a_cookie);
            let own = Child::run(Some(&first), None, takes_a_cookie);
            let mut machine = Machine::load();
            let ids = ["first", "second"].map(|name| machine.attach(name, Class::BestEffort));
            for id in ids {
                machine.apply(&rights(id, 0, 1, 0), &[]);
            }
            let refused_within = |machine: &mut Machine, turns: u32, cookied: &Child, count: usize| {
                (0..turns).any(|_| {
                    cookied.signal(libc::SIGCONT);
                    pass(20);
                    machine.observe();
                    machine.scx().warnings().len() == count
                })
            };
            assert!(!refused_within(&mut machine, 150, &stranger, 1), "a cookie of no workload refuses none");
            assert!(refused_within(&mut machine, 500, &own, 1), "a workload's refuses it");
            let lines = machine.scx().warnings();
            let thread = format!("'first': thread {} of process {0} is scheduled by cores", own.0);
            assert!(lines[0].contains(&thread), "{lines:?}");
            // The other one goes on; the first comes back.
            let spins = Child::spin(Some(&second), None);
            assert!(machine.comes_to_hold(ids[1]));
            drop((spins, own));
            let is_back = (0..500).any(|_| {
                pass(20);
                machine.observe();
                machine.scx().warnings().is_empty()
            });
            assert!(is_back, "{:?}", machine.scx().warnings());
            machine.apply(&rights(ids[0], 0, 1, 0), &[]);
            let spins = Child::spin(Some(&first), None);
            assert!(machine.comes_to_hold(ids[0]));
            drop((spins, stranger));
            machine.scx().grant().check().unwrap();
        }
    }
}
