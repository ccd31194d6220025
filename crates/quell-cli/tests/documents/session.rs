//! A shell in which a page's commands run one after the other, as its reader would type them.
//!
//! It has a directory of its own, `quell` first on its PATH and, as root, namespaces of its own: other processes, other
//! ports, another `/run`. Whatever it leaves behind ends with it.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// One command, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Other processes, other ports, another /run.
const NAMESPACES: [&str; 6] = ["--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"];
const PREPARE: &str = "ip link set lo up && mount -t tmpfs tmpfs /run &&";
/// The end of a command's output, followed by its status.
const END: char = '\u{1e}';

pub struct Session {
    shell: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    directory: TempDir,
}

/// What a command printed, on both streams, and its exit status.
pub struct Said {
    pub text: String,
    pub status: i32,
}

/// May commands run that need root? Only in namespaces of their own, so that they cannot harm this machine.
pub fn may_be_root() -> bool {
    static MAY: LazyLock<bool> = LazyLock::new(|| {
        let try_it =
            || Command::new("unshare").args(NAMESPACES).args(["sh", "-c", &format!("{PREPARE} true")]).output();
        rustix::process::geteuid().is_root() && try_it().is_ok_and(|output| output.status.success())
    });
    *MAY
}

impl Session {
    pub fn start() -> Session {
        let directory = tempfile::tempdir().unwrap();
        // Pages name scenes as one finds them in the repository.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        std::os::unix::fs::symlink(root.join("scenes"), directory.path().join("scenes")).unwrap();
        let mut command = Command::new(if may_be_root() { "unshare" } else { "bash" });
        if may_be_root() {
            command.args(NAMESPACES).args(["sh", "-c", &format!("{PREPARE} exec bash --noprofile --norc")]);
        } else {
            command.args(["--noprofile", "--norc"]);
        }
        let program = Path::new(env!("CARGO_BIN_EXE_quell")).parent().unwrap();
        let is_there = program.join("quell-lab").is_file();
        assert!(
            is_there,
            "the documents call quell-lab, too: build it with cargo build -p quell-lab, or test the workspace"
        );
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("HOME", directory.path()).env("LC_ALL", "C.UTF-8").env_remove("QUELL_LOG");
        command.current_dir(directory.path()).process_group(0).stdin(Stdio::piped());
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut shell = command.spawn().unwrap();
        // It holds the pipe's other end.
        drop(command);
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut some) {
                if sender.send(some[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let input = shell.stdin.take().unwrap();
        Session { shell, input, output, directory }
    }

    /// Runs a command. The output of one that goes on in the background is not part of anything.
    pub fn run(&mut self, command: &str) -> Result<Said, String> {
        let command = command.trim_end();
        let command = match command.strip_suffix('&') {
            Some(background) => format!("{{ {background}\n}} >/dev/null 2>&1 &"),
            None => command.to_owned(),
        };
        // In braces, so that it does not read the commands that come next.
        writeln!(self.input, "{{ {command}\n}} </dev/null; printf '{END}%d\\n' $?")
            .map_err(|error| error.to_string())?;
        let begun = Instant::now();
        let mut bytes = Vec::new();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let some = self.output.recv_timeout(left).map_err(|_| {
                format!("not done after {PATIENCE:?}, or the shell has ended: {}", String::from_utf8_lossy(&bytes))
            })?;
            bytes.extend(some);
            let text = String::from_utf8_lossy(&bytes);
            if let Some((text, status)) = text.split_once(END).filter(|(_, status)| status.ends_with('\n')) {
                let status = status.trim().parse().map_err(|_| format!("no exit status: {status:?}"))?;
                return Ok(Said { text: text.to_owned(), status });
            }
        }
    }

    /// A file that a page shows by `cat`: it is there from now on.
    pub fn put_file(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    pub fn has_file(&self, name: &str) -> bool {
        self.directory.path().join(name).exists()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
        let _ = self.shell.wait();
    }
}
