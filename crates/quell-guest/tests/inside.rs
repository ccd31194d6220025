//! What everything else relies on, checked inside a real guest: the kernel's abilities, and the lab's promises.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use quell_guest::{Lockstep, Machine, lab_tests};

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{text} > {path}: {error}"));
}

lab_tests! {
    /// A free-running guest: what its kernel can do.
    mod kernel {
        machine: Machine { topology: "1,2,2".parse().ok(), ..Machine::packed(Vec::new()) };

        fn has_sched_ext() {
            assert_eq!(read("/sys/kernel/sched_ext/state").trim(), "disabled");
        }

        fn has_type_information() {
            assert!(fs::metadata("/sys/kernel/btf/vmlinux").unwrap().len() > 1_000_000);
        }

        fn has_the_controllers() {
            let controllers = read("/sys/fs/cgroup/cgroup.subtree_control");
            for name in ["cpu", "cpuset", "memory", "pids", "io"] {
                assert!(controllers.split_whitespace().any(|controller| controller == name), "{name}: {controllers}");
            }
        }

        fn makes_a_cpuset_partition() {
            let group = "/sys/fs/cgroup/partition";
            fs::create_dir(group).unwrap();
            write(&format!("{group}/cpuset.cpus"), "2-3");
            write(&format!("{group}/cpuset.cpus.partition"), "root");
            assert_eq!(read(&format!("{group}/cpuset.cpus.partition")).trim(), "root");
            assert_eq!(read("/sys/fs/cgroup/cpuset.cpus.effective").trim(), "0-1");
            fs::remove_dir(group).unwrap();
        }

        fn tells_its_topology() {
            let siblings = read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
            assert_eq!(siblings.trim(), "0-1");
            let core = |cpu| read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_id"));
            assert_eq!(core(2), core(3));
            assert_ne!(core(0), core(2));
        }

        fn tells_its_pressure_and_preemption_mode() {
            assert!(read("/proc/pressure/cpu").starts_with("some"));
            assert!(read("/sys/kernel/debug/sched/preempt").contains('('));
        }

        fn has_its_configuration_where_libbpf_looks() {
            let release = read("/proc/sys/kernel/osrelease");
            let config = read(&format!("/boot/config-{}", release.trim()));
            assert!(config.contains("CONFIG_SCHED_CLASS_EXT=y"));
        }

        fn has_a_loopback() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        }

        fn has_nothing_of_the_host() {
            assert!(!Path::new("/usr/share").exists());
            assert!(!Path::new("/home").exists());
        }
    }

    /// A lock-step guest: its time does not follow the host's.
    mod lockstep {
        machine: Machine::measuring(2, Lockstep::default(), Vec::new());

        /// An hour passes in no time when no thread has work.
        fn idle_time_is_skipped() {
            let begin = Instant::now();
            std::thread::sleep(Duration::from_secs(3600));
            let late = begin.elapsed() - Duration::from_secs(3600);
            assert!(late < Duration::from_millis(10), "{late:?}");
        }

        /// Whatever the host does, a sleeper wakes within 0.2 ms of guest time (free-running: 5 to 20 ms).
        fn a_sleeper_wakes_on_time() {
            let mut lateness: Vec<Duration> = (0..500)
                .map(|_| {
                    let begin = Instant::now();
                    std::thread::sleep(Duration::from_millis(1));
                    begin.elapsed() - Duration::from_millis(1)
                })
                .collect();
            lateness.sort();
            let p99 = lateness[lateness.len() * 99 / 100];
            assert!(p99 < Duration::from_micros(200), "{p99:?}");
        }

        /// Two busy CPUs take as long as one: they share no host CPU that could show.
        fn busy_cpus_do_not_slow_each_other() {
            let work = || {
                let begin = Instant::now();
                let sum = (0..200_000_u64).fold(1_u64, |sum, i| std::hint::black_box(sum.rotate_left(5) ^ i));
                assert_ne!(sum, 0);
                begin.elapsed()
            };
            let alone = work();
            let both = std::thread::scope(|scope| {
                let other = scope.spawn(work);
                work().max(other.join().unwrap())
            });
            let ratio = both.as_secs_f64() / alone.as_secs_f64();
            assert!((0.8..1.25).contains(&ratio), "{both:?} with two, {alone:?} alone");
        }
    }
}
