//! A process by its command line, with the user and the file that distinguish it from one that imitates it.

use std::path::Path;

use quell_model::CommandLine;

use crate::LinuxError;
use crate::procfs::{FileId, ProcFs};

const USERS: &str = "/etc/passwd";

/// A selector by command line, its user looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub line: CommandLine,
    uid: Option<u32>,
}

impl Command {
    /// Looks the user up; the error is the fix.
    pub fn look_up(line: &CommandLine) -> Result<Command, String> {
        let uid = match &line.user {
            Some(name) => Some(
                user_id(name).ok_or_else(|| format!("{USERS} has no user '{name}'; name a user in it, or a uid"))?,
            ),
            None => None,
        };
        Ok(Command { line: line.clone(), uid })
    }

    /// Does it ask for a user?
    pub fn asks_for_user(&self) -> bool {
        self.uid.is_some()
    }

    /// Is a process of this user, if all of its numbers agree, of the user that is meant?
    pub fn is_users(&self, user: Option<u32>) -> bool {
        self.uid.is_none() || self.uid == user
    }

    /// Does a process execute the file that is meant? `before`: what it executed when that was found last; a file that is
    /// replaced, as by an upgrade, does not change what a process is.
    pub fn is_executed(&self, proc: &ProcFs, pid: i32, before: Option<FileId>) -> bool {
        let Some(path) = &self.line.exe else { return true };
        proc.exe(pid).is_some_and(|executes| Some(executes) == before || Some(executes) == FileId::at(path))
    }

    /// Is a process of the user that is meant, and does it execute the file? Asked before its command line is read: that is
    /// memory of the process, which may be long in coming.
    pub fn is_meant(&self, proc: &mut ProcFs, pid: i32, before: Option<FileId>) -> Result<bool, LinuxError> {
        let user = if self.asks_for_user() { proc.user(pid)? } else { None };
        Ok(self.is_users(user) && self.is_executed(proc, pid, before))
    }
}

/// The number of a user, from the users' file (passwd(5)), or the number itself.
#[must_use]
pub fn user_id(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    users(Path::new(USERS)).find_map(|(user, number)| (user == name).then_some(number))
}

/// The name of a user, or the number of one without.
#[must_use]
pub fn user_name(number: u32) -> String {
    users(Path::new(USERS)).find_map(|(user, of)| (of == number).then_some(user)).unwrap_or_else(|| number.to_string())
}

fn users(file: &Path) -> impl Iterator<Item = (String, u32)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let user = |line: &str| {
        let mut fields = line.split(':');
        Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(user).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A process 10 that executes this file, as the user with these numbers (real, effective, saved, of files).
    fn process(users: &str, exe: &Path) -> (tempfile::TempDir, ProcFs) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("10")).unwrap();
        fs::write(root.path().join("10/status"), format!("Name:\tcache\nUid:\t{users}\nGid:\t0\t0\t0\t0\n")).unwrap();
        std::os::unix::fs::symlink(exe, root.path().join("10/exe")).unwrap();
        let proc = ProcFs::open(root.path()).unwrap();
        (root, proc)
    }

    fn command(user: Option<&str>, exe: Option<&Path>) -> Command {
        let line = CommandLine { user: user.map(Into::into), exe: exe.map(Into::into), ..CommandLine::from("cache") };
        Command::look_up(&line).unwrap()
    }

    #[test]
    fn a_process_of_another_user_is_another_one_and_so_is_one_that_gains_the_users_rights() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (users, meant) in [("0\t0\t0\t0", true), ("1000\t1000\t1000\t1000", false), ("1000\t0\t0\t0", false)] {
            let (_root, mut proc) = process(users, file.path());
            assert_eq!(command(Some("root"), None).is_meant(&mut proc, 10, None).unwrap(), meant, "{users}");
            assert!(command(None, None).is_meant(&mut proc, 10, None).unwrap());
            assert!(!command(Some("0"), None).is_meant(&mut proc, 11, None).unwrap(), "it vanished");
        }
    }

    #[test]
    fn a_process_is_known_by_its_file_and_not_by_the_files_name() {
        let directory = tempfile::tempdir().unwrap();
        let (meant, other) = (directory.path().join("cache"), directory.path().join("other"));
        fs::write(&meant, "").unwrap();
        fs::write(&other, "").unwrap();
        let by_file = command(None, Some(&meant));
        let (_root, mut proc) = process("0\t0\t0\t0", &meant);
        assert!(by_file.is_meant(&mut proc, 10, None).unwrap());
        let (_root, mut proc) = process("0\t0\t0\t0", &other);
        assert!(!by_file.is_meant(&mut proc, 10, None).unwrap());
        assert!(by_file.is_meant(&mut proc, 10, FileId::at(&other)).unwrap(), "as it was before the file was replaced");
    }

    #[test]
    fn users_are_named_or_numbered() {
        assert_eq!((user_id("root"), user_id("65533"), user_id("no-such-user")), (Some(0), Some(65533), None));
        assert_eq!((user_name(0).as_str(), user_name(4_000_000_000).as_str()), ("root", "4000000000"));
        let unknown = CommandLine { user: Some("no-such-user".into()), ..CommandLine::from("cache") };
        assert!(Command::look_up(&unknown).unwrap_err().contains("has no user 'no-such-user'"));
    }
}
