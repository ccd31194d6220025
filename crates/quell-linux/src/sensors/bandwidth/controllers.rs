//! Counts of the memory controllers themselves: exact, for the traffic of all devices.

use std::io;
use std::path::Path;

use quell_model::{CpuId, Nanos};

use super::Rate;
use crate::LinuxError;
use crate::perf::{Counters, Event, LINE_BYTES, Lack, Meter, Pmu};

/// Reads and writes of one controller or channel.
#[derive(Debug)]
struct Channel {
    meter: Meter,
    bytes_per_count: f64,
    /// Bytes per second as of the last look at which it had counted; None: not yet.
    rate: Option<f64>,
}

/// All memory controllers of the machine.
#[derive(Debug)]
pub(super) struct Controllers(Vec<Channel>);

impl Controllers {
    /// Begins to count; None: none of them is known here. Without all of them the sum would be wrong.
    pub fn open(devices: &Path, now: Nanos, counters: &dyn Counters) -> Result<Option<Controllers>, LinuxError> {
        let places = places(devices)?;
        let open = |&(event, cpu, bytes_per_count): &(Event, CpuId, f64)| -> io::Result<Channel> {
            Ok(Channel { meter: Meter::open(event, cpu, now, counters)?, bytes_per_count, rate: None })
        };
        let channels: io::Result<Vec<Channel>> = places.iter().map(open).collect();
        let channels = channels.map_err(|error| {
            let Lack { why, fix } = Lack::of(&error);
            LinuxError::unsupported(format!("the memory controllers' counters cannot be opened: {why}"), fix)
        })?;
        Ok(Some(Controllers(channels)).filter(|controllers| !controllers.0.is_empty()))
    }

    /// The bytes that are moved, as of now.
    pub fn look(&mut self, now: Nanos, counters: &dyn Counters) -> Rate {
        let mut sum = Rate::default();
        for channel in &mut self.0 {
            let Some(counted) = channel.meter.look(now, counters) else {
                channel.rate = None;
                sum.misses_some = true;
                continue;
            };
            sum.is_there = true;
            if counted.running > Nanos::ZERO {
                channel.rate = Some(counted.rate() * channel.bytes_per_count);
            }
            sum.misses_some |= counted.running < counted.enabled || counted.running == Nanos::ZERO;
            match channel.rate {
                Some(rate) => sum.bytes_per_second += rate,
                None => sum.is_early = true,
            }
        }
        sum
    }
}

/// The events to count, their places, and the bytes of one count. Of the possible kinds of counters the first one
/// present is taken: they count the same.
fn places(devices: &Path) -> Result<Vec<(Event, CpuId, f64)>, LinuxError> {
    for kind in [intel, intel_free_running, amd] {
        let found = kind(devices)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// `uncore_imc_N`, a channel or a controller each; the oldest have one `uncore_imc`.
fn intel(devices: &Path) -> Result<Vec<(Event, CpuId, f64)>, LinuxError> {
    let is_one = |name: &str| name.starts_with("uncore_imc") && !name.contains("free_running");
    by_name(&Pmu::all(devices, is_one)?)
}

/// Counters that cannot be taken by other programs: all that newer laptops and desktops have.
fn intel_free_running(devices: &Path) -> Result<Vec<(Event, CpuId, f64)>, LinuxError> {
    by_name(&Pmu::all(devices, |name| name.starts_with("uncore_imc_free_running"))?)
}

/// `amd_umc_N` (Zen 4 on), a channel each. The kernel names no events of theirs; `umc_cas_cmd.all` is 0x0a (linux,
/// tools/perf/pmu-events/arch/x86/amdzen4/memory-controller.json), a cache line each.
fn amd(devices: &Path) -> Result<Vec<(Event, CpuId, f64)>, LinuxError> {
    let mut found = Vec::new();
    for pmu in Pmu::all(devices, |name| name.starts_with("amd_umc_"))? {
        let event = pmu.encode("event=0x0a")?;
        found.extend(pmu.cpus.iter().map(|cpu| (event, cpu, LINE_BYTES)));
    }
    Ok(found)
}

fn by_name(pmus: &[Pmu]) -> Result<Vec<(Event, CpuId, f64)>, LinuxError> {
    let mut found = Vec::new();
    for pmu in pmus {
        for name in pmu.events()?.iter().filter(|name| is_traffic(name)) {
            let (Some(event), bytes) = (pmu.event(name)?, pmu.bytes(name)?) else { continue };
            found.extend(pmu.cpus.iter().map(|cpu| (event, cpu, bytes)));
        }
    }
    Ok(found)
}

/// Reads or writes of memory, and nothing that is a part or the sum of others. Controllers with two subchannels have
/// two of each.
fn is_traffic(event: &str) -> bool {
    let name = event.strip_suffix("_sch0").or(event.strip_suffix("_sch1")).unwrap_or(event);
    ["cas_count_read", "cas_count_write", "data_read", "data_write", "data_reads", "data_writes", "read", "write"]
        .contains(&name)
}

#[cfg(test)]
mod tests {
    use quell_model::Topology;

    use super::*;
    use crate::perf::Bench;
    use crate::testkit::FakeTree;

    const READ: Event = Event { kind: 20, config: [0xcf05, 0, 0] };
    const WRITE: Event = Event { kind: 20, config: [0xf005, 0, 0] };

    fn devices(tree: &FakeTree) -> std::path::PathBuf {
        tree.path().join("sys/bus/event_source/devices")
    }

    fn machine() -> FakeTree {
        FakeTree::new(&Topology::synthetic(2, 1, 2, 1))
    }

    /// A PMU with these events, all in MiB as the kernel gives them.
    fn pmu(tree: &FakeTree, name: &str, kind: u32, cpus: &str, events: &[(&str, &str)]) {
        let base = Path::new("sys/bus/event_source/devices").join(name);
        tree.write(base.join("type"), &kind.to_string());
        tree.write(base.join("cpumask"), cpus);
        tree.write(base.join("format/event"), "config:0-7");
        tree.write(base.join("format/umask"), "config:8-15");
        for (event, terms) in events {
            tree.write(base.join("events").join(event), terms);
            tree.write(base.join("events").join(format!("{event}.scale")), "6.103515625e-5");
            tree.write(base.join("events").join(format!("{event}.unit")), "MiB");
        }
    }

    fn server(tree: &FakeTree) {
        let events = [
            ("cas_count_read", "event=0x05,umask=0xcf"),
            ("cas_count_write", "event=0x05,umask=0xf0"),
            ("clockticks", "event=0x01"),
        ];
        pmu(tree, "uncore_imc_0", 20, "0,2", &events);
        let free = [("read", "event=0xff,umask=0x20"), ("write", "event=0xff,umask=0x30")];
        pmu(tree, "uncore_imc_free_running_0", 30, "0,2", &free);
    }

    #[test]
    fn all_sockets_reads_and_writes_are_the_machines_bandwidth() {
        let (tree, bench) = (machine(), Bench::default());
        server(&tree);
        let counters = bench.counters();
        let mut controllers = Controllers::open(&devices(&tree), Nanos::ZERO, &*counters).unwrap().unwrap();
        assert_eq!(bench.opened(), 4, "the free-running counters count the same once more");
        let second = Nanos::from_secs(1);
        for (event, cpu, lines) in [(READ, 0, 1_000), (WRITE, 0, 500), (READ, 2, 300), (WRITE, 2, 0)] {
            bench.count(event, CpuId(cpu), lines, second);
        }
        let rate = controllers.look(second, &*counters);
        let exact = Rate { bytes_per_second: 64.0 * 1_800.0, is_there: true, ..Rate::default() };
        assert_eq!(rate, exact);
        // Half a second later, and one that had to share: by the time in which it counted.
        for (event, cpu) in [(READ, 0), (WRITE, 0), (WRITE, 2)] {
            bench.count(event, CpuId(cpu), 100, Nanos::from_millis(500));
        }
        bench.set(READ, CpuId(2), 400, Nanos::from_millis(1500), Nanos::from_millis(1100));
        let rate = controllers.look(second, &*counters);
        assert!((rate.bytes_per_second - 64.0 * (600.0 + 1_000.0)).abs() < 1e-6, "{rate:?}");
        assert!(rate.misses_some);
    }

    #[test]
    fn a_controller_that_vanishes_is_told_and_the_others_count() {
        let (tree, bench) = (machine(), Bench::default());
        server(&tree);
        let counters = bench.counters();
        let mut controllers = Controllers::open(&devices(&tree), Nanos::ZERO, &*counters).unwrap().unwrap();
        bench.count(READ, CpuId(0), 10, Nanos::from_secs(1));
        bench.refuse(libc::ENODEV);
        let rate = controllers.look(Nanos::from_secs(1), &*counters);
        assert_eq!(rate, Rate { bytes_per_second: 640.0, is_there: true, misses_some: true, is_early: false });
        let rate = controllers.look(Nanos::from_secs(2), &*counters);
        assert!(!rate.is_there, "{rate:?}");
    }

    #[test]
    fn laptops_have_free_running_counters() {
        let (tree, bench) = (machine(), Bench::default());
        pmu(&tree, "uncore_imc_0", 20, "0", &[("clockticks", "event=0x01")]);
        let data = [
            ("data_read", "event=0xff,umask=0x20"),
            ("data_write", "event=0xff,umask=0x30"),
            ("data_total", "event=0xff,umask=0x10"),
        ];
        pmu(&tree, "uncore_imc_free_running_0", 30, "0", &data);
        let counters = bench.counters();
        let mut controllers = Controllers::open(&devices(&tree), Nanos::ZERO, &*counters).unwrap().unwrap();
        assert_eq!(bench.opened(), 2);
        let second = Nanos::from_secs(1);
        for umask in [0x20, 0x30, 0x10] {
            bench.count(Event { kind: 30, config: [umask << 8 | 0xff, 0, 0] }, CpuId(0), 7, second);
        }
        assert_eq!(controllers.look(second, &*counters).bytes_per_second, 64.0 * 14.0);
    }

    #[test]
    fn subchannels_are_added() {
        let (tree, bench) = (machine(), Bench::default());
        let events = [
            ("cas_count_read_sch0", "event=0x05,umask=0xcf"),
            ("cas_count_read_sch1", "event=0x06,umask=0xcf"),
            ("cas_count_write_sch0", "event=0x05,umask=0xf0"),
            ("cas_count_write_sch1", "event=0x06,umask=0xf0"),
        ];
        pmu(&tree, "uncore_imc_3", 20, "0", &events);
        Controllers::open(&devices(&tree), Nanos::ZERO, &*bench.counters()).unwrap().unwrap();
        assert_eq!(bench.opened(), 4);
    }

    #[test]
    fn newer_amd_machines_count_commands() {
        let (tree, bench) = (machine(), Bench::default());
        pmu(&tree, "amd_umc_0", 40, "0", &[]);
        pmu(&tree, "amd_umc_11", 41, "0", &[]);
        let counters = bench.counters();
        let mut controllers = Controllers::open(&devices(&tree), Nanos::ZERO, &*counters).unwrap().unwrap();
        let second = Nanos::from_secs(1);
        for kind in [40, 41] {
            bench.count(Event { kind, config: [0x0a, 0, 0] }, CpuId(0), 100, second);
        }
        assert_eq!(controllers.look(second, &*counters).bytes_per_second, 64.0 * 200.0);
    }

    #[test]
    fn none_is_a_value_and_some_that_may_not_be_used_are_an_error() {
        let (tree, bench) = (machine(), Bench::default());
        assert!(Controllers::open(&devices(&tree), Nanos::ZERO, &*bench.counters()).unwrap().is_none());
        server(&tree);
        bench.refuse_on(CpuId(2));
        let error = Controllers::open(&devices(&tree), Nanos::ZERO, &*bench.counters()).unwrap_err();
        assert!(error.to_string().contains("memory controllers"), "{error}");
        assert_eq!(bench.open(), 0, "what was opened is closed again");
    }
}
