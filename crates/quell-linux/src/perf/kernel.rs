//! The running kernel's counters: perf_event_open(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;
use quell_model::{CpuId, Nanos};
use rustix::thread::{CapabilitySet, capabilities};

use super::counter::{Counter, Counters, Event, Reading};

/// The running kernel.
#[derive(Debug)]
pub(crate) struct Kernel;

impl Counters for Kernel {
    fn open(&self, event: Event, cpu: CpuId) -> io::Result<Box<dyn Counter>> {
        if !may_count() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let mut attr = perf_event_attr {
            type_: event.kind,
            size: size_of::<perf_event_attr>() as u32,
            config: event.config[0],
            read_format: u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING),
            ..perf_event_attr::default()
        };
        (attr.config1, attr.config2) = (event.config[1], event.config[2]);
        let (everybody, no_group, flags) = (-1, -1, PERF_FLAG_FD_CLOEXEC.into());
        // SAFETY: the attributes are initialised, say their size, and live during the call.
        let file = unsafe { perf_event_open(&raw mut attr, everybody, cpu.0 as i32, no_group, flags) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened this file, and its number has no other owner.
        Ok(Box::new(OpenCounter(unsafe { File::from_raw_fd(file) })))
    }
}

/// Counting all threads takes CAP_PERFMON, before Linux 5.8 CAP_SYS_ADMIN. Without it the call is not even tried: a
/// service's system-call filter ends processes that make it.
fn may_count() -> bool {
    let enough = CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
    capabilities(None).is_ok_and(|has| has.effective.intersects(enough))
}

#[derive(Debug)]
struct OpenCounter(File);

impl Counter for OpenCounter {
    fn read(&mut self) -> io::Result<Reading> {
        let mut words = [[0; 8]; 3];
        self.0.read_exact(words.as_flattened_mut())?;
        let [count, enabled, running] = words.map(u64::from_ne_bytes);
        Ok(Reading { count, enabled: Nanos(enabled), running: Nanos(running) })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use perf_event_open_sys::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE};

    use rustix::thread::set_capabilities;

    use super::super::counter::Meter;
    use super::*;
    use crate::{clock, sysfs};

    /// Counts the nanoseconds of a CPU: there on every machine, with or without a PMU.
    const CPU_CLOCK: Event = Event { kind: PERF_TYPE_SOFTWARE, config: [PERF_COUNT_SW_CPU_CLOCK as u64, 0, 0] };

    const NONSENSE: Event = Event { kind: PERF_TYPE_HARDWARE, config: [u32::MAX as u64, 0, 0] };

    fn open_files() -> usize {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                let link = fs::read_link(entry.as_ref().unwrap().path()).unwrap_or_default();
                link == Path::new("anon_inode:[perf_event]")
            })
            .count()
    }

    #[test]
    fn each_cpu_counts_until_its_counter_is_closed() {
        let cpus = sysfs::online(Path::new("/sys")).unwrap();
        let meters: io::Result<Vec<Meter>> =
            cpus.iter().map(|cpu| Meter::open(CPU_CLOCK, cpu, Nanos::ZERO, &Kernel)).collect();
        let mut meters = match meters {
            Ok(meters) => meters,
            Err(error) => {
                let refusals = [libc::EPERM, libc::EACCES, libc::ENOSYS];
                assert!(error.raw_os_error().is_some_and(|refusal| refusals.contains(&refusal)), "{error}");
                eprintln!("not tested here: {error}");
                return;
            }
        };
        assert_eq!(open_files(), cpus.len());
        let begun = Instant::now();
        for meter in &mut meters {
            meter.look(Nanos::ZERO, &Kernel).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        for meter in &mut meters {
            let counted = meter.look(Nanos::ZERO, &Kernel).unwrap();
            let passed = begun.elapsed().as_nanos() as u64;
            assert!((20_000_000..=passed).contains(&counted.enabled.0), "{counted:?} in {passed} ns");
            assert_eq!(counted.enabled, counted.running, "software events share with no one");
            // A tickless CPU that idles may count less than the time that passed; none counts more.
            assert!(counted.count <= passed + passed / 100, "{counted:?} in {passed} ns");
        }
        println!("one reading takes {:?}, the loop's own CPU and all others in turn", cost(&mut meters));
        drop(meters);
        assert_eq!(open_files(), 0);
    }

    /// CPU time of a reading, the mean of a thousand on each CPU.
    fn cost(meters: &mut [Meter]) -> Duration {
        let begun = clock::cpu_time();
        for _ in 0..1_000 {
            meters.iter_mut().for_each(|meter| assert!(meter.look(Nanos::ZERO, &Kernel).is_some()));
        }
        Duration::from_nanos((clock::cpu_time() - begun).0 / (1_000 * meters.len() as u64))
    }

    #[test]
    fn without_the_capability_no_call_is_made() {
        let refused = std::thread::spawn(|| {
            let mut has = capabilities(None).unwrap();
            has.effective = CapabilitySet::empty();
            set_capabilities(None, has).unwrap();
            // Were the call made, this would be ENOENT, or EACCES where the machine is strict.
            Kernel.open(NONSENSE, CpuId(0)).unwrap_err().raw_os_error()
        });
        assert_eq!(refused.join().unwrap(), Some(libc::EPERM));
    }

    #[test]
    fn what_the_kernel_does_not_know_is_refused() {
        let error = Kernel.open(NONSENSE, CpuId(0)).unwrap_err();
        assert!(error.raw_os_error().is_some());
        assert!(Kernel.open(CPU_CLOCK, CpuId(1_000_000)).is_err());
    }
}
