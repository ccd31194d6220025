//! A guest's kernel that changes its own code all the time, on a host that keeps interrupting the emulation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quell_lab::{Job, Lab, Machine, Silent};

/// The scheduler's statistics are behind a switch in its code, with breakpoints on the way from one position to the other.
const SWITCHES: &str = "
    for n in 1 2 3; do while :; do usleep 300; done & done
    echo begun
    end=$(($(cut -d. -f1 /proc/uptime) + 8)) switched=0
    while [ $(cut -d. -f1 /proc/uptime) -lt $end ]; do
        for to in 0 1; do echo $to > /proc/sys/kernel/sched_schedstats; done
        switched=1
    done
    echo switched $switched";

/// Takes a host CPU away for a moment, over and over, until the end.
fn interrupt(ended: &AtomicBool) {
    const MOMENT: Duration = Duration::from_micros(100);
    while !ended.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < MOMENT {
            std::hint::spin_loop();
        }
        thread::sleep(MOMENT);
    }
}

/// Without the lab's mend of the emulation, "Oops: int3" after 10 to 200 switches.
#[test]
fn the_kernel_can_change_its_code_while_others_execute_it() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let ended = AtomicBool::new(false);
    let ending = thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, Into::into))
            .for_each(|_| drop(scope.spawn(|| interrupt(&ended))));
        let lab = Lab::new(&Silent).unwrap();
        let machine = Machine { cpus: 3, ..Machine::packed(Vec::new()) };
        // Something is printed before the first switch: there is no second boot.
        let ending = lab.run(&machine, &Job::new(["sh", "-c", SWITCHES]), &mut out, &mut err);
        ended.store(true, Ordering::Relaxed);
        ending
    });
    assert_eq!(ending.unwrap().status, 0);
    assert_eq!(String::from_utf8_lossy(&out), "begun\nswitched 1\n", "{}", String::from_utf8_lossy(&err));
}
