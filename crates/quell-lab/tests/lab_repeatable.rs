//! The lab's promise: a latency experiment with real programs has the same result twice, to the nanosecond, whatever the
//! host does meanwhile.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// memcached, an antagonist with two threads a CPU, and the load generator, which reports every latency.
const EXPERIMENT: &str = r#"
memcached -u root -t 1 -U 0 -l 127.0.0.1 &
sleep 1
"$QUELL" antagonist cpu --threads 4 --duration 3s --json > /run/antagonist.json &
antagonist=$!
sleep 0.5
"$QUELL" load --rate 1200 --warmup 200ms --duration 1500ms --keys 100 --realtime=10 --json || exit 1
wait $antagonist && cat /run/antagonist.json
"#;

/// The program quell, which a test of the workspace builds as well.
fn product() -> PathBuf {
    let file = PathBuf::from(env!("CARGO_BIN_EXE_quell-lab")).with_file_name("quell");
    assert!(file.is_file(), "{} is not there: cargo build -p quell-cli", file.display());
    file
}

fn experiment() -> Output {
    let quell = product();
    let quell = quell.to_str().unwrap();
    let memcached = ["/usr/bin/memcached", "/usr/local/bin/memcached"].map(PathBuf::from);
    let memcached = memcached.iter().find(|path| path.exists()).expect("memcached is installed (scripts/setup)");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    command.args(["boot", "run", "--lockstep=serial", "--cpus", "2", "--quantum", "20us", "--timeout", "900"]);
    command.arg("--env").arg(format!("QUELL={quell}")).args(["--pack", quell]).arg(memcached);
    command.args(["--", "sh", "-c", EXPERIMENT]).output().unwrap()
}

/// Keeps every host CPU busy while `during` runs.
fn with_a_busy_host<T>(during: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let cpus = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = during();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn two_runs_are_identical_though_the_host_is_busy() {
    let first = experiment();
    let second = with_a_busy_host(experiment);
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{complaint}");
    assert!(text(&first).contains("\"answered\":") && text(&first).contains("\"blocks_per_s\":"), "{}", text(&first));
    let [first, second] = [text(&first), text(&second)];
    let differing = first.lines().zip(second.lines()).find(|(a, b)| a != b);
    assert!(differing.is_none() && first.len() == second.len(), "the runs differ: {differing:?}");
}
