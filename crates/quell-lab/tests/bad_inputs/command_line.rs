//! Mistakes on the command line.

use quell_checks::bad_inputs::{Expected, each, scene, try_it};

use super::QUELL_LAB;

/// The user's input, the exit status, and a part of the message. There are the files `notes` (a text) and `s.toml` (a
/// scenario).
const ROWS: &[(&str, i32, &str)] = &[
    ("nonsense", 2, "'nonsense'"),
    ("validat two.toml", 2, "'validat' … 'validate'"),
    ("--frobnicate", 2, "'--frobnicate'"),
    ("lab", 2, "Usage: quell-lab lab"),
    ("lab nonsense", 2, "'nonsense'"),
    // play
    ("play nothere.toml", 1, "nothere.toml"),
    ("play spin --programs --policies nonsense", 1, "--policies nonsense … equal"),
    ("play periodic --programs --policies equal", 1, "cannot be played: as a program … quell-lab sim"),
    ("play spin --treatments nothere.toml", 1, "read nothere.toml"),
    // replay
    ("replay", 2, "<FILE>"),
    ("replay nothere.rec", 1, "nothere.rec … quell run --record"),
    ("replay .", 1, ".: it is no record"),
    ("replay notes", 1, "notes: it is no record"),
    ("replay /dev/null", 1, "/dev/null: it ends within its header"),
    ("replay notes --policy nonsense", 1, "no policy 'nonsense' … guard"),
    ("replay notes --layer x", 2, "--layer"),
    ("replay notes --show x", 2, "--show"),
    // sim
    ("sim", 2, "<SCENARIO>"),
    ("sim nonsense", 1, "nonsense … give a file, or one of: colocation"),
    ("sim nothere.toml", 1, "nothere.toml … give a file"),
    ("sim notes", 1, "notes"),
    ("sim .", 1, "scenario . … give a file"),
    ("sim s.toml --policies nonsense", 1, "no policy 'nonsense' … guard"),
    ("sim s.toml --policies ''", 1, "no policy '' … guard"),
    ("sim s.toml --set x", 1, "--set x: write KEY=VALUE"),
    ("sim s.toml --set nonsense=1", 1, "--set nonsense=1 … nonsense … duration"),
    ("sim s.toml --set workload.nobody.threads=1", 1, "--set workload.nobody.threads=1: there is no 'nobody'"),
    ("sim s.toml --set workload.db.threads=0", 1, "1 to 100000 threads"),
    ("sim s.toml --set duration=-1s", 1, "--set duration=-1s … -1s"),
    ("sim s.toml --set duration=5", 1, "--set duration=5: 5 is no time: add a unit"),
    ("sim s.toml --set duration=0s", 1, "duration … at least 1us"),
    ("sim s.toml --set machine=pdp11", 1, "no machine 'pdp11' … caladan"),
    ("sim s.toml --set seed=-1", 1, "--set seed=-1 … -1"),
    ("sim s.toml --sweep seed", 1, "--sweep seed: write KEY=VALUE,VALUE"),
    ("sim s.toml --sweep seed=", 1, "--sweep seed= … a value is missing"),
    ("sim s.toml --sweep seed=1 --sweep seed=2", 1, "--sweep seed … give all its values once"),
    ("sim s.toml --json --csv", 1, "--json and --csv … --csv=FILE"),
    ("sim s.toml --series", 2, "--json"),
    // reproduce
    ("reproduce nonsense", 1, "no 'nonsense' … gap, queueing"),
    ("reproduce --only=nonsense caladan", 1, "--only=nonsense … fig1"),
    ("reproduce --real=nonsense caladan", 1, "--real=nonsense … no such scene … spin"),
    ("reproduce --only=fig1 gap", 1, "--only=fig1 … caladan"),
    ("reproduce --check nowhere", 1, "read nowhere/rkube-socc21.txt"),
    ("reproduce --check nowhere gap", 2, "--check"),
    // lab
    ("lab run", 2, "<CMD>"),
    ("lab run --topology x -- true", 2, "'x' … as in 2,4,2"),
    ("lab run --topology 0,1,1 -- true", 2, "'0,1,1' … as in 2,4,2"),
    ("lab run --mem many -- true", 2, "'many' … as 512M or 2G"),
    ("lab run --lockstep=foo -- true", 2, "'foo' … parallel, serial"),
    ("lab run --cpus 0 -- true", 125, "--cpus: 0 is not between 1 and 64"),
    ("lab run --cpus 1000 -- true", 125, "--cpus: 1000 is not between 1 and 64"),
    ("lab run --cpus 2 --topology 1,2,2 -- true", 125, "1,2,2 makes 4 CPUs, not 2"),
    ("lab run --mips 0 --lockstep -- true", 125, "--mips: 0 is not between"),
    ("lab run --quantum 0 --lockstep -- true", 2, "--quantum … above zero"),
    ("lab run --quantum 20000 --lockstep -- true", 2, "--quantum … at most 4s, such as 20us"),
    ("lab run --mem 900T -- true", 125, "--mem: 943718400 MiB, and this machine has … give less"),
    ("lab run --env X -- true", 2, "'X' … NAME=VALUE"),
    ("lab run --kvm --lockstep -- true", 2, "--kvm … --lockstep"),
    ("lab peers --cpus x", 2, "--cpus"),
    ("lab peers --seeds 0", 2, "--seeds"),
    ("lab peers --only nonsense", 1, "--only nonsense … alone"),
    ("lab peers --scene nonsense", 2, "no such scene … spin"),
    ("lab peers --speed 0", 2, "--speed … 1..=100"),
];

const SCENARIO: &str =
    "duration = \"1ms\"\nmachine = { cores = 2 }\n[[workload]]\nname = \"db\"\nclass = \"be\"\nbatch = {}\n";

#[test]
fn a_mistake_on_the_command_line_is_refused_with_the_fix() {
    let files = [("notes", "what I wanted to do\n"), ("s.toml", SCENARIO)];
    each(ROWS, |&(line, status, says)| {
        let scene = scene(&files);
        try_it(QUELL_LAB, scene.path(), &shlex::split(line).unwrap(), &Expected { status, says })
    });
}
