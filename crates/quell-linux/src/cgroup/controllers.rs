//! Controllers that a cgroup has, and those that it gives to its children.

use std::fs;
use std::path::{Path, PathBuf};

use quell_model::foreign;

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
/// If the kernel refuses it; or if a child would lose a quota by it.
pub fn give_controllers(group: &Path, wanted: &str) -> Result<Written, LinuxError> {
    let Some(given) = controllers_given(group)? else { return Ok(Written::Vanished) };
    let has = |names: &str, name: &str| names.split(' ').any(|other| other == name);
    let more = wanted.split(' ').filter(|name| !has(&given, name)).map(|name| format!("+{name}"));
    let less = given.split(' ').filter(|name| !has(wanted, name)).map(|name| format!("-{name}"));
    let change: Vec<String> = more.chain(less).filter(|change| change.len() > 1).collect();
    if change.is_empty() {
        return Ok(Written::Done);
    }
    if let Some(quota) = quota_below(group).filter(|_| change.iter().any(|change| change == "-cpu")) {
        let what = format!("the cpu controller keeps a quota, {}", foreign::path(&quota));
        return Err(LinuxError::unsupported(
            what,
            "it remains enabled there: write -cpu to cgroup.subtree_control afterwards",
        ));
    }
    cgroup::write_file(&group.join("cgroup.subtree_control"), &change.join(" "))
}

/// A child's quota.
fn quota_below(group: &Path) -> Option<PathBuf> {
    let children = fs::read_dir(group).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    children
        .map(|child| child.path().join("cpu.max"))
        .find(|quota| file::read(quota).ok().flatten().is_some_and(|text| !text.starts_with("max")))
}

fn sorted(names: &str) -> String {
    let mut names: Vec<&str> = names.split_whitespace().collect();
    names.sort_unstable();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_of_a_childs_quota_is_not_taken_away() {
        let group = tempfile::tempdir().unwrap();
        let given = group.path().join("cgroup.subtree_control");
        fs::write(&given, "cpu\n").unwrap();
        fs::create_dir(group.path().join("child")).unwrap();
        let quota = group.path().join("child/cpu.max");
        fs::write(&quota, "50000 100000\n").unwrap();
        let why = give_controllers(group.path(), "").unwrap_err().to_string();
        assert!(why.contains("child/cpu.max"), "{why}");
        fs::write(&quota, "max 100000\n").unwrap();
        give_controllers(group.path(), "").unwrap();
        assert_eq!(fs::read_to_string(&given).unwrap().trim(), "-cpu");
    }
}
