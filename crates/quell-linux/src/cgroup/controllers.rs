//! Controllers that a cgroup has, and those that it gives to its children.

use std::path::Path;

use crate::file::Written;
use crate::{LinuxError, cgroup, file};

/// The controllers that a cgroup has itself (`cgroup.controllers`), sorted and joined by spaces; None if it is gone.
///
/// # Errors
/// If the file cannot be read.
pub fn controllers_here(group: &Path) -> Result<Option<String>, LinuxError> {
    Ok(file::read(&group.join("cgroup.controllers"))?.map(|names| sorted(&names)))
}

/// The controllers that it gives to its children (`cgroup.subtree_control`), sorted and joined by spaces.
///
/// # Errors
/// If the file cannot be read.
pub fn controllers_given(group: &Path) -> Result<Option<String>, LinuxError> {
    Ok(file::read(&group.join("cgroup.subtree_control"))?.map(|names| sorted(&names)))
}

/// Makes a cgroup give exactly these controllers to its children: writes the difference.
///
/// # Errors
/// If the kernel refuses it.
pub fn give_controllers(group: &Path, wanted: &str) -> Result<Written, LinuxError> {
    let Some(given) = controllers_given(group)? else { return Ok(Written::Vanished) };
    let has = |names: &str, name: &str| names.split(' ').any(|other| other == name);
    let more = wanted.split(' ').filter(|name| !has(&given, name)).map(|name| format!("+{name}"));
    let less = given.split(' ').filter(|name| !has(wanted, name)).map(|name| format!("-{name}"));
    let change: Vec<String> = more.chain(less).filter(|change| change.len() > 1).collect();
    if change.is_empty() {
        return Ok(Written::Done);
    }
    cgroup::write_file(&group.join("cgroup.subtree_control"), &change.join(" "))
}

fn sorted(names: &str) -> String {
    let mut names: Vec<&str> = names.split_whitespace().collect();
    names.sort_unstable();
    names.join(" ")
}
