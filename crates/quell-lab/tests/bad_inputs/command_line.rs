//! Mistakes on the command line.

use quell_checks::bad_inputs::{Expected, each, scene, try_it};

use super::QUELL_LAB;

/// The user's input, the exit status, and a part of the message. There are the files `notes` (a text) and `s.toml` (a
/// scenario).
const ROWS: &[(&str, i32, &str)] = &[
    ("nonsense", 2, "'nonsense'"),
    ("validat two.toml", 2, "'validat' … 'validate'"),
    ("--frobnicate", 2, "'--frobnicate'"),
    ("boot", 2, "Usage: quell-lab boot"),
    ("boot nonsense", 2, "'nonsense'"),
    // play
    ("run nothere.toml --on threads", 1, "nothere.toml"),
    ("run spin --on programs --against nonsense", 1, "nonsense … equal"),
    ("run periodic --on programs --against equal", 1, "cannot be played: as a program … quell-lab run"),
    ("run spin --on threads --treatments nothere.toml", 1, "read nothere.toml"),
    // replay
    ("replay", 2, "<FILE>"),
    ("replay nothere.rec", 1, "nothere.rec … quell run --record"),
    ("replay .", 1, ".: it is not a Quell record"),
    ("replay notes", 1, "notes: it is not a Quell record"),
    ("replay /dev/null", 1, "/dev/null: it ends within its header"),
    ("replay notes --policy nonsense", 1, "no policy 'nonsense' … guard"),
    ("replay notes --layer x", 2, "--layer"),
    ("replay notes --show x", 2, "--show"),
    // sim
    ("run", 2, "<SCENE>"),
    ("run nonsense", 1, "nonsense … give a file, or one of: colocation"),
    ("run nothere.toml", 1, "nothere.toml … give a file"),
    ("run notes", 1, "notes"),
    ("run .", 1, "scenario . … give a file"),
    ("run s.toml --against nonsense", 1, "no policy 'nonsense' … guard"),
    ("run s.toml --against ''", 1, "no policy '' … guard"),
    ("run s.toml --set x", 1, "--set x: write KEY=VALUE"),
    ("run s.toml --set nonsense=1", 1, "--set nonsense=1 … nonsense … duration"),
    ("run s.toml --set workload.nothere.threads=1", 1, "--set workload.nothere.threads=1: there is no 'nothere'"),
    ("run s.toml --set workload.db.threads=0", 1, "1 to 100000 threads"),
    ("run s.toml --set duration=-1s", 1, "--set duration=-1s … -1s"),
    ("run s.toml --set duration=5", 1, "--set duration=5: 5 is not a time: add a unit"),
    ("run s.toml --set duration=0s", 1, "duration … at least 1us"),
    ("run s.toml --set machine=pdp11", 1, "no machine 'pdp11' … caladan"),
    ("run s.toml --set seed=-1", 1, "--set seed=-1 … -1"),
    ("run s.toml --sweep seed", 1, "--sweep seed: write KEY=VALUE,VALUE"),
    ("run s.toml --sweep seed=", 1, "--sweep seed= … a value is missing"),
    ("run s.toml --sweep seed=1 --sweep seed=2", 1, "--sweep seed … give all its values once"),
    ("run s.toml --json --csv", 2, "--json and --csv … --csv=FILE"),
    ("run s.toml --series", 2, "--json"),
    // reproduce
    ("paper nonsense", 1, "no 'nonsense' … gap, queueing"),
    ("paper --only=nonsense caladan", 1, "--only=nonsense … fig1"),
    ("paper --real=nonsense caladan", 1, "--real=nonsense … no such scene … spin"),
    ("paper --only=fig1 gap", 1, "--only=fig1 … caladan"),
    ("paper --check nowhere", 1, "read nowhere/rkube-socc21.txt"),
    ("paper --check nowhere gap", 2, "--check"),
    // cluster
    ("cluster", 2, "Usage: quell-lab cluster"),
    ("cluster run", 2, "<SCENARIO>"),
    ("cluster run nonsense", 1, "nonsense"),
    ("cluster run nothere.toml", 1, "reading nothere.toml"),
    ("cluster run notes/x", 1, "reading notes/x"),
    ("cluster run four-hosts --against nonsense", 1, "no cluster policy 'nonsense'; there are: sdc-global"),
    ("cluster run four-hosts --grain fine", 2, "'fine' … coarse, exact"),
    ("cluster why four-hosts web", 2, "'web' … <WORKLOAD>"),
    ("cluster live four-hosts --speed 0", 2, "--speed 0: give a number above 0"),
    ("cluster replay four-hosts notes", 1, "notes is not a record"),
    // lab
    ("boot run", 2, "<CMD>"),
    ("boot run --topology x -- true", 2, "'x' … as in 2,4,2"),
    ("boot run --topology 0,1,1 -- true", 2, "'0,1,1' … as in 2,4,2"),
    ("boot run --mem many -- true", 2, "'many' … as 512M or 2G"),
    ("boot run --lockstep=foo -- true", 2, "'foo' … parallel, serial"),
    ("boot run --cpus 0 -- true", 125, "--cpus: 0 is not between 1 and 64"),
    ("boot run --cpus 1000 -- true", 125, "--cpus: 1000 is not between 1 and 64"),
    ("boot run --cpus 2 --topology 1,2,2 -- true", 125, "1,2,2 makes 4 CPUs, not 2"),
    ("boot run --mips 0 --lockstep -- true", 125, "--mips: 0 is not between"),
    ("boot run --quantum 0 --lockstep -- true", 2, "--quantum … above zero"),
    ("boot run --quantum 20000 --lockstep -- true", 2, "--quantum … at most 4s, such as 20us"),
    ("boot run --mem 900T -- true", 125, "--mem: 943718400 MiB, and this machine has … give less"),
    ("boot run --env X -- true", 2, "'X' … NAME=VALUE"),
    ("boot run --kvm --lockstep -- true", 2, "--kvm … --lockstep"),
    ("run spin --on programs --in lab --cpus x", 2, "--cpus"),
    ("run spin --on programs --in lab --seeds 0", 2, "--seeds"),
    ("run spin --on programs --in lab --against nonsense", 1, "--against nonsense … alone"),
    ("run nonsense --on programs --in lab", 1, "no scene of programs 'nonsense' … spin"),
    ("run spin --in lab", 2, "--in lab … add --on threads"),
    ("run s.toml --on threads --sweep seed=1,2", 2, "--sweep: it applies only to scenarios on sim"),
    ("run s.toml --cpus 2", 2, "--cpus: it applies only to programs in the lab"),
    ("run s.toml --kernel 6.18.15", 2, "--kernel … add --in lab"),
    ("run spin --on programs --in lab --speed 0", 2, "--speed … 1..=100"),
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
