//! What a kept process is found by after it was started again: a command line that means it and nothing else.

use anyhow::{Result, bail};
use quell_linux::cgroup::line_contains;
use quell_linux::procfs::ProcFs;
use quell_linux::target::{Process, Processes};
use quell_linux::{Roots, user_name};
use quell_model::foreign;

use super::keep::quoted;
use super::target::{Program, Subject};

/// Programs whose name says nothing of what they run; with what follows the name, such as `python3.12`.
const INTERPRETERS: [&str; 20] = [
    "python", "pypy", "perl", "ruby", "node", "deno", "bun", "java", "php", "lua", "mono", "dotnet", "beam", "guile",
    "tclsh", "sh", "bash", "dash", "zsh", "busybox",
];

/// The entry of `match`. A process's number is another one's after a restart: what remains is its command line with its user. Not
/// its file: an agent that runs may have given up the right to see that.
///
/// # Errors
/// If no command line means it alone.
pub fn of_program(subject: &Subject) -> Result<String> {
    let Program { uid, .. } = &subject.program;
    let Some(uid) = uid.filter(|_| subject.found.len() == 1) else {
        bail!("nothing is written: --keep takes one target, of one user; name a unit of systemd, or one process");
    };
    let processes = Processes::read(&mut ProcFs::open(&Roots::default().proc)?)?;
    let own: Vec<i32> = processes.ancestors(std::process::id().cast_signed()).map(|process| process.pid).collect();
    let roots: Vec<i32> = subject.roots().map(|root| root.tid).collect();
    let its = processes.with_descendants(&roots);
    let others = processes.iter().filter(|process| {
        process.uid == Some(uid)
            && !process.is_kernels
            && !process.is_quells
            && !own.contains(&process.pid)
            && !its.contains(&process.pid)
    });
    let others: Vec<&Process> = others.collect();
    match meaning(&subject.program, &others) {
        Ok(command) => Ok(format!("{{ command = {}, user = {} }}", quoted(command), quoted(&user_name(uid)))),
        Err(Some(other)) => bail!(
            "nothing is written: the command line of {} is in that of process {other}, too, and both would be kept; run it as a unit of \
             systemd, and keep that: quell protect UNIT --keep",
            subject.name
        ),
        Err(None) => bail!(
            "nothing is written: {} has no command line that it could be found by; run it as a unit of systemd, and keep that: \
             quell protect UNIT --keep",
            foreign::text(&subject.name)
        ),
    }
}

/// The shortest text that means this program, and none of the others; else one of those that it would mean, too.
fn meaning<'a>(program: &'a Program, others: &[&Process]) -> Result<&'a str, Option<i32>> {
    let by_name = (!is_interpreter(&program.name)).then_some(program.command.as_str());
    let is_its = |text: &&str| !text.is_empty() && line_contains(program.line.as_bytes(), text);
    // What is no text cannot be found again.
    let whole = Some(program.line.trim_end()).filter(|line| !line.contains('\u{fffd}'));
    let mut also = None;
    for text in [by_name, whole].into_iter().flatten().filter(is_its) {
        match others.iter().find(|other| line_contains(other.command.as_bytes(), text)) {
            None => return Ok(text),
            Some(other) => also = Some(other.pid),
        }
    }
    Err(also)
}

fn is_interpreter(name: &str) -> bool {
    let is_version = |rest: &str| rest.chars().all(|letter| letter.is_ascii_digit() || ".-".contains(letter));
    INTERPRETERS.iter().any(|known| name.strip_prefix(known).is_some_and(is_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, command: &str, line: &str) -> Program {
        Program { name: name.into(), command: command.into(), line: line.into(), uid: Some(0) }
    }

    fn process(pid: i32, command: &str) -> Process {
        Process { pid, command: command.into(), ..Process::default() }
    }

    #[test]
    fn an_interpreter_is_kept_by_its_whole_command_line() {
        let python = program("python3.12", "/usr/bin/python3.12", "/usr/bin/python3.12 -m server --port 80");
        assert_eq!(meaning(&python, &[]), Ok("/usr/bin/python3.12 -m server --port 80"));
        let nginx = program("nginx", "/usr/sbin/nginx", "nginx: master process /usr/sbin/nginx");
        assert_eq!(meaning(&nginx, &[]), Ok("/usr/sbin/nginx"));
        assert!(["sh", "node", "java", "python3"].iter().all(|name| is_interpreter(name)));
        assert!(["shell-server", "nodejs-exporter", "javad", "nginx"].iter().all(|name| !is_interpreter(name)));
    }

    #[test]
    fn what_would_mean_another_too_is_the_whole_line_or_refused() {
        let server = program("server", "/opt/server", "/opt/server --port 80");
        let other = process(7, "/opt/server --port 81");
        assert_eq!(meaning(&server, &[&other]), Ok("/opt/server --port 80"));
        let longer = process(8, "/opt/server --port 8080");
        assert_eq!(meaning(&server, &[&other, &longer]), Err(Some(8)));
        assert_eq!(meaning(&program("sh", "sh", ""), &[]), Err(None));
        assert_eq!(meaning(&program("sh", "sh", "sh \u{fffd}"), &[]), Err(None));
    }
}
