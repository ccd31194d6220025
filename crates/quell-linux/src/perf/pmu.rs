//! A PMU in sysfs: its number, its CPUs, its events' names and their encoding
//! (Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format).

use std::path::{Path, PathBuf};

use quell_model::CpuSet;

use super::counter::Event;
use crate::{LinuxError, file};

/// A cache line, which a command of a memory controller moves.
pub(crate) const LINE_BYTES: f64 = 64.0;

/// A PMU that is no CPU's own.
#[derive(Debug)]
pub(crate) struct Pmu {
    directory: PathBuf,
    kind: u32,
    /// One for each unit that it counts on.
    pub cpus: CpuSet,
}

impl Pmu {
    /// Those in `devices` with such names, in the order of their names. One that does not report its number or its CPUs
    /// is left out.
    pub fn all(devices: &Path, is_one: impl Fn(&str) -> bool) -> Result<Vec<Pmu>, LinuxError> {
        let mut found = Vec::new();
        for name in file::names(devices)?.iter().filter(|name| is_one(name)) {
            let directory = devices.join(name);
            let kind = file::parse(&directory.join("type"), "a number")?;
            let cpus = file::parse::<CpuSet>(&directory.join("cpumask"), "a CPU list")?;
            if let (Some(kind), Some(cpus)) = (kind, cpus) {
                found.push(Pmu { directory, kind, cpus });
            }
        }
        Ok(found)
    }

    /// The names of its events.
    pub fn events(&self) -> Result<Vec<String>, LinuxError> {
        let mut names = file::names(&self.directory.join("events"))?;
        names.retain(|name| !name.contains('.'));
        Ok(names)
    }

    /// An event by its name.
    pub fn event(&self, name: &str) -> Result<Option<Event>, LinuxError> {
        match file::read(&self.directory.join("events").join(name))? {
            Some(terms) => self.encode(&terms).map(Some),
            None => Ok(None),
        }
    }

    /// The bytes of one count of an event: a cache line unless the event says otherwise.
    pub fn bytes(&self, name: &str) -> Result<f64, LinuxError> {
        let events = self.directory.join("events");
        let Some(scale) = file::parse::<f64>(&events.join(format!("{name}.scale")), "a number")? else {
            return Ok(LINE_BYTES);
        };
        let path = events.join(format!("{name}.unit"));
        let unit = file::read(&path)?.unwrap_or_default();
        let bytes = match unit.as_str() {
            "" | "B" | "Bytes" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            _ => return Err(LinuxError::parse(path, &unit, "a unit of bytes")),
        };
        Ok(scale * bytes)
    }

    /// An event by its terms: `event=0x04,umask=0x03`. The file `format/TERM` has each term's bits; a term without a
    /// value is 1.
    pub fn encode(&self, terms: &str) -> Result<Event, LinuxError> {
        let mut event = Event { kind: self.kind, config: [0; 3] };
        for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let path = self.directory.join("format").join(name);
            let wrong = || LinuxError::parse(&self.directory, terms, "terms with numbers");
            let value = number(value).ok_or_else(wrong)?;
            let format = file::read(&path)?.ok_or_else(wrong)?;
            place(&mut event.config, &format, value)
                .ok_or_else(|| LinuxError::parse(&path, &format, "a place such as config:0-7"))?;
        }
        Ok(event)
    }
}

/// Puts a value where the format says: `config1:0-7,32`, from the lowest bit on.
fn place(config: &mut [u64; 3], format: &str, value: u64) -> Option<()> {
    let (word, ranges) = format.split_once(':')?;
    let word = match word {
        "config" => &mut config[0],
        "config1" => &mut config[1],
        "config2" => &mut config[2],
        _ => return None,
    };
    let mut left = value;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        for bit in (first..=last).take_while(|&bit| bit < u64::BITS) {
            *word |= (left & 1) << bit;
            left >>= 1;
        }
    }
    Some(())
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_where_the_format_says() {
        let mut config = [0; 3];
        place(&mut config, "config:0-7", 0x04).unwrap();
        place(&mut config, "config:8-15", 0xcf).unwrap();
        place(&mut config, "config1:0-3,32-35", 0xab).unwrap();
        place(&mut config, "config2:63", 1).unwrap();
        assert_eq!(config, [0xcf04, 0xa_0000_000b, 1 << 63]);
        assert_eq!(place(&mut config, "elsewhere:0-7", 1), None);
        assert_eq!(place(&mut config, "config:a-b", 1), None);
    }

    #[test]
    fn numbers_are_hexadecimal_or_decimal() {
        assert_eq!((number("0xff"), number("255"), number("ff")), (Some(255), Some(255), None));
    }
}
