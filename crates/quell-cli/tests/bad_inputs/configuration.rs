//! Mistakes in a configuration, one each in this one, which is right.

use quell_checks::bad_inputs::{Expected, each, scene, try_it};

use super::QUELL;

const RIGHT: &str = r#"[machine]
scheduler = "kernel"
solo_runs.longest = "2s"
solo_runs.duty_per_mille = 50

[agent]
min_interval = "100us"
poll = "adaptive"
realtime = true
watchdog_timeout = "5s"

[api]
socket = "api.sock"

[metrics]
listen = "127.0.0.1:9464"

[[policy]]
name = "guard"
workloads = ["web", "batch"]
parameters = { interval = "20ms", run_budget = "50ms", priority = 1 }

[[workload]]
name = "web"
class = "lc"
cpus = 1
limit = 2
reservation = "standard"
slo = { quantile = 0.99, bound = "1ms" }
match = [{ command = "a service that is not there", user = "0" }]

[[workload]]
name = "batch"
class = "be"
match = [{ cgroup = "not/there" }]
"#;

/// The original text, the user's text in its place, and a part of the message. The message must name its line.
pub const ROWS: &[(&str, &str, &str)] = &[
    // Not TOML.
    ("[machine]", "[machine", "unclosed table"),
    ("cpus = 1", "cpus = ", "string values must be quoted"),
    ("cpus = 1", "cpus 1", "key with no value, expected"),
    ("\"lc\"", "\"lc", "invalid basic string"),
    ("\"lc\"", "lc", "string values must be quoted"),
    ("limit = 2", "cpus = 2", "duplicate key"),
    ("[metrics]", "[api]", "duplicate key"),
    // Keys.
    ("scheduler", "shceduler", "'shceduler' … scheduler"),
    ("[agent]", "[agnet]", "'agnet' … agent"),
    ("[[policy]]", "[[polcy]]", "'polcy' … policy"),
    ("cpus = 1", "cpu = 1", "'cpu' … cpus"),
    ("slo =", "SLO =", "'SLO' … slo"),
    ("min_interval =", "min_intervall =", "'min_intervall' … 'min_interval'"),
    ("quantile", "quantil", "'quantil' … quantile"),
    ("command", "comand", "'comand' … command"),
    ("listen", "listn", "'listn' … listen"),
    // Types.
    ("realtime = true", "realtime = \"yes\"", "\"yes\"; write realtime = true"),
    ("realtime = true", "realtime = 1", "realtime is the number 1; write realtime = true"),
    ("\"lc\"", "1", "class is the number 1; write class = \"lc\" or \"be\""),
    ("name = \"web\"", "name = 7", "name is the number 7; write name = \"7\""),
    ("workloads = [\"web\", \"batch\"]", "workloads = 3", "\"all\", or a list of names"),
    ("workloads = [\"web\", \"batch\"]", "workloads = \"web\"", "\"all\", or a list of names"),
    (
        "match = [{ cgroup = \"not/there\" }]",
        "match = \"not/there\"",
        "match is the text \"not/there\"; write match = [{ command = \"not/there\" }]",
    ),
    ("duty_per_mille = 50", "duty_per_mille = \"5%\"", "\"5%\""),
    // Values.
    ("\"lc\"", "\"latency\"", "latency … lc"),
    ("\"kernel\"", "\"linux\"", "linux … kernel"),
    ("\"adaptive\"", "\"sometimes\"", "sometimes … adaptive"),
    ("\"standard\"", "\"stricty\"", "stricty … strict"),
    ("scheduler =", "cpus = \"a-b\"\nscheduler =", "a-b … 0-3,8"),
    ("scheduler =", "cpus = \"3-1\"\nscheduler =", "3-1 … 0-3,8"),
    ("scheduler =", "cpus = \"\"\nscheduler =", "no CPU … leave it out"),
    ("\"2s\"", "\"2 fortnights\"", "2 fortnights … unit"),
    ("\"2s\"", "\"-2s\"", "-2s"),
    ("\"2s\"", "2", "2"),
    ("\"100us\"", "100", "100"),
    ("\"5s\"", "5", "5"),
    ("\"1ms\"", "1", "1"),
    ("\"5s\"", "\"1ms\"", "at least 500ms"),
    ("\"5s\"", "5", "5 is not a time: add a unit"),
    ("\"5s\"", "\"2h\"", "agent.watchdog_timeout of 7200 s is too long"),
    ("\"100us\"", "100", "100 is not a time: add a unit"),
    ("\"100us\"", "\"1000s\"", "agent.min_interval of 1000 s is too long"),
    ("\"2s\"", "2", "2 is not a time: add a unit"),
    ("bound = \"1ms\"", "bound = 1", "1 is not a time: add a unit"),
    ("duty_per_mille = 50", "duty_per_mille = 2000", "2000"),
    ("duty_per_mille = 50", "duty_per_mille = -1", "-1"),
    ("cpus = 1", "cpus = -1", "-1 … 0 to 1024"),
    ("cpus = 1", "cpus = 5000", "5000 … 0 to 1024"),
    ("cpus = 1", "cpus = nan", "0 to 1024"),
    ("cpus = 1", "cpus = 3", "27: limit … 2"),
    ("limit = 2", "limit = 0", "limit … 0 … request of 1"),
    ("0.99", "0", "quantile"),
    ("0.99", "99", "quantile … 99"),
    ("\"1ms\"", "\"0ms\"", "bound"),
    ("\"1ms\"", "\"1 parsec\"", "parsec … unit"),
    ("127.0.0.1:9464", "0.0.0.0:9464", "other machines … 127.0.0.1:9464 … token"),
    // Policies and workloads that do not fit.
    ("name = \"guard\"", "name = \"gaurd\"", "no policy 'gaurd' … guard"),
    ("name = \"guard\"", "name = \"\"", "no policy ''"),
    ("[\"web\", \"batch\"]", "[\"wbe\"]", "no workload 'wbe' … web"),
    ("[\"web\", \"batch\"]", "[\"web\", \"web\"]", "'web' is listed twice"),
    ("name = \"batch\"", "name = \"web\"", "'web'"),
    ("name = \"web\"", "name = \"\"", "name"),
    ("{ command = \"a service that is not there\", user = \"0\" }", "", "24: matches nothing … match = [{ unit"),
    ("{ cgroup = \"not/there\" }", "{ command = \"a service that is not there\", user = \"0\" }", "web"),
    ("{ cgroup = \"not/there\" }", "{ cgroup = \"../..\" }", "cgroup"),
    ("{ cgroup = \"not/there\" }", "{ cgroup = \"\" }", "cgroup"),
    ("{ cgroup = \"not/there\" }", "{ command = \"\" }", "command"),
    ("{ cgroup = \"not/there\" }", "{ unit = \"\" }", "unit"),
    ("{ cgroup = \"not/there\" }", "{ pid = 999999999 }", "33: process 999999999 … pgrep"),
    ("{ cgroup = \"not/there\" }", "{ pid = -5 }", "a number above 0"),
    ("{ cgroup = \"not/there\" }", "{ pid = \"1\" }", "\"1\""),
    // Parameters.
    ("interval = \"20ms\"", "interval = \"soon\"", "soon … unit"),
    ("priority = 1", "priority = \"high\"", "'guard' … high"),
    ("interval = \"20ms\"", "interval = 20", "interval = 20 … \"20ms\" … give 1ms to 1s"),
    ("interval = \"20ms\"", "interval = \"1000s\"", "interval = \"1000s\" … give 1ms to 1s"),
    ("run_budget = \"50ms\"", "run_budget = \"0s\"", "run_budget = \"0s\" … give 1ms to 10s"),
    ("priority = 1", "priority = 100", "priority = 100 … give 1 to 95"),
    ("priority = 1", "priority = 0", "priority = 0 … give 1 to 95"),
    ("priority = 1", "priority = -1", "priority = -1 … give 1 to 95"),
    ("priority = 1", "priorty = 1", "'priorty' … did you mean 'priority'?"),
    ("priority = 1", "colour = 1", "colour"),
    ("interval = \"20ms\"", "interval = 20", "interval = 20: a time needs a unit … 1ms to 1s"),
    ("interval = \"20ms\"", "interval = \"1000s\"", "\"1000s\": out of range: give 1ms to 1s"),
    ("interval = \"20ms\"", "interval = \"100ms\"", "run_budget of 50 ms … an interval of at most the budget"),
    ("\"50ms\"", "\"0s\"", "run_budget = \"0s\": out of range: give 1ms to 10s"),
    ("priority = 1", "priority = 100", "priority = 100: out of range: give 1 to 95"),
    ("priority = 1", "pirority = 1", "no parameter 'pirority' … did you mean 'priority'?"),
];

/// A row may name the line itself, where what is at fault is on another one.
fn named_line(says: &str) -> Option<(usize, &str)> {
    let (line, says) = says.split_once(": ")?;
    Some((line.parse().ok()?, says))
}

#[test]
fn a_mistake_in_a_configuration_is_refused_with_its_line() {
    each(ROWS, |(from, to, says)| {
        let at = RIGHT.find(from).unwrap_or_else(|| panic!("{from} is not there"));
        let line = RIGHT[..at].matches('\n').count() + 1 + to.matches('\n').count().saturating_sub(1);
        let scene = scene(&[("quell.toml", &RIGHT.replacen(from, to, 1))]);
        let (line, says) = named_line(says).unwrap_or((line, says));
        let says = format!("quell.toml:{line}:…error:…{says}");
        let words = ["check", "quell.toml"].map(String::from);
        try_it(QUELL, scene.path(), &words, &Expected { status: 1, says: &says })
            .map_err(|why| format!("{from} -> {to}:{why}"))
    });
}

#[test]
fn the_configuration_without_a_mistake_is_right() {
    let scene = scene(&[("quell.toml", RIGHT)]);
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_quell"));
    let output = check.args(["check", "quell.toml"]).current_dir(scene.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
