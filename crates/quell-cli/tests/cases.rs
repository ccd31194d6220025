//! Small scripts that use `quell` as its user does, each for a kind of fault that was found by hand: `cases/NAME.sh` says
//! in its second line what is right. Exit status 0: right; 77: this machine cannot try it, for the reason that it prints.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use quell_guest::Machine;
use quell_guest::testing::Script;

/// Exit status of a script that this machine cannot try.
const CANNOT: i32 = 77;

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(format!("{name}.sh"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_right(name: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("{name}: not tried: it needs root");
        return;
    }
    let mut command = Command::new("bash");
    command.arg(script(name)).env("QUELL", env!("CARGO_BIN_EXE_quell")).stdin(Stdio::null());
    let output = command.output().unwrap();
    match output.status.code() {
        Some(0) => {}
        Some(CANNOT) => println!("{name}: not tried: {}", said(&output)),
        _ => panic!("{name}: {}\n{}", output.status, said(&output)),
    }
}

macro_rules! cases {
    ($($(#[$attribute:meta])* $test:ident = $name:literal;)+) => {
        $($(#[$attribute])* #[test] fn $test() { is_right($name); })+
        const NATIVE: &[&str] = &[$($name),+];
    };
}

cases! {
    control_characters_of_other_programs_are_escaped = "control-characters";
    a_daemon_is_managed_or_put_back = "exec-daemon";
    a_command_counts_the_cpus_that_it_has = "exec-sized-at-start";
    orphans_are_reaped = "exec-zombies";
    a_histogram_in_milliseconds_is_read_as_one = "histogram-unit";
    label_sets_with_unlike_bounds_are_not_added = "histogram-unlike-buckets";
    a_process_without_its_first_thread_remains_managed = "leader-gone";
    a_services_own_realtime_threads_are_kept = "own-realtime";
    a_pod_is_found_below_kubelets_own_root = "pod-below-own-root";
    what_is_renamed_is_put_back_or_remains_managed = "renamed";
    a_refused_server_undoes_its_plan = "server-refused-undone";
    a_thread_of_a_threaded_cgroup_is_a_member_alone = "threaded-cgroup";
    a_second_command_keeps_its_class_when_the_first_ends = "two-execs";
}

/// Those that need CPUs to take away, or controllers of cgroup v2: one after the other in one guest.
const IN_A_GUEST: &[&str] = &["ancestor-cpuset", "cpu-comes-online", "limit-short-period", "limit-with-burst"];

/// Each is run with `guest` as its argument, and says its name and exit status in a line of its own.
const ONE_AFTER_THE_OTHER: &str = r#"
for case in $CASES; do
    bash "$case.sh" guest
    echo "status of $case: $?"
done
"#;

#[test]
fn those_in_a_guest_are_right() {
    let quell = env!("CARGO_BIN_EXE_quell");
    let text = format!("cd {}\n{ONE_AFTER_THE_OTHER}", folder().display());
    let script = Script::new(Machine { cpus: 4, ..Machine::default() }, Duration::from_secs(600), &text);
    let said = script.with("QUELL", quell).with("CASES", IN_A_GUEST.join(" ")).run();
    for case in IN_A_GUEST {
        assert!(said.out.contains(&format!("status of {case}: 0\n")), "{case}: {said:?}");
    }
}

fn folder() -> PathBuf {
    script("any").parent().unwrap().to_owned()
}

#[test]
fn each_script_is_run() {
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".sh")?.to_owned()))
        .filter(|name| !NATIVE.contains(&name.as_str()))
        .collect();
    files.sort();
    assert_eq!(files, IN_A_GUEST);
}
