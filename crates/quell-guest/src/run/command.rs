//! Finds the command's program and writes the script that runs it in the guest.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::Job;
use crate::Busybox;
use crate::error::{LabError, Result};
use crate::machine::Root;

/// The program's path on the host; `None` if it is one of busybox's commands and not on the host.
pub(super) fn resolve(job: &Job, busybox: &Busybox) -> Result<Option<PathBuf>> {
    let name = job.command.first().ok_or(LabError::BadOption { option: "CMD", why: "no command given".into() })?;
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found = look_up(name, &job.directory, &path);
    let is_applet = busybox.applets.iter().any(|applet| OsStr::new(applet) == name);
    if found.is_none() && !is_applet {
        let looked = if name.as_encoded_bytes().contains(&b'/') {
            "there is no such program on this machine, whose files the guest gets".to_owned()
        } else {
            format!("looked for on this machine in {} and among busybox's commands", path.to_string_lossy())
        };
        return Err(LabError::CommandNotFound { command: name.to_string_lossy().into_owned(), looked });
    }
    Ok(found)
}

fn look_up(name: &OsStr, directory: &Path, path: &OsStr) -> Option<PathBuf> {
    let runs = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(runs);
    }
    std::env::split_paths(path).map(|dir| dir.join(name)).find(runs)
}

/// The shell script that becomes the command.
pub(super) fn script(job: &Job, program: Option<&Path>, root: &Root) -> OsString {
    let mut script = OsString::from("cd ");
    script.push(quoted(job.directory.as_os_str()));
    script.push(" || exit 126\n");
    let inherited = ["HOME", "LANG", "LC_ALL", "TERM"].map(|name| (OsString::from(name), std::env::var_os(name)));
    let mut environment: Vec<_> = inherited.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    if let (Root::Host, Some(path)) = (root, std::env::var_os("PATH")) {
        let mut guest_path = path;
        guest_path.push(":/.lab/bin");
        environment.push(("PATH".into(), guest_path));
    }
    if let Root::Packed(files) = root {
        environment.push(("PATH".into(), packed_path(files, program)));
    }
    for (name, value) in environment.iter().chain(&job.environment) {
        script.push("export ");
        script.push(name);
        script.push("=");
        script.push(quoted(value));
        script.push("\n");
    }
    script.push("exec");
    let program = program.map_or(job.command[0].as_os_str(), Path::as_os_str);
    for word in std::iter::once(program).chain(job.command[1..].iter().map(OsString::as_os_str)) {
        script.push(" ");
        script.push(quoted(word));
    }
    script.push("\n");
    script
}

/// Search path of a packed guest: the folders of the packed programs, the usual ones, and busybox's.
fn packed_path(files: &[PathBuf], program: Option<&Path>) -> OsString {
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in files.iter().map(PathBuf::as_path).chain(program) {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = if file.is_dir() { Some(absolute) } else { absolute.parent().map(Path::to_owned) };
        folders.extend(
            folder.filter(|folder| {
                !folders.contains(folder) && !USUAL.split(':').any(|usual| Path::new(usual) == folder)
            }),
        );
    }
    folders.extend(USUAL.split(':').map(PathBuf::from));
    // Only a folder with a colon in its name cannot be joined.
    std::env::join_paths(&folders).unwrap_or_else(|_| USUAL.into())
}

/// The path of the guest's session.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.lab/bin";

/// The word in single quotes, as a shell reads it.
fn quoted(word: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busybox() -> Busybox {
        Busybox { program: "/bb".into(), applets: vec!["vi".into(), "sh".into()] }
    }

    #[test]
    fn words_survive_the_shell() {
        let words = ["plain", "two words", "it's", "$HOME `x` \"q\" \\", "", "new\nline"];
        let mut script = OsString::from("printf '%s|'");
        for word in words {
            script.push(" ");
            script.push(quoted(OsStr::new(word)));
        }
        let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), words.map(|word| format!("{word}|")).concat());
    }

    #[test]
    fn programs_are_found_here_or_in_busybox() {
        let shell = resolve(&Job::new(["sh", "-c", "true"]), &busybox()).unwrap();
        assert!(shell.is_some_and(|path| path.is_absolute()));
        let error = resolve(&Job::new(["no-such-command"]), &busybox()).unwrap_err();
        assert!(matches!(error, LabError::CommandNotFound { .. }));
        assert_eq!(error.exit_status(), 127);
        assert!(resolve(&Job::new(["./no-such-command"]), &busybox()).is_err());
        assert!(look_up(OsStr::new("tmp"), Path::new("/"), OsStr::new("/")).is_none(), "a directory does not run");
    }

    #[test]
    fn packed_programs_are_on_the_guests_path() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("mine"), "/usr/bin/env".into(), folder.path().to_owned()];
        let path = packed_path(&files, Some(Path::new("/opt/tool/run"))).into_string().unwrap();
        assert_eq!(path, format!("{}:/opt/tool:{USUAL}", folder.path().display()).replace("//", "/"));
    }

    #[test]
    fn the_script_runs_the_command_where_it_was_called() {
        let mut job = Job::new(["sh", "-c", "pwd; echo $WHAT"]);
        job.directory = "/usr/lib".into();
        job.environment.push(("WHAT".into(), "it's".into()));
        let script = script(&job, Some(Path::new("/bin/sh")), &Root::Packed(Vec::new()));
        let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "/usr/lib\nit's\n");
    }
}
