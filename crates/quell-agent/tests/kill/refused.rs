//! The system refuses the guardian what it needs while it puts back: a thread, or the machine's files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quell_agent::guardian::{News, Options, RunDir, Site, supervise as watch};
use quell_linux::LinuxError;
use quell_linux::procfs::ProcFs;
use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_linux::write::{Fate, Journal, Place, Value, Write};
use quell_model::{Nanos, SchedClass, ThreadId};

use super::driver::{Victim, may_set_classes};
use super::threads::NICE;

const ORIGIN: SchedClass = SchedClass::NORMAL;
const SET: SchedClass = SchedClass::Fair { nice: NICE, slice: None };

/// Plays both cases.
pub fn run() {
    if !may_set_classes() {
        println!("kill: refused: skipped: no permission for real-time classes (run as root)");
        return;
    }
    let own = std::env::current_exe().expect("this program has a path");
    for (what, stays) in [("threads", false), ("calls", true)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let victim = Victim { child: Command::new("sleep").arg("600").spawn().expect("start a victim") };
        let pid = victim.child.id() as i32;
        let role = ["refused", what, directory.path().to_str().expect("a plain path")];
        let output =
            Command::new(&own).args(role).env("QUELL_VICTIM", pid.to_string()).output().expect("start a guardian");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let class = |pid| Kernel::new().expect("/proc is there").class(pid).expect("the victim sleeps").class;
        if stays {
            assert!(!output.status.success() && said.contains("run `quell restore`"), "{what}: {said}");
            assert_eq!(class(pid), SET, "{what}: {said}");
            let restored = Command::new(&own).args(["restore", role[2]]).status().expect("start quell restore");
            assert!(restored.success(), "{what}: {restored}");
        } else {
            assert!(output.status.success(), "{what}: {said}");
        }
        assert_eq!(class(pid), ORIGIN, "{what}: {said}");
        println!("kill: refused {what}: put back");
    }
}

/// The guardian whose system refuses it this from when its worker has set something on.
pub fn supervise(what: &str, directory: &str) -> u8 {
    let victim = std::env::var("QUELL_VICTIM").ok().and_then(|pid| pid.parse().ok()).expect("a victim");
    let flag = Path::new(directory).join("refused");
    let claim = RunDir::at(directory.into()).and_then(|directory| directory.claim("agent")).expect("no other agent");
    let mut options = Options::new(claim);
    if what == "calls" {
        options.site = Site { calls: || Err(no_descriptor()), ..Site::default() };
    }
    let (refuses, seen) = (what == "threads", flag.clone());
    options.news = Box::new(move |news| {
        if matches!(news, News::Alive) && !seen.exists() {
            if refuses {
                refuse_threads();
            }
            fs::write(&seen, "").expect("a directory of its own");
        }
    });
    let ending = watch(options, &mut |worker, mut journal| {
        set(victim, &mut *journal);
        while !flag.exists() {
            worker.beat(Nanos::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
        0
    });
    match ending {
        Ok(ending) => ending.exit_status(),
        Err(error) => {
            println!("{error}");
            4
        }
    }
}

fn no_descriptor() -> LinuxError {
    let source = std::io::Error::from_raw_os_error(libc::EMFILE);
    LinuxError::Io { op: "open", path: "/proc".into(), source }
}

/// Sets a class as the agent does: through the journal.
fn set(victim: i32, journal: &mut dyn Journal) {
    let value = |class| Value::Class(ThreadClass { class, reset_on_fork: false });
    let stat = ProcFs::open(Path::new("/proc")).and_then(|mut proc| proc.stat(victim, victim));
    let start = stat.expect("/proc is there").expect("the victim sleeps").start;
    let place = Place::Class(ThreadId { tid: victim, start });
    let write = Write { workload: None, place, origin: value(ORIGIN), before: value(ORIGIN), after: value(SET) };
    journal.before(&write).expect("the journal can be written");
    let class = ThreadClass { class: SET, reset_on_fork: false };
    Kernel::new().expect("/proc is there").set_class(victim, &class).expect("everybody may be nicer");
    journal.done(&write, Fate::Applied).expect("the journal can be written");
}

/// This process gets no threads any more. New processes it gets.
fn refuse_threads() {
    const NUMBER: u32 = 0;
    const FIRST_ARGUMENT: u32 = 16;
    let load = |offset| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let equals = |value, yes, no| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
    let has = |bits, yes, no| (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, yes, no, bits);
    let answer = |value| (libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let mut program = [
        load(NUMBER),
        equals(libc::SYS_clone3 as u32, 4, 0),
        equals(libc::SYS_clone as u32, 0, 2),
        load(FIRST_ARGUMENT),
        has(libc::CLONE_THREAD as u32, 2, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        // The C library asks by clone then.
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        answer(libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code: code as u16, jt, jf, k });
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is there during the call; the kernel checks it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(done, "no filter: {}", std::io::Error::last_os_error());
    assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "threads are still given");
}
