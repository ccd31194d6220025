//! Commands that are at work without an agent, and do not answer: they observe before they set anything, or have nothing set now.

use quell_linux::Roots;
use quell_linux::procfs::ProcFs;
use quell_linux::target::{Process, Processes};
use quell_model::foreign;

/// Such commands of this user, in a line; None: there are none.
pub fn line() -> Option<String> {
    let processes = Processes::read(&mut ProcFs::open(&Roots::default().proc).ok()?).ok()?;
    let own = rustix::process::geteuid().as_raw();
    let (this, mut lines) = (std::process::id().cast_signed(), Vec::new());
    // A worker has its guardian's words.
    let is_first = |process: &&Process| processes.get(process.parent).is_none_or(|parent| !parent.is_quells);
    let ours = |process: &&Process| process.is_quells && process.uid == Some(own) && process.pid != this;
    for process in processes.iter().filter(ours).filter(is_first) {
        lines.extend(words(process));
    }
    (!lines.is_empty()).then(|| format!("no agent answers, but {}", lines.join("; ")))
}

/// What it is doing.
fn words(process: &Process) -> Option<String> {
    let does = match process.command.split(' ').nth(1)? {
        "protect" => "is starting: it observes and measures before it sets anything",
        "exec" => "is starting",
        "prove" => "runs, and answers only while protection is on",
        _ => return None,
    };
    let arguments: String = process.command.split(' ').skip(1).collect::<Vec<_>>().join(" ").chars().take(60).collect();
    Some(format!("`quell {}` (process {}) {does}", foreign::text(arguments.trim_end()), process.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_observes_is_said_with_its_process() {
        let process =
            |command: &str| Process { pid: 7, command: command.into(), is_quells: true, ..Process::default() };
        let said = words(&process("/usr/bin/quell protect web\u{1b}[2J --be ")).unwrap();
        assert!(said.starts_with("`quell protect web\\x1b[2J --be` (process 7) is starting"), "{said}");
        assert_eq!(words(&process("quell status")), None);
        assert_eq!(words(&process("quell")), None);
    }
}
