//! `quell prove` where nothing else disturbs it: a server beside threads that spin, in lock-step.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// At nice 19 memcached waits whenever another thread runs; at 0 it may wait for nothing.
const EXPERIMENT: &str = r#"
nice -n 19 memcached -u root -t 1 -U 0 -l 127.0.0.1 &
sleep 1
"$QUELL" antagonist cpu --threads 4 --duration 300s > /dev/null &
antagonist=$!
"$QUELL" prove memcached --policy guard --cpus 1 --url memcached://127.0.0.1:11211 --off-share 0.5 --for 40s --json
code=$?
kill $antagonist
exit $code
"#;

/// The program quell, which a test of the workspace builds as well.
fn product() -> PathBuf {
    let file = PathBuf::from(env!("CARGO_BIN_EXE_quell-lab")).with_file_name("quell");
    assert!(file.is_file(), "{} is not there: cargo build -p quell-cli", file.display());
    file
}

/// `cargo test -p quell-lab --locked --test lab_prove -- --ignored --nocapture`
#[test]
#[ignore = "minutes: `make soak` runs it"]
fn guard_helps_a_server_beside_threads_that_spin() {
    let quell = product();
    let quell = quell.to_str().unwrap();
    let memcached = ["/usr/bin/memcached", "/usr/local/bin/memcached"].map(PathBuf::from);
    let memcached = memcached.iter().find(|path| path.exists()).expect("memcached is installed (scripts/setup)");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    command.args(["boot", "run", "--lockstep=serial", "--cpus", "2", "--mips", "250", "--quantum", "20us"]);
    command
        .args(["--timeout", "3600", "--env", &format!("QUELL={quell}"), "--pack", quell])
        .arg(memcached)
        .arg("/usr/bin/nice");
    let output = command.args(["--", "sh", "-c", EXPERIMENT]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let proved: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    println!("{}", proved["headline"]);
    assert_eq!(proved["result"]["verdict"], "helps", "{proved} {said}");
    assert_eq!((output.status.code(), &proved["measure"]), (Some(0), &"probe".into()), "{proved} {said}");
    assert!(proved["result"]["interval"][1].as_f64().unwrap() < 1.0, "{proved}");
}
