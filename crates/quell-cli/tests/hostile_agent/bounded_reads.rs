//! A command line of a gigabyte costs nothing: it is an ordinary user's to claim.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::scene::{CRITICAL, Ours, STRANGER, Scene, is_root, until};

/// Calls a gigabyte of its memory its command line, which holds a word; says whether the kernel allowed it.
const CLAIM: &str = r#"
import ctypes, mmap, struct, sys, time
size = 1 << 30
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:len(sys.argv[1])] = sys.argv[1].encode()
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
stat = open("/proc/self/stat").read().rsplit(") ", 1)[1].split()
number = lambda field: int(stat[field - 3])
brk = ctypes.CDLL(None).sbrk
brk.restype = ctypes.c_void_p
layout = [number(26), number(27), number(45), number(46), number(47), brk(0), number(28), at, at + size, number(50), number(51)]
claim = ctypes.create_string_buffer(struct.pack("11QQII", *layout, 0, 0, 0xffffffff))
libc = ctypes.CDLL(None, use_errno=True)
result = libc.prctl(35, 14, ctypes.byref(claim), ctypes.c_ulong(len(claim) - 1), 0)
print("refused %d" % ctypes.get_errno() if result else "claimed", flush=True)
time.sleep(60)
"#;

/// Resident memory of a process at its largest, KiB.
fn peak_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// 2 GB resident, and a worker that hung, before.
#[test]
fn a_command_line_of_a_gigabyte_is_not_read() {
    const MOST_KIB: u64 = 40 * 1024;
    if !is_root() {
        return;
    }
    let scene = Scene::new("gigabyte");
    scene.configure("guard", &[("web", CRITICAL)]);
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", CLAIM, &scene.word("web")]).uid(STRANGER).gid(STRANGER).process_group(0);
    let Ok(mut claimant) = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else {
        eprintln!("not tested here: there is no python3");
        return;
    };
    let mut said = String::new();
    BufReader::new(claimant.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let claimant = Ours(claimant);
    let mut line = Vec::new();
    let file = std::fs::File::open(format!("/proc/{}/cmdline", claimant.pid())).unwrap();
    file.take(1 << 20).read_to_end(&mut line).unwrap();
    let is_long = line.len() == 1 << 20;
    if said.trim() == "claimed" {
        assert!(is_long, "{} bytes", line.len());
    } else {
        eprintln!("the kernel refuses a command line elsewhere in memory: {}", said.trim());
        assert!(said.starts_with("refused") && !is_long, "{said}");
    }
    let server = Ours::sleeper(&scene.word("web"));
    let agent = scene.run(&[]);
    until("the server is protected", || server.policy() == 1);
    // Command lines are read again each second.
    let late = Ours::sleeper(&scene.word("web"));
    until("what comes later is protected", || late.policy() == 1);
    let worker = agent.child().unwrap();
    let peak = peak_kib(worker);
    println!("beside a command line of a gigabyte ({}): {peak} KiB", said.trim());
    assert!(peak <= MOST_KIB, "{peak} KiB");
    assert_eq!(claimant.policy(), 0, "it is another user's");
}
