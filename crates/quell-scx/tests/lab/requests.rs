//! The request clock and the bans that end with a request.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use quell_guest::lab_tests;
use quell_linux::pages::Pages;
use quell_linux::procfs::ProcFs;
use quell_model::{Class, CpuId, Nanos, Rule, ThreadId, WorkloadId};
use quell_page::{ProgramPage, RUNNING, SIZE};

use crate::support::*;

/// Reads from a pipe in which there is always something, works on it for 20 ms, and never sleeps.
fn read_and_work() {
    let mut ends = [0; 2];
    // SAFETY: a local array of two.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    let mut byte = [0_u8];
    loop {
        // SAFETY: one byte from and to a local array, through a pipe of this process.
        unsafe {
            libc::write(ends[1], byte.as_ptr().cast(), 1);
            libc::read(ends[0], byte.as_mut_ptr().cast(), 1);
        }
        work(20);
    }
}

fn work(milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {}
}

/// When the request of CPU 1 began, as seen every 5 ms; only the changes.
fn starts(machine: &mut Machine, milliseconds: u64) -> Vec<Nanos> {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let mut starts = Vec::new();
    while Instant::now() < end {
        let view = machine.observe();
        let sample = view.cpus.request_start[1];
        if sample.usable().is_some() {
            starts.push(sample.value);
        }
        pass(5);
    }
    starts.dedup();
    starts
}

/// The page of the program below, which is mapped before it is forked.
static PAGE: AtomicPtr<ProgramPage> = AtomicPtr::new(std::ptr::null_mut());

fn map(memory: &OwnedFd) {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, of a descriptor that has this size.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, rights, libc::MAP_SHARED, memory.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED);
    PAGE.store(at.cast(), Relaxed);
}

/// Requests of 20 ms, whose starts it exports; it makes no system call, and never sleeps.
fn work_and_export() {
    // SAFETY: `map` has mapped it; all of it is atomics.
    let page = unsafe { &*PAGE.load(Relaxed) };
    let line = &page.lines[0];
    line.tid.store(std::process::id(), Relaxed);
    line.state.store(RUNNING, Relaxed);
    page.header.used.store(1, Relaxed);
    loop {
        line.request.store(quell_linux::now().0, Relaxed);
        work(20);
    }
}

/// Hands a process its pages, as the agent does.
fn hand_out(machine: &mut Machine, id: WorkloadId, pages: Pages, child: &Child) {
    let stat = ProcFs::open(Path::new("/proc")).unwrap().stat(child.0, child.0).unwrap().unwrap();
    machine.host.take_program(0, id, ThreadId { tid: child.0, start: stat.start }, pages);
}

lab_tests! {
    mod requests {
        machine: quell_guest::Machine {
            topology: Some(quell_guest::Topology { sockets: 1, cores: 1, threads: 2 }),
            ..guest(2)
        };

        fn a_request_begins_when_a_busy_thread_reads_it() {
            let _first = RealTime::begin();
            let lc_group = Group::new("lc");
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(lc, 1, 1, 0), &[]);
            let reader = Child::run(Some(&lc_group), Some(1), read_and_work);
            pass(100);
            let read = starts(&mut machine, 1000);
            assert!(read.len() > 8, "{read:?}");
            assert!(read.is_sorted(), "{read:?}");
            drop(reader);
            // Who reads nothing works on one request for ever.
            let _spinner = Child::spin(Some(&lc_group), Some(1));
            pass(100);
            let spun = starts(&mut machine, 1000);
            assert!(spun.len() * 3 < read.len(), "{spun:?} beside {read:?}");
        }

        fn a_ban_lasts_as_long_as_the_request_that_a_program_exports() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::load();
            let (lc, _be) = machine.attach_pair(1);
            let (pages, _memory, [program, _quell]) = Pages::new(quell_linux::now()).unwrap();
            map(&program);
            let exports = Child::run(Some(&lc_group), Some(1), work_and_export);
            let _hog = Child::spin(Some(&be_group), None);
            hand_out(&mut machine, lc, pages, &exports);
            let begin = Instant::now();
            while machine.host.exporting(lc).workers == 0 || machine.host.exporting(lc).strangers > 0 {
                assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", machine.host.exporting(lc));
                machine.observe();
                pass(5);
            }
            let began = starts(&mut machine, 1000);
            assert!(began.len() > 8 && began.is_sorted(), "{began:?}");
            let (mut held, mut ended) = (0, 0);
            for _ in 0..50 {
                let start = machine.observe().cpus.request_start[1];
                if start.usable().is_none() {
                    pass(5);
                    continue;
                }
                machine.apply(&[Rule::SiblingBan { cpu: CpuId(1), request_start: start.value }], &[]);
                let view = machine.observe();
                held += usize::from(view.cpus.request_start[1].value == start.value && view.cpus.banned.contains(CpuId(0)));
                pass(60);
                let view = machine.observe();
                if view.cpus.request_start[1].value != start.value {
                    assert!(!view.cpus.banned.contains(CpuId(0)), "the next request inherited the ban");
                    ended += 1;
                }
            }
            assert!(held > 10 && ended > 10, "{held} of 50 bans were seen to hold, {ended} to end");
        }

        fn a_ban_ends_when_the_busy_thread_reads_the_next_request() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::load();
            let (_lc, _be) = machine.attach_pair(1);
            let _reader = Child::run(Some(&lc_group), Some(1), read_and_work);
            let _hog = Child::spin(Some(&be_group), None);
            pass(200);
            let mut held = 0;
            for _ in 0..50 {
                let start = machine.observe().cpus.request_start[1];
                if start.usable().is_none() {
                    pass(5);
                    continue;
                }
                machine.apply(&[Rule::SiblingBan { cpu: CpuId(1), request_start: start.value }], &[]);
                held += usize::from(machine.observe().cpus.banned.contains(CpuId(0)));
                pass(60);
                let now = machine.observe().cpus.request_start[1];
                if now.usable().is_some() && now.value != start.value {
                    assert!(!machine.observe().cpus.banned.contains(CpuId(0)), "the next request inherited the ban");
                }
            }
            assert!(held > 10, "{held} of 50 bans were seen to hold");
        }
    }
}
