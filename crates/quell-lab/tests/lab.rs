//! `quell-lab boot run` as a user meets it: output, exit status, and each kind of failure with its own message and nothing left.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Marks in its environment every process that a test starts, so that it can be looked for afterwards.
const MARK: &str = "QUELL_LAB_TEST_MARK";

struct Lab {
    mark: String,
    /// Where temporary files would be.
    scratch: tempfile::TempDir,
}

impl Lab {
    fn new(test: &str) -> Self {
        Self { mark: format!("{test}-{}", std::process::id()), scratch: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
        command.args(["boot", "run"]).args(arguments);
        command.env(MARK, &self.mark).env("TMPDIR", self.scratch.path()).stdin(Stdio::null());
        command
    }

    /// Runs to the end; afterwards no process and no temporary file may be left.
    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        self.assert_nothing_left();
        output
    }

    fn assert_nothing_left(&self) {
        let begin = Instant::now();
        while !self.processes().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(10), "left: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
        let files: Vec<_> = fs::read_dir(self.scratch.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(files.is_empty(), "left: {files:?}");
    }

    /// Names of the living processes that this test started.
    fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let marked = processes.filter(|process| {
            fs::read(process.join("environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
        });
        marked.map(|process| fs::read_to_string(process.join("comm")).unwrap_or_default()).collect()
    }

    /// Waits until QEMU has started.
    fn await_qemu(&self) {
        let begin = Instant::now();
        while !self.processes().iter().any(|name| name.starts_with("qemu")) {
            assert!(begin.elapsed() < Duration::from_secs(300), "QEMU does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_fails(output: &Output, status: i32, message: &str) {
    let complaint = text(&output.stderr);
    assert!(complaint.contains(message), "{message:?} is not in: {complaint}");
    assert_eq!(output.status.code(), Some(status), "{complaint}");
}

/// What is piped in is read to its end, and a packed program is found by its name alone.
#[test]
fn output_and_status_are_the_commands_and_input_is_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    fs::write(&mine, "#!/bin/sh\necho packed\n").unwrap();
    fs::set_permissions(&mine, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = "echo out; echo err >&2; echo $WHAT; mine; cat; exit 7";
    let lab = Lab::new("status");
    let mine = mine.to_str().unwrap();
    let mut command = lab.command(&["--pack", mine, "--env", "WHAT=it's", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = "piped in\n".repeat(5000);
    let mut to = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    lab.assert_nothing_left();
    let printed = text(&output.stdout);
    assert!(printed.starts_with("out\nit's\npacked\npiped in\n"), "{printed}{}", text(&output.stderr));
    assert_eq!(printed.matches("piped in").count(), 5000);
    assert!(text(&output.stderr).ends_with("err\n"));
    assert_eq!(output.status.code(), Some(7));
}

/// As root the guest sees the host's files and cannot change them; others are asked to pack.
#[test]
fn host_files_are_seen_and_safe() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "from the host").unwrap();
    let script = format!("cat {0} && echo changed > {0} && cat {0}", file.display());
    let output = Lab::new("host").run(&["--", "sh", "-c", &script]);
    if rustix::process::geteuid().is_root() {
        assert_eq!(text(&output.stdout), "from the hostchanged\n", "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(&file).unwrap(), "from the host");
    } else {
        assert_fails(&output, 125, "--pack");
    }
}

#[test]
fn an_unknown_command_is_told_before_booting() {
    assert_fails(
        &Lab::new("unknown").run(&["--pack", "--", "no-such-command"]),
        127,
        "no-such-command: command not found",
    );
}

#[test]
fn an_unknown_kernel_is_told_with_those_that_exist() {
    let output = Lab::new("kernel").run(&["--kernel", "1.2.3", "--pack", "--", "true"]);
    assert_fails(&output, 125, "there is no kernel 1.2.3");
    assert!(text(&output.stderr).contains("it has: "));
}

#[test]
fn too_little_memory_is_told_with_what_it_takes() {
    assert_fails(&Lab::new("memory").run(&["--mem", "32M", "--pack", "--", "true"]), 125, "MiB at least");
}

#[test]
fn a_command_killed_for_want_of_memory_is_told() {
    let output = Lab::new("oom").run(&["--mem", "200M", "--pack", "--", "tail", "/dev/zero"]);
    assert_fails(&output, 137, "the guest ran out of memory and killed a process");
}

#[test]
fn a_panic_is_told_with_the_console() {
    let output = Lab::new("panic").run(&["--pack", "--", "sh", "-c", "echo c > /proc/sysrq-trigger"]);
    assert_fails(&output, 125, "the guest's kernel panicked");
    assert!(text(&output.stderr).contains("sysrq triggered crash"));
}

/// A fault of the emulator, which makes the kernel panic: as long as nothing was printed the guest boots once more.
#[test]
fn a_stale_breakpoint_boots_once_more() {
    let panic = "echo '<0>Oops: int3: 0000 [#1] SMP' > /dev/kmsg; echo c > /proc/sysrq-trigger";
    for (printed, again) in [("", 1), ("echo out; sleep 1; ", 0)] {
        let lab = Lab::new("breakpoint");
        // What is repeated here on purpose counts for nothing.
        let mut command = lab.command(&["--pack", "--", "sh", "-c", &format!("{printed}{panic}")]);
        let output = command.env_remove("QUELL_LAB_BOOTS").output().unwrap();
        assert_fails(&output, 125, "Oops: int3");
        assert_eq!(text(&output.stderr).matches("booting once more").count(), again, "{printed:?}");
    }
}

#[test]
fn a_time_out_is_told() {
    assert_fails(
        &Lab::new("timeout").run(&["--timeout", "2", "--pack", "--", "sleep", "1000"]),
        124,
        "timed out after 2 s",
    );
}

#[test]
fn without_a_network_the_fix_is_told() {
    let lab = Lab::new("network");
    let cache = tempfile::tempdir().unwrap();
    let mut command = lab.command(&["--pack", "--", "true"]);
    // The discard port has no listener.
    command.env("QUELL_LAB_CACHE", cache.path()).env("QUELL_LAB_MIRROR", "http://127.0.0.1:9/debian");
    let output = command.output().unwrap();
    assert_fails(&output, 125, "cannot download from http://127.0.0.1:9/debian");
    assert!(text(&output.stderr).contains("QUELL_LAB_MIRROR"));
    let entries: Vec<_> = fs::read_dir(cache.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(entries, ["apt"], "no half-made entry");
    lab.assert_nothing_left();
}

/// The cache lies on a file system of 1 MiB, which only this test's processes see.
#[test]
fn a_full_disk_is_told() {
    let lab = Lab::new("disk");
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!(
        "mount -t tmpfs -o size=1M full {0} && \"$0\" \"$@\"; status=$?; ls -A {0} >&2; exit $status",
        cache.path().display()
    );
    command.args([
        "--mount",
        "sh",
        "-c",
        &script,
        env!("CARGO_BIN_EXE_quell-lab"),
        "boot",
        "run",
        "--pack",
        "--",
        "true",
    ]);
    command.env(MARK, &lab.mark).env("TMPDIR", lab.scratch.path()).env("QUELL_LAB_CACHE", cache.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_fails(&output, 125, "no space left for ");
    assert!(!text(&output.stderr).contains("unfinished"), "{}", text(&output.stderr));
    lab.assert_nothing_left();
}

/// Whatever signal ends it, even one that it cannot catch, nothing is left.
#[test]
fn a_signal_takes_everything_down() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, status) in [(Signal::TERM, Some(143)), (Signal::INT, Some(130)), (Signal::KILL, None)] {
        let lab = Lab::new(&format!("signal{}", signal.as_raw()));
        let mut child: Child = lab.command(&["--pack", "--", "sleep", "1000"]).spawn().unwrap();
        lab.await_qemu();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), status);
        lab.assert_nothing_left();
    }
}

#[test]
fn a_missing_file_to_pack_is_named() {
    let missing = "/no/such/file";
    assert!(!Path::new(missing).exists());
    assert_fails(&Lab::new("pack").run(&["--pack", missing, "--", "true"]), 125, missing);
}

#[test]
fn numbers_of_cpus_that_cannot_be_are_refused_before_anything_begins() {
    for arguments in
        [["peers", "--cpus", "0"], ["peers", "--cpus", "2,65"], ["peers", "--seconds", "0"], ["shell", "--cpus", "0"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_quell-lab")).arg("boot").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_shell_reads_its_commands_from_a_pipe() {
    let lab = Lab::new("shell");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    command.args(["boot", "shell", "--pack"]).env(MARK, &lab.mark).env("TMPDIR", lab.scratch.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"cat /sys/kernel/sched_ext/state\nexit 3\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (text(&output.stdout), output.status.code()),
        ("disabled\n".into(), Some(3)),
        "{}",
        text(&output.stderr)
    );
}

/// The program quell, which a test of the workspace builds as well.
fn product() -> String {
    let file = Path::new(env!("CARGO_BIN_EXE_quell-lab")).with_file_name("quell");
    assert!(file.is_file(), "{} is not there: cargo build -p quell-cli", file.display());
    file.to_str().unwrap().to_owned()
}

/// The figure of docs/extend/claim.md.
fn figure() -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/extend/claim.md")).unwrap();
    let (_, rest) = page.split_once("$ cat small.toml\n").expect("the page shows a figure");
    rest.split_once("$ quell-lab run").unwrap().0.to_owned()
}

#[test]
fn a_figure_that_is_a_file_is_run_by_the_simulator_and_on_a_real_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("small.toml");
    fs::write(&file, figure()).unwrap();
    for (runner, words) in [("sim", &[][..]), ("lab", &["--on", "threads", "--in", "lab"])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
        command.arg("run").arg(&file).args(["--quick", "--json"]).args(words).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{runner}: {}", text(&output.stderr));
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let ours = |id: &str| {
            let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
            row["ours"].as_f64().unwrap_or_else(|| panic!("{runner}: {row}"))
        };
        // Bounds of its claims, which one seed cannot be held to.
        assert!(ours("small.tail") < 0.8, "{runner}: {rows}");
        assert!((0.7..1.3).contains(&ours("small.work")), "{runner}: {rows}");
    }
}

#[test]
fn a_scene_is_played_by_programs_under_settings_of_linux_and_under_a_policy() {
    let (quell_lab, quell) = (env!("CARGO_BIN_EXE_quell-lab"), product());
    let play = ["run", "spin", "--on", "programs", "--against", "weight,rkube-partition", "--json"];
    let short = ["--duration=500ms", "--set=warm_up=300ms", "--set=workload.server.server.arrivals.poisson=300"];
    let before = ["--cpus", "2", "--pack", "/usr/bin/memcached", &quell, "--", quell_lab];
    let output = Lab::new("programs").run(&[&before[..], &play, &short].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows: Vec<_> = found["rows"].as_array().unwrap().iter().collect();
    let names: Vec<_> =
        rows.iter().map(|row| [&row["stack"], &row["workload"]].map(|name| name.as_str().unwrap())).collect();
    assert_eq!(
        names,
        [
            ["weight", "server"],
            ["weight", "antagonist"],
            ["rkube-partition", "server"],
            ["rkube-partition", "antagonist"]
        ]
    );
    for row in rows {
        // An antagonist works when its process has begun: on a busy host that may be after the half second that is measured.
        let works = if row["workload"] == "antagonist" {
            row["pause_ns"].is_u64()
        } else {
            row["cpus"].as_f64().unwrap() > 0.0
        };
        assert!(works, "{row}");
        assert!(row["done"].as_u64().unwrap() > 0 || row["workload"] == "antagonist", "{row}");
        assert_eq!(row["late_p99_ns"].is_u64(), row["workload"] == "server", "{row}");
        assert_eq!(row["p99_ns"].is_u64(), row["workload"] == "server", "{row}");
    }
}

/// What `quell-lab paper edgeiso --real` is made of, shortened: how soon knobs act, and its programs under its policy.
#[test]
fn knobs_act_in_their_order_and_edgeiso_manages_programs() {
    let (quell_lab, figure) = (env!("CARGO_BIN_EXE_quell-lab"), "../../papers/edgeiso/real-services.toml");
    let quell = product();
    let figure = fs::canonicalize(figure).unwrap();
    let script = format!(
        "{quell} doctor --effects --json && {quell_lab} run {} --on programs --against edgeiso --json --duration=300ms \
         --set='warm_up=\"300ms\"'",
        figure.display()
    );
    let machine = ["--cpus", "4", "--lockstep=serial", "--mips", "125", "--quantum", "20us", "--settle", "1", "--pack"];
    let files = [
        &quell,
        quell_lab,
        "--pack",
        figure.to_str().unwrap(),
        "--pack",
        "/usr/bin/memcached",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let output = Lab::new("edgeiso").run(&[&machine[..], &files].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let (effects, played) = printed.split_once('\n').unwrap();
    let effects: serde_json::Value = serde_json::from_str(effects).unwrap();
    let median_ms = |turn: &str| {
        let effect = effects["effects"].as_array().unwrap().iter().find(|effect| effect["turn"] == turn).unwrap();
        let mut after: Vec<u64> = serde_json::from_value(effect["after_ns"].clone()).unwrap();
        after.sort_unstable();
        assert!(after.len() >= 10, "{effect}");
        after[after.len() / 2] as f64 / 1e6
    };
    // A thread has used up half of a period before it is stopped; what stops or moves it at once takes an interrupt.
    assert!((45.0..160.0).contains(&median_ms("quota")), "{effects}");
    assert!(["cpu-set", "freeze", "thaw"].iter().all(|turn| median_ms(turn) < 5.0), "{effects}");
    assert!(median_ms("cpu-set") < median_ms("weight"), "{effects}");
    let played: serde_json::Value = serde_json::from_str(played).unwrap();
    let rows = played["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{played}");
    assert!(rows.iter().all(|row| row["stack"] == "edgeiso" && row["pause_ns"].is_u64()), "{played}");
    assert!(rows[..2].iter().all(|row| row["done"].as_u64().unwrap() > 0), "{played}");
}
