//! Mistakes in a scenario, one each in this one, which is right.

use quell_checks::bad_inputs::{Expected, each, scene, try_it};

use super::QUELL_LAB;

const RIGHT: &str = r#"title = "two"
duration = "10ms"
warm_up = "1ms"
repetitions = 1
machine = { cores = 4 }

[kernel]
fair = "eevdf"
tick = "4ms"

[[policy]]
name = "guard"
parameters = { interval = "20ms" }

[[workload]]
name = "db"
class = "lc"
cpus = 1.0
threads = 2
weight = 100
slo = { quantile = 0.99, bound = "1ms" }
server = { arrivals = { poisson = 1000.0 }, service = { exponential = "100us" } }

[[workload]]
name = "batch"
class = "be"
threads = 2
batch = {}
"#;

/// The original text, the user's text in its place, and a part of the message. The message must name the file, with a
/// line.
pub const ROWS: &[(&str, &str, &str)] = &[
    ("[kernel]", "[kernel", "unclosed table"),
    ("title", "titel", "titel … title"),
    ("[kernel]", "[kernle]", "kernle … kernel"),
    ("threads = 2", "treads = 2", "treads … threads"),
    ("server = {", "servr = {", "servr … server"),
    ("poisson", "poison", "poison … poisson"),
    ("exponential", "exponent", "exponent … exponential"),
    ("duration = \"10ms\"\n", "", "duration"),
    ("machine = { cores = 4 }\n", "", "machine"),
    ("\"10ms\"", "\"10 moons\"", "moons … unit"),
    ("\"10ms\"", "10", "10 is not a time: add a unit"),
    ("\"20ms\"", "20", "interval = 20: a time needs a unit … 1ms to 1s"),
    ("\"20ms\"", "\"1000s\"", "out of range: give 1ms to 1s"),
    ("\"10ms\"", "\"0ms\"", "duration … at least 1us"),
    ("\"10ms\"", "\"-1ms\"", "-1ms"),
    ("\"10ms\"", "\"100000000s\"", "million seconds"),
    ("repetitions = 1", "repetitions = 0", "give 1 to 10000"),
    ("repetitions = 1", "repetitions = 100000", "give 1 to 10000"),
    ("repetitions = 1", "repetitions = \"two\"", "\"two\""),
    ("{ cores = 4 }", "\"pdp11\"", "no machine 'pdp11' … caladan"),
    ("{ cores = 4 }", "{ cores = 0 }", "1 to 1024 CPUs"),
    ("{ cores = 4 }", "{ cores = 100000 }", "1 to 1024 CPUs"),
    ("{ cores = 4 }", "{ cores = 4, treads = 2 }", "treads … threads"),
    ("{ cores = 4 }", "4", "a machine's name, or a shape"),
    ("\"eevdf\"", "\"bfs\"", "bfs … eevdf"),
    ("\"10ms\"", "10", "10 is not a time: add a unit"),
    ("\"4ms\"", "4", "4 is not a time: add a unit"),
    ("\"100us\"", "100", "100 is not a time: add a unit"),
    ("name = \"guard\"", "name = \"gaurd\"", "no policy 'gaurd' … did you mean 'guard'?"),
    ("interval = \"20ms\"", "intervall = \"20ms\"", "'intervall' … did you mean 'interval'?"),
    ("interval = \"20ms\"", "interval = 20", "interval = 20 … a unit … give 1ms to 1s"),
    ("interval = \"20ms\"", "interval = \"0s\"", "interval = \"0s\" … give 1ms to 1s"),
    ("\"4ms\"", "\"1ns\"", "tick … at least 1us"),
    ("\"lc\"", "\"critical\"", "critical … lc"),
    ("cpus = 1.0", "cpus = -1", "0 to 1024"),
    ("cpus = 1.0", "cpus = \"one\"", "one"),
    ("threads = 2", "threads = 0", "1 to 100000 threads"),
    ("threads = 2", "threads = -2", "-2"),
    ("weight = 100", "weight = 0", "1 to 10000"),
    ("weight = 100", "weight = 100000", "1 to 10000"),
    ("weight = 100", "quota = 0", "quota"),
    ("weight = 100", "cpuset = \"9\"", "0-3"),
    ("weight = 100", "cpuset = \"x\"", "x … 0-3,8"),
    ("weight = 100", "nice = [30]", "-20 to 19"),
    ("weight = 100", "partition = \"root\"", "cpuset"),
    ("weight = 100", "profile = \"nosuch\"", "no profile 'nosuch'"),
    ("weight = 100", "cache_ways = 0", "cache_ways"),
    ("weight = 100", "memory_throttle = 2.0", "0.1 to 1"),
    ("weight = 100", "copies = 0", "copies"),
    ("weight = 100", "vm = \"nosuch\"", "nosuch"),
    ("0.99", "1.5", "quantile"),
    ("1000.0", "-1.0", "-1 requests/s … above 0"),
    ("1000.0", "0.0", "0 requests/s … above 0"),
    ("1000.0", "1e6", "'db' … lower its rate"),
    ("{ poisson = 1000.0 }", "{ steps = [] }", "at least one step"),
    ("{ poisson = 1000.0 }", "{ recorded = [] }", "at least one time"),
    ("{ exponential = \"100us\" }", "{ pareto = { mean = \"1us\", shape = 0.5 } }", "1"),
    ("{ exponential = \"100us\" }", "{ empirical = [] }", "at least one"),
    ("batch = {}", "", "'batch' … exactly one of"),
    (
        "batch = {}",
        "batch = {}\nclosed = { clients = 1, think = { constant = \"1ms\" }, service = { constant = \"1ms\" } }",
        "'batch' … exactly one of",
    ),
    ("batch = {}", "periodic = { period = \"1ns\", work = { constant = \"1us\" } }", "period"),
    ("batch = {}", "parallel = { work = { constant = \"1us\" }, rounds = 0 }", "rounds"),
    ("name = \"batch\"", "name = \"db\"", "db"),
    ("name = \"batch\"", "name = \"\"", "name"),
];

#[test]
fn a_mistake_in_a_scenario_is_refused_with_its_line() {
    each(ROWS, |(from, to, says)| {
        assert!(RIGHT.contains(from), "{from}");
        let scene = scene(&[("s.toml", &RIGHT.replacen(from, to, 1))]);
        let words = ["run", "s.toml"].map(String::from);
        let says = format!("s.toml:…{says}");
        try_it(QUELL_LAB, scene.path(), &words, &Expected { status: 1, says: &says })
            .map_err(|why| format!("{from} -> {to}:{why}"))
    });
}
