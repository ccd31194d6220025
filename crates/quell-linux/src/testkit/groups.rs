//! resctrl on a machine made of plain files, which obeys the kernel's rules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::resctrl::GroupCalls;

/// Its changes: masks of one run with enough bits, as many groups as there are, bandwidth rounded up, `last_cmd_status`,
/// threads that fall back to the root.
#[derive(Clone, Debug)]
pub struct FakeGroups {
    root: PathBuf,
    /// Calls until one fails; 0: none does.
    fails_in: Arc<AtomicU32>,
}

/// What a machine has.
#[derive(Clone, Copy, Debug)]
pub struct FakeResctrl {
    /// Ways; 0: the cache cannot be divided.
    pub ways: u32,
    /// The least number of bits of a mask.
    pub least: u32,
    /// Are code and data apart?
    pub cdp: bool,
    /// May a mask have gaps?
    pub sparse: bool,
    /// Least, most and step of the throttle; None: there is none.
    pub throttle: Option<(u32, u32, u32)>,
    /// Control groups, the root's included.
    pub groups: u32,
    /// The caches' ids.
    pub ids: &'static [u32],
}

/// Replaces a file at once, as the kernel does: a program that is killed meanwhile leaves the old text.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, text)?;
    fs::rename(new, path)
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl FakeGroups {
    /// Those of the resctrl that a tree has at this path; none fails.
    #[must_use]
    pub fn at(root: PathBuf) -> FakeGroups {
        FakeGroups::new(root, Arc::default())
    }

    pub(super) fn new(root: PathBuf, fails_in: Arc<AtomicU32>) -> FakeGroups {
        FakeGroups { root, fails_in }
    }

    fn count(&self) -> io::Result<()> {
        let left = self.fails_in.load(Ordering::SeqCst);
        if left > 0 {
            self.fails_in.store(left - 1, Ordering::SeqCst);
            if left == 1 {
                return self.refuse(libc::EIO, "injected");
            }
        }
        self.say("ok")
    }

    fn say(&self, status: &str) -> io::Result<()> {
        put(&self.root.join("info/last_cmd_status"), &format!("{status}\n"))
    }

    fn refuse<T>(&self, code: i32, status: &str) -> io::Result<T> {
        self.say(status)?;
        Err(error(code))
    }

    fn text(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default().trim().to_owned()
    }

    fn number(&self, path: impl AsRef<Path>) -> u32 {
        self.text(path).parse().unwrap_or(0)
    }

    /// The control groups but the root.
    #[must_use]
    pub fn groups(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let is_group = |path: &PathBuf| path.join("schemata").is_file();
        entries.map(|entry| entry.path()).filter(is_group).collect()
    }

    fn most_groups(&self) -> u32 {
        let counts = ["L3", "L3CODE", "MB"].map(|name| self.text(format!("info/{name}/num_closids")).parse().ok());
        counts.into_iter().flatten().min().unwrap_or(0)
    }

    /// A new group's lines: those of the domains that are there.
    fn defaults(&self) -> String {
        let there = domains(&self.text("schemata"));
        keep(&self.text("info/default"), |id| there.contains(&id))
    }

    /// A thread has ended.
    pub(super) fn forget(&self, tid: i32) {
        self.take_out(tid).expect("change the groups' threads");
    }

    /// These domains are there, no others; those that are new have their defaults.
    pub(super) fn keep_domains(&self, ids: &[u32]) {
        let default = self.text("info/default");
        for group in self.groups().into_iter().chain([self.root.clone()]) {
            let text = fs::read_to_string(group.join("schemata")).expect("read a group's lines");
            let had = domains(&text);
            let lines = default.lines().map(|line| {
                let (name, _) = line.split_once(':').unwrap_or((line, ""));
                let values = ids.iter().map(|&id| {
                    let from = if had.contains(&id) { text.as_str() } else { default.as_str() };
                    format!("{id}={}", crate::resctrl::value_of(from, name.trim(), id).unwrap_or_default())
                });
                format!("{name}:{}", values.collect::<Vec<_>>().join(";"))
            });
            put(&group.join("schemata"), &lines.collect::<Vec<_>>().join("\n")).expect("write a group's lines");
        }
    }

    fn take_out(&self, tid: i32) -> io::Result<()> {
        for group in self.groups().into_iter().chain([self.root.clone()]) {
            let text = fs::read_to_string(group.join("tasks"))?;
            let left: Vec<&str> = text.lines().filter(|line| line.trim() != tid.to_string()).collect();
            if left.len() < text.lines().count() {
                put(&group.join("tasks"), &left.join("\n"))?;
            }
        }
        Ok(())
    }

    /// A value as the kernel makes it.
    fn value(&self, resource: &str, value: &str) -> Result<String, &'static str> {
        let info = format!("info/{resource}");
        if resource == "MB" {
            let wanted: u32 = value.parse().map_err(|_| "Non-decimal digit in MB")?;
            let (least, step) =
                (self.number(format!("{info}/min_bandwidth")), self.number(format!("{info}/bandwidth_gran")));
            let most = self.number(format!("{info}/most"));
            if wanted < least || wanted > most {
                return Err("MB value out of range");
            }
            return Ok((wanted.div_ceil(step.max(1)) * step.max(1)).min(most).to_string());
        }
        let mask = u32::from_str_radix(value, 16).map_err(|_| "Non-hex character in the mask")?;
        let all = u32::from_str_radix(&self.text(format!("{info}/cbm_mask")), 16).unwrap_or(0);
        let run = mask >> mask.trailing_zeros().min(31);
        if mask == 0 || mask & !all != 0 {
            return Err("Mask out of range");
        }
        if mask.count_ones() < self.number(format!("{info}/min_cbm_bits")) {
            return Err("Need at least that many bits in the mask");
        }
        if self.number(format!("{info}/sparse_masks")) == 0 && u64::from(run) & (u64::from(run) + 1) != 0 {
            return Err("The mask has non-consecutive 1-bits");
        }
        Ok(format!("{mask:x}"))
    }
}

/// The domains in a text of `schemata`.
fn domains(text: &str) -> Vec<u32> {
    let values = text.lines().next().and_then(|line| line.split_once(':')).map_or("", |(_, values)| values);
    values.split(';').filter_map(|part| part.split_once('=')?.0.trim().parse().ok()).collect()
}

/// A text of `schemata` with some of its domains.
fn keep(text: &str, is_there: impl Fn(u32) -> bool) -> String {
    let line = |line: &str| {
        let (name, values) = line.split_once(':').unwrap_or((line, ""));
        let is_kept = |part: &&str| part.split_once('=').is_some_and(|(id, _)| id.trim().parse().is_ok_and(&is_there));
        format!("{name}:{}", values.split(';').filter(is_kept).collect::<Vec<_>>().join(";"))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

impl GroupCalls for FakeGroups {
    fn make(&self, group: &Path) -> io::Result<()> {
        self.count()?;
        if group.exists() {
            return Err(error(libc::EEXIST));
        }
        if self.groups().len() as u32 + 1 >= self.most_groups() {
            return self.refuse(libc::ENOSPC, "Out of CLOSIDs");
        }
        let new = self.root.join(format!("info/new.{}", std::process::id()));
        let _ = fs::remove_dir_all(&new);
        fs::create_dir(&new)?;
        fs::write(new.join("tasks"), "")?;
        fs::write(new.join("schemata"), self.defaults())?;
        fs::rename(new, group)
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        self.count()?;
        if !group.join("schemata").is_file() {
            return Err(error(libc::ENOENT));
        }
        let text = fs::read_to_string(group.join("tasks"))?;
        let own: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        own.into_iter().try_for_each(|tid| self.take_out(tid))?;
        // At once, and then at leisure.
        let old = self.root.join(format!("info/old.{}", std::process::id()));
        let _ = fs::remove_dir_all(&old);
        fs::rename(group, &old)?;
        fs::remove_dir_all(old)
    }

    fn set_line(&self, group: &Path, line: &str) -> io::Result<()> {
        self.count()?;
        let (resource, rest) = line.split_once(':').ok_or_else(|| error(libc::EINVAL))?;
        let (domain, value) = rest.split_once('=').ok_or_else(|| error(libc::EINVAL))?;
        let text = fs::read_to_string(group.join("schemata"))?;
        let value = match self.value(resource.trim(), value) {
            Ok(value) => value,
            Err(why) => return self.refuse(libc::EINVAL, why),
        };
        let mut found = false;
        let lines: Vec<String> = text
            .lines()
            .map(|known| {
                let Some((name, domains)) = known.split_once(':').filter(|(name, _)| name.trim() == resource) else {
                    return known.to_owned();
                };
                let each = domains.split(';').map(|part| match part.split_once('=') {
                    Some((number, _)) if number.trim() == domain => {
                        found = true;
                        format!("{number}={value}")
                    }
                    _ => part.to_owned(),
                });
                format!("{name}:{}", each.collect::<Vec<_>>().join(";"))
            })
            .collect();
        if !found {
            return self.refuse(libc::EINVAL, "Unknown or unsupported resource or domain");
        }
        put(&group.join("schemata"), &lines.join("\n"))
    }

    fn join(&self, group: &Path, tid: i32) -> io::Result<()> {
        self.count()?;
        if !group.join("tasks").is_file() {
            return Err(error(libc::ENOENT));
        }
        self.take_out(tid)?;
        let text = fs::read_to_string(group.join("tasks"))?;
        put(&group.join("tasks"), &format!("{text}\n{tid}\n"))
    }
}
