//! Who used up its quota inside the kernel goes on there while latency-critical work waits for it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU64};

use quell_guest::lab_tests;

use crate::support::*;

/// A pipe; how often the latency-critical thread had it, and the longest wait for it, in ns.
struct Waits {
    ends: [AtomicI32; 2],
    times: AtomicU64,
    longest: AtomicU64,
}

static AT: AtomicU64 = AtomicU64::new(0);

fn waits() -> &'static Waits {
    // SAFETY: the mapping of `share`, which children inherit and which stays; zeros are values of atomics.
    unsafe { &*(AT.load(Relaxed) as *const Waits) }
}

fn share(ends: [i32; 2]) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    AT.store(at as u64, Relaxed);
    ends.iter().zip(&waits().ends).for_each(|(end, place)| place.store(*end, Relaxed));
}

fn ends() -> [i32; 2] {
    waits().ends.each_ref().map(|end| end.load(Relaxed))
}

/// The ends of a pipe that holds a mebibyte, and never makes its callers sleep until it has data or room.
fn pipe() -> [i32; 2] {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) }, 0);
    // SAFETY: a number of a file and a size.
    assert!(unsafe { libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 1 << 20) } > 0);
    ends
}

/// Fills and empties the pipe for ever: all the time within the kernel, with the pipe's mutex.
fn pump() {
    let [from, to] = ends();
    let mut room = vec![0_u8; 1 << 20];
    loop {
        // SAFETY: that many bytes are there.
        unsafe {
            libc::write(to, room.as_ptr().cast(), room.len());
            libc::read(from, room.as_mut_ptr().cast(), room.len());
        }
    }
}

/// Takes a byte out of it now and then.
fn ask() {
    let [end, _] = ends();
    loop {
        let (from, mut byte) = (monotonic(), [0_u8]);
        // SAFETY: room for one byte.
        unsafe { libc::read(end, byte.as_mut_ptr().cast(), 1) };
        waits().longest.fetch_max((monotonic() - from).0, Relaxed);
        waits().times.fetch_add(1, Relaxed);
        pass(5);
    }
}

/// Sleeps without being interruptible for as long as its child lives, as one that waits for a lock does.
fn wait_for_child() {
    loop {
        let flags = libc::c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
        // SAFETY: as a fork; the child makes a system call alone, and ends.
        unsafe {
            if libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) == 0 {
                let span = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                libc::nanosleep(&raw const span, std::ptr::null_mut());
                libc::_exit(0);
            }
            libc::wait(std::ptr::null_mut());
        }
    }
}

lab_tests! {
    mod passage {
        machine: guest(2);

        fn who_is_throttled_with_a_lock_of_the_kernels_gives_it_back_soon() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::with_controller("be"));
            be_group.set("cpu.max", "10000 500000");
            let mut machine = Machine::shared();
            machine.attach_pair(1);
            share(pipe());
            let pumps = Child::run(Some(&be_group), None, pump);
            let _asks = Child::run(Some(&lc_group), None, ask);
            let passed = |machine: &Machine| machine.scx().grant().decisions().passed;
            for _ in 0..600 {
                if passed(&machine) >= 5 && waits().times.load(Relaxed) > 20 {
                    break;
                }
                pass(100);
            }
            let (times, longest) = (waits().times.load(Relaxed), waits().longest.load(Relaxed));
            println!("{times} reads, the longest {} µs; {} passages", longest / 1000, passed(&machine));
            // Without passages it is the rest of the half second, and of the periods in which the quota's debt is paid.
            assert!(longest < 300_000_000, "{longest} ns");
            assert!(passed(&machine) >= 5 && times > 20, "{times}");
            let share = shares(&[&pumps], 3000)[0];
            println!("the best-effort thread has {share} of 1000, of 20");
            assert!(share < 80, "what it runs so is charged to its quota");
            machine.scx().grant().check().unwrap();
        }

        fn who_computes_outside_the_kernel_does_not_pass() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::with_controller("be"));
            be_group.set("cpu.max", "10000 100000");
            let mut machine = Machine::shared();
            machine.attach_pair(1);
            let _spins = [0, 1].map(|_| Child::spin(Some(&be_group), None));
            let _waits = Child::run(Some(&lc_group), None, wait_for_child);
            pass(1000);
            let passed = |machine: &Machine| machine.scx().grant().decisions().passed;
            let before = passed(&machine);
            pass(8000);
            let times = passed(&machine) - before;
            println!("{times} passages of threads that spin, in 8 s");
            // An interrupt may have been in the kernel for them. Without the limit of the stack's depth it is some two hundred.
            assert!(times < 20, "{times}");
            machine.scx().grant().check().unwrap();
        }
    }
}
