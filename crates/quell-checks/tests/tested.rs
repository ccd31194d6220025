//! `scripts/tested`, which `make test` runs: it names every failed test at its end, and fails as cargo does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

const FAILS: &str = r#"#!/bin/sh
echo "arguments: $*" >&2
cat <<END
     Running unittests src/lib.rs (target/debug/deps/quell_agent-0123abcd)
test run::agent::one ... ok
test run::agent::two ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored
     Running tests/kill.rs (target/debug/deps/kill-0123abcd)
   Doc-tests quell_agent
test crates/quell-agent/src/lib.rs - guardian (line 3) ... FAILED
END
cat >&2 <<END
error: 2 targets failed:
    \`-p quell-agent --lib\`
    \`-p quell-agent --test kill\`
END
exit 101
"#;

fn tested(cargo: &str, name: &str) -> Output {
    let file = env::temp_dir().join(format!("quell-tested-{name}-{}", std::process::id()));
    fs::write(&file, cargo).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tested");
    let output = Command::new(script).args(["--workspace", "--locked"]).env("CARGO", &file).output();
    fs::remove_file(&file).unwrap();
    output.unwrap()
}

#[test]
fn every_failed_test_is_named_at_the_end_and_the_status_is_cargos() {
    let output = tested(FAILS, "fails");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(101), "{text}");
    assert!(text.contains("arguments: test --no-fail-fast --workspace --locked\n"), "{text}");
    assert!(
        text.contains("\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n"),
        "what cargo says stands there: {text}"
    );
    let (_, named) = text.rsplit_once("failed:\n").expect("a summary");
    let mut named: Vec<_> = named.lines().map(str::trim).collect();
    named.sort_unstable();
    assert_eq!(
        named,
        [
            "`-p quell-agent --lib`",
            "`-p quell-agent --test kill`",
            "doc-tests of quell_agent: crates/quell-agent/src/lib.rs - guardian (line 3)",
            "quell_agent: run::agent::two",
        ]
    );
}

#[test]
fn what_passes_has_no_summary() {
    let output = tested("#!/bin/sh\necho 'test result: ok. 1 passed'\n", "passes");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text == "test result: ok. 1 passed\n", "{text}");
}

/// Each test program belongs to one of the lanes of `scripts/every-test`, whose exit status is its own.
#[test]
fn a_program_runs_in_one_lane() {
    let folder = env::temp_dir().join(format!("quell-lanes-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lane");
    for (name, its_lane) in [
        ("lab-0123abcd", "computing"),
        ("hotplug-0123", "late"),
        ("gap_services-0123", "alone"),
        ("protect-0123", "others"),
    ] {
        let program = folder.join(name);
        fs::write(&program, "#!/bin/sh\necho \"ran $*\"\nexit 7\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for lane in ["computing", "late", "alone", "others"] {
            let output = Command::new(&script).arg(lane).arg(&program).args(["some", "tests"]).output().unwrap();
            let ran = (String::from_utf8(output.stdout).unwrap(), output.status.code());
            let expected = if lane == its_lane { ("ran some tests\n", Some(7)) } else { ("", Some(0)) };
            assert_eq!((ran.0.as_str(), ran.1), expected, "{name} in the lane {lane}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
