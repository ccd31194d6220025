//! Counting by workload at the switch: what a switch costs more, and how long reading 40 and 400 workloads takes.
//!
//! `switch` is the tracing program's own time for a message there and back between two watched threads on one CPU (two wake-ups,
//! two switches), as the kernel measures it, with and without counting. The events are clocks, which need no PMU.

#![allow(missing_docs, reason = "criterion's macros make a public function")]

use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use perf_event_open_sys::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE, perf_event_attr};
use perf_event_open_sys::perf_event_open;
use quell_linux::sched::{Kernel, ThreadCalls};
use quell_linux::{Roots, sysfs};
use quell_model::{CpuId, CpuSet};
use quell_trace::{COUNTED_EVENTS, Collector, Member, Options};

fn clock(cpu: CpuId) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        ..perf_event_attr::default()
    };
    // SAFETY: the attributes are initialised, say their size, and live during the call.
    match unsafe { perf_event_open(&raw mut attr, -1, cpu.0 as i32, -1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just opened this file, and its number has no other owner.
        file => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
    }
}

/// A collector that counts these events by clocks, and the CPUs.
fn collector(counted: u32) -> Option<(Collector, CpuSet)> {
    let options = Options { counted, cost: true, ..Options::default() };
    let collector = match Collector::open(options) {
        Ok(collector) => collector,
        Err(error) => {
            eprintln!("not measured here: {error}");
            return None;
        }
    };
    let cpus = sysfs::online(&Roots::default().sys).ok()?;
    for cpu in cpus.iter() {
        for event in (0..COUNTED_EVENTS).filter(|event| counted >> event & 1 == 1) {
            collector.count_by(cpu, event, Some(clock(cpu).ok()?.as_fd())).expect("a clock can be counted");
        }
    }
    Some((collector, cpus))
}

fn own_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn pin() {
    let cpu = CpuSet::first(1);
    Kernel::new().expect("a kernel").set_affinity(0, &cpu).expect("CPU 0 is there");
}

fn switches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("switch");
    for (name, counted) in [("not counted", 0), ("one event", 1), ("four events", 15)] {
        let Some((mut collector, _)) = collector(counted) else { return };
        let (mut here, mut there) = UnixStream::pair().expect("a socket");
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            pin();
            sender.send(own_thread()).expect("it waits");
            let mut byte = [0];
            while there.read(&mut byte).is_ok_and(|read| read == 1) && there.write_all(&byte).is_ok() {}
        });
        pin();
        for tid in [own_thread(), receiver.recv().expect("it has one")] {
            collector.watch(Member { tid, slot: 1 }).expect("there is room");
        }
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let before = collector.cost().expect("it is measured").time;
                for _ in 0..times {
                    here.write_all(&[1]).and_then(|()| here.read_exact(&mut [0])).expect("the other answers");
                }
                Duration::from_nanos((collector.cost().expect("it is measured").time - before).0)
            });
        });
        drop(here);
        other.join().expect("it ends");
    }
}

fn readings(criterion: &mut Criterion) {
    let Some((mut collector, cpus)) = collector(15) else { return };
    let mut group = criterion.benchmark_group("read");
    for workloads in [40, 400] {
        group.bench_function(BenchmarkId::new("workloads", workloads), |bencher| {
            bencher.iter(|| {
                cpus.iter().for_each(|cpu| collector.settle(cpu));
                black_box(collector.counted(workloads).map(<[_]>::len)).expect("they can be read");
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = switches, readings
}
criterion_main!(benches);
