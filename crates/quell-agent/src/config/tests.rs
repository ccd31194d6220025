use super::*;
use quell_model::rule::RuleKind;
use quell_model::{Capabilities, Class, CpuId, Signal, Support, Topology};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const GOOD: &str = r#"
[[policy]]
name = "guard"

[[workload]]
name = "web"
class = "lc"
cpus = 1
match = [{ command = "nginx" }]
"#;

fn parse(text: &str) -> Result<Config, Problems> {
    read_text(Path::new("q.toml"), text)
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// The problems found on a machine with this many CPUs; every selector matches.
fn checked(text: &str, cpus: u32) -> Problems {
    let topology = Arc::new(Topology::synthetic(1, 1, cpus, 1));
    check(&parse(text).unwrap(), &topology, None, &mut AllMatch)
}

fn with_workload(more: &str) -> String {
    format!("{GOOD}\n[[workload]]\nname = \"b\"\nclass = \"be\"\nmatch = [{{ unit = \"b\" }}]\n{more}\n")
}

#[test]
fn the_example_is_complete_and_right() {
    let config = read_text(Path::new("example.toml"), EXAMPLE).unwrap();
    assert_eq!(config.policies.len(), 2);
    let mut unheeded = Problems::default();
    unused::warn(&config, None, &mut |_| Some("no limit is kept here".into()), &mut unheeded);
    assert!(unheeded.0.is_empty(), "{unheeded}");
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let problems = check(&config, &topology, None, &mut AllMatch);
    assert!(problems.0.is_empty(), "{problems}");
    for key in ["cpus = \"0-7\"", "socket =", "group =", "listen =", "limit =", "slo ="] {
        assert!(EXAMPLE.lines().any(|line| line.starts_with(&format!("# {key}"))), "{key} is shown");
    }
}

#[test]
fn what_is_commented_out_in_the_example_is_right_too() {
    let text: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(code) if code.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => format!("{code}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = read_text(Path::new("example.toml"), &text).unwrap();
    assert_eq!(config.machine.cpus, Some(CpuSet::first(8)));
    assert_eq!(config.api.group.as_deref(), Some("adm"));
    assert!(config.metrics.listen.is_some());
    assert!(config.workload("web").unwrap().limit.is_some());
    assert_eq!(config.sources().map(|source| source.path.as_str()).collect::<Vec<_>>(), ["/metrics"]);
}

#[test]
fn a_latency_is_read_at_an_address_by_a_metrics_name() {
    let with = |latency: &str| GOOD.replace("cpus = 1", &format!("latency = {latency}"));
    let config = parse(&with(r#"{ address = "[::1]:80", metric = "a:b_ms", path = "/m?x=1" }"#)).unwrap();
    assert_eq!(config.sources().next().unwrap().address.to_string(), "[::1]:80");
    assert_eq!(config.sources().next().unwrap().unit, quell_scrape::Unit::Milliseconds);
    let config = parse(&with(r#"{ address = "[::1]:80", metric = "took", unit = "us" }"#)).unwrap();
    assert_eq!(config.sources().next().unwrap().unit, quell_scrape::Unit::Microseconds);
    assert!(parse(GOOD).unwrap().needs_restart(&config));
    for (latency, says) in [
        (r#"{ address = "localhost:80", metric = "x" }"#, "q.toml:8:23: error: 'localhost:80' is not a valid address"),
        (r#"{ address = "127.0.0.1:80" }"#, "this latency has no metric"),
        (r#"{ address = "127.0.0.1:80", metric = "x{}" }"#, "is not a valid metric name"),
        (r#"{ address = "127.0.0.1:80", metric = "x", path = "m" }"#, "the path 'm' is not valid"),
        (r#"{ address = "127.0.0.1:80", metric = "x", url = "m" }"#, "there is no latency key 'url'"),
        ("1", "latency is the number 1; write latency = {"),
        (r#"{ address = "127.0.0.1:80", metric = "took" }"#, "does not include the unit of its bounds; write unit = "),
        (r#"{ address = "127.0.0.1:80", metric = "x", unit = "minutes" }"#, "'minutes' is not a valid unit of time"),
    ] {
        let said = refused(&with(latency));
        assert!(said.contains(says), "{latency}: {said}");
    }
}

#[test]
fn a_demand_is_read_as_quell_vas_prints_it_and_wants_a_scheduler_with_servers() {
    let with = |demand: &str| GOOD.replace("guard", "vas").replace("cpus = 1", &format!("demand = {demand}"));
    let config = parse(&with(r#"{ budget = "1.62 s", period = "2 s" }"#)).unwrap();
    let demand = config.workload("web").unwrap().demand.clone().unwrap();
    assert_eq!(demand.to_string(), "1.62 s every 2 s");
    assert!(config.has_own_scheduler() && !config.grants());
    let tasks = parse(&with(r#"{ task = ["0, 40ms, 250ms"], sporadic = true, servers = 4 }"#)).unwrap();
    assert_eq!(tasks.workload("web").unwrap().demand.as_ref().unwrap().servers, 4);
    for (demand, says) in [
        (r#"{ budget = "3s", period = "2s" }"#, "q.toml:8:10: error: workload 'web': a budget of 3 s every 2 s"),
        (r#"{ budget = "1s" }"#, "a demand has either tasks"),
        (r#"{ task = ["0, 40, 250ms"] }"#, "add a unit"),
        (r#"{ poisson = "2k,exponential:100us", period = "10ms" }"#, "no latency to keep: give an slo"),
        ("3", "demand is the number 3; write demand = {"),
    ] {
        let said = refused(&with(demand));
        assert!(said.contains(says), "{demand}: {said}");
    }
    let twice = format!("[[policy]]\nname = \"vas\"\n{}", with(r#"{ budget = "1s", period = "2s" }"#));
    assert!(checked(&twice, 4).to_string().contains("'vas'"), "two policies would keep servers of one workload");
}

#[test]
fn tasks_that_no_cpu_can_do_and_too_many_servers_are_refused_before_anything_runs() {
    let said = |demand: &str| {
        let text = GOOD.replace("guard", "vas").replace("cpus = 1", &format!("demand = {demand}"));
        // Quell's scheduler finds threads by their cgroup.
        checked(&text.replace("command", "unit"), 2).to_string()
    };
    assert!(said(r#"{ task = ["0, 3ms, 4ms", "0, 2ms, 4ms"] }"#).contains("125.00 %"));
    let many = said(r#"{ budget = "1ms", period = "2ms", servers = 3 }"#);
    assert!(many.contains("workload 'web', policy 'vas'") && many.contains("2 of 2 CPUs have none yet"), "{many}");
}

#[test]
fn every_fault_is_found_with_its_line_and_the_fix() {
    let cases = [
        (
            GOOD.replace("cpus = 1", "cpu = 1"),
            "q.toml:8:1: error: there is no [[workload]] key 'cpu'; there are: name, class, slo, cpus, limit, reservation, pausable, grace, demand, latency, match; did you mean 'cpus'?",
        ),
        (GOOD.replace("cpus = 1", "cpus = 5000"), "q.toml:8:8: error: 5000 CPUs: expected a number from 0 to 1024"),
        (GOOD.replace("cpus = 1", "cpus = -1"), "q.toml:8:8: error: -1 CPUs"),
        (GOOD.replace("guard", "gard"), "q.toml:3:8: error: there is no policy 'gard'; there are: none"),
        (GOOD.replace("lc", "fast"), "q.toml:7:9: error: there is no class 'fast'; there are: lc, be"),
        (
            GOOD.replace("cpus = 1", "slo = { quantile = 0.99, bound = \"-1ms\" }"),
            "q.toml:8:34: error: '-1ms' is not a time",
        ),
        (
            GOOD.replace("cpus = 1", "slo = { quantile = 99, bound = \"1ms\" }"),
            "q.toml:8:7: error: workload 'web': an SLO",
        ),
        (GOOD.replace("cpus = 1", "cpus = 2\nlimit = 1"), "q.toml:9:9: error: workload 'web': its limit of 1 CPUs"),
        (
            GOOD.replace("cpus = 1", "cpus = 0.5\nreservation = \"strict\""),
            "q.toml:9:15: error: workload 'web': a strict reservation of 0.5 CPUs holds no whole CPU",
        ),
        (
            GOOD.replace("[{ command = \"nginx\" }]", "[]"),
            "q.toml:6:8: error: workload 'web' matches nothing: say where",
        ),
        (GOOD.replace("command = \"nginx\"", "command = \" \""), "q.toml:9:22: error: an empty text"),
        (GOOD.replace("command = \"nginx\"", "cgroup = \"/\""), "q.toml:9:21: error: the root cgroup is the whole"),
        (GOOD.replace("command = \"nginx\"", "cgroup = \"a/../..\""), "has no .."),
        (GOOD.replace("command", "name"), "there is no selector 'name'; there are: unit, cgroup"),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nworkloads = [\"wbe\"]"),
            "q.toml:4:14: error: there is no workload 'wbe'; there are: web; did you mean 'web'?",
        ),
        (GOOD.replace("\"guard\"", "\"guard\"\nworkloads = \"web\""), "write \"all\", or a list of names"),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nparameters = { speed = 3 }"),
            "q.toml:4:16: error: the parameters of policy 'guard': there is no parameter 'speed'; there are: interval",
        ),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nparameters.interval = \"1h\""),
            "q.toml:4:23: error: the parameters of policy 'guard': interval = \"1h\": out of range: give 1ms to 1s",
        ),
        (format!("{GOOD}\n[machine]\ncpus = \"3-1\"\n"), "q.toml:12:8: error: '3-1' is not a CPU list"),
        (format!("{GOOD}\n[machine.solo_runs]\nduty_per_mille = 2000\n"), "q.toml:12:18: error: 2000 per mille"),
        (
            format!("{GOOD}\n[metrics]\nlisten = \"0.0.0.0:9464\"\n"),
            "q.toml:12:10: error: other machines can read metrics on 0.0.0.0:9464: write \"127.0.0.1:9464\"",
        ),
        (format!("{GOOD}\n[agent]\nwatchdog_timeout = \"1ms\"\n"), "q.toml:12:20: error: the loop checks every 100 ms"),
        (GOOD.replace("[[policy]]", "[[policy]"), "q.toml:2:"),
        (
            "[[workload]]\nname = \"a\"\nclass = \"be\"\nmatch = [{ pid = 0 }]\n".into(),
            "a process has a number above 0",
        ),
        ("".into(), "q.toml: error: there is no [[policy]]"),
    ];
    for (text, expected) in cases {
        let said = refused(&text);
        assert!(said.contains(expected), "{text}\nsaid:\n{said}\nexpected:\n{expected}");
    }
}

#[test]
fn times_without_a_unit_and_absurd_values_are_refused_wherever_they_stand() {
    let guard = |parameter: &str| GOOD.replace("\"guard\"", &format!("\"guard\"\nparameters.{parameter}"));
    let agent = |line: &str| format!("{GOOD}\n[agent]\n{line}\n");
    let workload = |line: &str| GOOD.replace("cpus = 1", line);
    let cases = [
        (
            guard("interval = 20"),
            "q.toml:4:23: error: the parameters of policy 'guard': interval = 20: a time needs a unit",
        ),
        (guard("interval = \"1000s\""), "q.toml:4:23: error: the parameters of policy 'guard': interval = \"1000s\""),
        (guard("run_budget = \"0s\""), "give 1ms to 10s"),
        (guard("priority = 100"), "q.toml:4:23: error: the parameters of policy 'guard': priority = 100: out of range"),
        (
            guard("pirority = 1"),
            "q.toml:4:12: error: the parameters of policy 'guard': there is no parameter 'pirority'; there",
        ),
        (guard("run_budget = \"5ms\""), "an interval of at most the budget"),
        (agent("min_interval = 100"), "q.toml:12:16: error: 100 is not a time: add a unit, as in \"100ms\""),
        (agent("min_interval = \"1000s\""), "q.toml:12:16: error: agent.min_interval of 1000 s is too long"),
        (agent("watchdog_timeout = 5"), "q.toml:12:20: error: 5 is not a time"),
        (agent("watchdog_timeout = \"2h\""), "q.toml:12:20: error: agent.watchdog_timeout of 7200 s is too long"),
        (format!("{GOOD}\n[machine]\nsolo_runs.longest = 2\n"), "q.toml:12:21: error: 2 is not a time"),
        (workload("slo = { quantile = 0.99, bound = 1 }"), "q.toml:8:34: error: 1 is not a time"),
        (workload("slo = { quantile = 0.99, bound = 1.5 }"), "q.toml:8:34: error: 1.5 is not a time"),
        (workload("grace = { signal = \"urg\", time = 20 }"), "q.toml:8:34: error: 20 is not a time"),
    ];
    for (text, expected) in cases {
        let said = refused(&text);
        assert!(said.contains(expected) && !said.contains('\n'), "{text}\nsaid:\n{said}\nexpected:\n{expected}");
    }
    let long = guard("interval = \"1ms\"") + "[agent]\nwatchdog_timeout = \"1m\"\nmin_interval = 0\n";
    assert_eq!(parse(&long).unwrap().agent.watchdog_timeout, Nanos::from_secs(60));
}

#[test]
fn workloads_have_one_name_and_one_place_each() {
    let said = refused(&with_workload("[[workload]]\nname = \"web\"\nclass = \"be\"\nmatch = [{ unit = \"c\" }]"));
    assert!(said.contains("q.toml:16:8: error: workload 'web' is already defined, at q.toml:6:8"), "{said}");
    let said =
        refused(&with_workload("[[workload]]\nname = \"c\"\nclass = \"be\"\nmatch = [{ unit = \"b.service\" }]"));
    assert!(said.contains("workloads 'b' and 'c' both match systemd unit b.service"), "{said}");
}

#[test]
fn a_mistake_in_structure_says_what_to_write() {
    let cases = [
        (
            GOOD.replace("[[workload]]", "[workload]"),
            "q.toml:5:1: error: [workload] is a single table; write [[workload]]",
        ),
        (GOOD.replace("[[policy]]", "[policy]"), "[policy] is a single table; write [[policy]], in double brackets"),
        (GOOD.replace("cpus = 1", "cpus = \"1\""), "q.toml:8:8: error: cpus is the text \"1\"; write cpus = 1"),
        (GOOD.replace("cpus = 1", "cpus = \"one\""), "cpus is the text \"one\"; write cpus = 1.5"),
        (GOOD.replace("cpus = 1", "pausable = \"true\""), "pausable is the text \"true\"; write pausable = true"),
        (GOOD.replace("\"lc\"", "1"), "class is the number 1; write class = \"lc\" or \"be\""),
        (GOOD.replace("\"lc\"", "\"LC\""), "there is no class 'LC'; there are: lc, be; did you mean 'lc'?"),
        (GOOD.replace("class = \"lc\"\n", ""), "q.toml:5:1: error: this [[workload]] has no class; write class ="),
        (GOOD.replace("name = \"web\"\n", ""), "this [[workload]] has no name; write name = \"web\""),
        (GOOD.replace("cpus = 1", "slo = { quantile = 0.99 }"), "this slo has no bound; write bound = \"1ms\""),
        (GOOD.replace("cpus = 1", "slo = \"1ms\""), "slo is the text \"1ms\"; write slo = { quantile = 0.99"),
        (
            GOOD.replace("command = \"nginx\"", "command = \"nginx\", unit = \"web\""),
            "q.toml:9:10: error: 2 selectors in one table; write a table for each: { command = … }, { unit = … }",
        ),
        (GOOD.replace("[{ command = \"nginx\" }]", "{ command = \"nginx\" }"), "match is a table; write a list"),
        (
            GOOD.replace("[{ command = \"nginx\" }]", "\"nginx\""),
            "match is the text \"nginx\"; write match = [{ command = \"nginx\" }]",
        ),
        (GOOD.replace("{ command = \"nginx\" }", "\"nginx\""), "a selector is the text \"nginx\"; write { command ="),
        (GOOD.replace("{ command = \"nginx\" }", "{}"), "an empty selector; write one of unit"),
        (GOOD.replace("command = \"nginx\"", "unit = \"nginx\", user = \"root\""), "user and exe stand beside command"),
        (
            GOOD.replace("command = \"nginx\"", "command = \"nginx\", exe = \"nginx\""),
            "'nginx' is not an absolute path",
        ),
        (GOOD.replace("command = \"nginx\"", "command = \"nginx\", user = 33"), "user is the number 33; write user ="),
        (GOOD.replace("command = \"nginx\"", "pid = \"4711\""), "pid is the text \"4711\"; write pid = 4711"),
        (
            GOOD.replace("command = \"nginx\"", "comand = \"nginx\""),
            "'comand'; there are: unit, cgroup, container, label, pod, command, pid; did you mean 'command'?",
        ),
        (GOOD.replace("command = \"nginx\"", "container = \"we b\""), "'we b': a container is named by its id"),
        (GOOD.replace("command = \"nginx\"", "label = \"=web\""), "'=web': a label is a key and a value"),
        (GOOD.replace("command = \"nginx\"", "pod = \"shop/web\""), "'shop/web': a pod is named by its uid"),
        (GOOD.replace("command = \"nginx\"", "cgroup = \"a[\""), "'a[' is not a valid pattern"),
        (
            format!("{GOOD}\n[metrics]\nlisten = \"localhost:9100\"\n"),
            "q.toml:12:10: error: 'localhost:9100' is not a valid address; write an IP address and a port, \
             \"127.0.0.1:9100\"",
        ),
        (format!("{GOOD}\n[[agent]]\nrealtime = true\n"), "[[agent]] is a list; write [agent], in single brackets"),
        (format!("agent = 3\n{GOOD}"), "agent is the number 3; write [agent] on a line of its own"),
        (
            format!("{GOOD}\n[machin]\ncpus = \"0\"\n"),
            "there is no table 'machin'; there are: machine, agent, api, metrics, attribution, kubernetes, policy, workload; did you mean 'machine'?",
        ),
        (
            format!("{GOOD}\n[agent]\npoll = \"dedicate\"\n"),
            "there is no poll 'dedicate'; there are: adaptive, dedicated; did you mean 'dedicated'?",
        ),
        (
            with_workload("grace = { signal = \"ugr\", time = \"20us\" }"),
            "there is no signal 'ugr'; there are: usr1, usr2, urg; did you mean 'urg'?",
        ),
        (GOOD.replace("\"guard\"", "\"guard\"\nparameters = 3"), "parameters is the number 3; write parameters = {"),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nworkload = \"all\""),
            "key 'workload'; there are: name, workloads, parameters; did you mean 'workloads'?",
        ),
    ];
    for (text, expected) in cases {
        let said = refused(&text);
        assert!(said.contains(expected), "{text}\nsaid:\n{said}\nexpected:\n{expected}");
        assert_eq!(said.lines().count(), 1, "one mistake, one line: {said}");
    }
}

#[test]
fn one_mistake_hides_none_of_the_others() {
    let text = "[machine]\ncpus = 3\npartitions = true\n[agent]\nrealtime = \"yes\"\n[policy]\nname = \"gard\"\n\
                workloads = [\"wbe\"]\n[[workload]]\nname = \"web\"\nclass = \"lx\"\ncpu = 1\nmatch = \"nginx\"\n\
                [[workload]]\nclass = \"be\"\nmatch = [{ pid = \"x\" }]\n";
    let said = refused(text);
    for expected in
        ["q:2:8", "q:3:1", "q:5:12", "q:6:1", "q:7:8", "q:8:14", "q:11:9", "q:12:1", "q:13:9", "q:14:1", "q:16:18"]
    {
        let place = expected.replacen('q', "q.toml", 1);
        assert!(said.contains(&format!("{place}: error: ")), "{place} in\n{said}");
    }
    assert_eq!(said.lines().count(), 11, "{said}");
    let broken_too = refused(&text.replace("cpu = 1", "cpu = = 1"));
    assert!(broken_too.lines().count() >= 10, "a mistake in syntax hides nothing but its line: {broken_too}");
}

#[test]
fn containers_pods_and_patterns_are_selectors() {
    let uid = "6f1c2d9e-0b57-4c4a-9d0e-3a8d6f1b2c3d";
    for selector in [
        "container = \"4f66ad9a\"".to_owned(),
        format!("pod = \"{uid}\""),
        "unit = \"getty@*\"".into(),
        "cgroup = \"batch.slice/job-*\"".into(),
        "command = \"redis-server *:6379\"".into(),
        "command = \"nginx\", user = \"www-data\"".into(),
        "command = \"nginx\", exe = \"/usr/sbin/nginx\", user = \"33\"".into(),
        // Read as before there were patterns.
        "command = \"kworker/[0]\"".into(),
    ] {
        assert!(parse(&GOOD.replace("command = \"nginx\"", &selector)).is_ok(), "{selector}");
    }
}

#[test]
fn a_command_line_that_any_user_can_have_is_refused_with_the_line_to_write() {
    let found = |with: &str| {
        let config = parse(&GOOD.replace("{ command = \"nginx\" }", with)).unwrap();
        let mut problems = Problems::default();
        selector::forbid_disguises(&config, &mut |_| vec!["www-data".into()], &mut problems);
        problems.to_string()
    };
    let said = found("{ command = \"nginx -g\" }");
    assert!(said.contains("match = [{ command = \"nginx -g\", user = \"www-data\" }]"), "{said}");
    assert!(said.starts_with("q.toml:6:8: error") && said.contains("workload 'web'"), "{said}");
    for safe in
        ["{ command = \"nginx\", user = \"0\" }", "{ command = \"nginx\", exe = \"/bin/nginx\" }", "{ pid = 7 }"]
    {
        assert_eq!(found(safe), "", "{safe}");
    }
}

#[test]
fn what_two_workloads_would_both_have_is_an_error_with_both_names() {
    struct Both;
    impl Matches for Both {
        fn find(&mut self, _: &quell_model::Selector) -> Result<(), String> {
            Ok(())
        }
        fn contested(&mut self) -> Vec<quell_linux::Contested> {
            let of = |text: &str| quell_model::Selector::Command(text.into());
            let what = "process 4711 (nginx -w)".into();
            vec![quell_linux::Contested { workloads: (0, 1), first: of("nginx"), second: of("-w"), what }]
        }
    }
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let problems = check(&parse(&with_workload("")).unwrap(), &topology, None, &mut Both);
    let said = problems.to_string();
    assert!(
        problems.are_fatal()
            && said.contains("q.toml:12:8: error: workloads 'web' and 'b' both match process 4711 (nginx -w)"),
        "{said}"
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let text = GOOD.replace("guard", "gard").replace("[{ command = \"nginx\" }]", "[]");
    assert_eq!(parse(&text).unwrap_err().0.len(), 2);
}

#[test]
fn policies_for_one_knob_are_refused_by_name_and_line() {
    let text = GOOD.replace("[[workload]]", "[[policy]]\nname = \"guard\"\nworkloads = [\"web\"]\n[[workload]]");
    let problems = checked(&text, 4);
    let said = problems.to_string();
    assert!(
        said.contains("q.toml:6:8: error: the policies 'guard' (q.toml:3:8) and 'guard' would both set the knob")
            && said.contains("workload 'web'"),
        "{said}"
    );
}

#[test]
fn over_committed_cpus_are_refused_with_the_numbers() {
    let problems = checked(&GOOD.replace("cpus = 1", "cpus = 3"), 2);
    assert!(problems.are_fatal());
    let said = problems.to_string();
    assert!(
        said.contains("q.toml:6:8: error: workload 'web', policy 'guard': it asks for 3 guaranteed CPUs"),
        "{said}"
    );
    assert!(checked(&GOOD.replace("cpus = 1", "cpus = 3"), 4).0.is_empty());
    let strict = GOOD.replace("cpus = 1", "cpus = 3\nreservation = \"strict\"").replace("guard", "rkube");
    assert!(checked(&strict, 2).are_fatal());
}

#[test]
fn warnings_do_not_refuse() {
    let problems = checked(&GOOD.replace("cpus = 1\n", ""), 2);
    assert!(!problems.are_fatal());
    assert!(problems.to_string().contains("warning: workload 'web', policy 'guard': it is latency-critical but"));
}

#[test]
fn cpus_that_are_not_there_are_named() {
    let problems = checked(&format!("{GOOD}\n[machine]\ncpus = \"1-5\"\n"), 4);
    assert!(problems.to_string().contains("the CPUs 4-5, which do not exist; this machine has 0-3"), "{problems}");
}

#[test]
fn a_partition_needs_the_machines_permission() {
    let text = GOOD
        .replace("guard\"", "rkube\"\nparameters.partition = true")
        .replace("cpus = 1", "cpus = 1\nreservation = \"strict\"");
    let problems = checked(&text, 4);
    assert!(
        problems.to_string().contains("policy 'rkube' needs machine.partition: write partition = true"),
        "{problems}"
    );
    assert!(!checked(&format!("{text}\n[machine]\npartition = true\n"), 4).are_fatal());
}

#[test]
fn a_service_may_come_later_but_a_process_must_be_there() {
    struct Nothing;
    impl Matches for Nothing {
        fn find(&mut self, _: &quell_model::Selector) -> Result<(), String> {
            Err("start it".into())
        }
    }
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let absent = |text: &str| check(&parse(text).unwrap(), &topology, None, &mut Nothing);
    let problems = absent(GOOD);
    assert!(!problems.are_fatal() && problems.to_string().contains("matches nothing now; start it"), "{problems}");
    assert!(absent(&GOOD.replace("command = \"nginx\"", "pid = 7")).are_fatal());
}

#[test]
fn drop_ins_can_be_all_that_there_is_and_then_none() {
    let directory = tempfile::tempdir().unwrap();
    let main = directory.path().join("quell.toml");
    assert!(read(&main).is_err(), "without either there is no configuration");
    let drop_ins = drop_in_directory(&main);
    fs::create_dir(&drop_ins).unwrap();
    let file = drop_ins.join("protect-a.toml");
    fs::write(&file, GOOD).unwrap();
    let config = read(&main).unwrap();
    assert_eq!((config.main.as_ref(), config.files.as_slice()), (Some(&main), &[file.clone()][..]));
    fs::write(&file, GOOD.replace("[[policy]]\nname = \"guard\"\n", "")).unwrap();
    let assumed = read(&main).unwrap();
    assert_eq!((assumed.policies.len(), assumed.workloads.len(), assumed.files.len()), (1, 1, 1), "guard is assumed");
    fs::remove_file(&file).unwrap();
    let (empty, problems) = read_all(&main);
    assert!(!problems.are_fatal() && problems.to_string().contains("--keep"), "{problems}");
    assert_eq!((empty.main.as_ref(), empty.files.len(), empty.workloads.len()), (Some(&main), 0, 0));
}

#[test]
fn drop_ins_add_workloads_and_override_keys() {
    let directory = tempfile::tempdir().unwrap();
    let main = directory.path().join("quell.toml");
    fs::write(&main, format!("{GOOD}\n[machine]\ncpus = \"0-3\"\npartition = true\n")).unwrap();
    let drop_ins = drop_in_directory(&main);
    assert_eq!(drop_ins, directory.path().join("quell.d"));
    assert_eq!(read(&main).unwrap().files.len(), 1, "there need be none");
    fs::create_dir(&drop_ins).unwrap();
    fs::write(drop_ins.join("20-b.toml"), "[machine]\ncpus = \"1\"\n").unwrap();
    fs::write(
        drop_ins.join("10-a.toml"),
        "[machine]\ncpus = \"2\"\n[[workload]]\nname = \"b\"\nclass = \"be\"\nmatch = [{ unit = \"b\" }]\n",
    )
    .unwrap();
    fs::write(drop_ins.join("README"), "no configuration").unwrap();
    let config = read(&main).unwrap();
    assert_eq!(config.files.len(), 3);
    assert_eq!(config.machine.cpus, Some(CpuSet::one(CpuId(1))), "the last one counts");
    assert!(config.machine.partition, "what a drop-in does not name stays");
    assert_eq!(config.workload("b").unwrap().class, Class::BestEffort);
    fs::write(drop_ins.join("30-c.toml"), "[[workload]]\nname = \"b\"\nclass = \"be\"\nmatch = [{ unit = \"c\" }]\n")
        .unwrap();
    let said = read(&main).unwrap_err().to_string();
    assert!(
        said.contains("30-c.toml:2:8: error: workload 'b' is already defined, at") && said.contains("10-a.toml:4:8"),
        "{said}"
    );
    assert!(read(&directory.path().join("none.toml")).unwrap_err().to_string().contains("cannot read it"));
}

#[test]
fn only_changed_workloads_are_taken_over_in_place() {
    let base = parse(GOOD).unwrap();
    assert!(!base.needs_restart(&parse(&with_workload("")).unwrap()));
    assert!(base.needs_restart(&parse(&GOOD.replace("guard\"", "guard\"\nparameters.priority = 2")).unwrap()));
    assert!(base.needs_restart(&parse(&format!("{GOOD}\n[machine]\npartition = true\n")).unwrap()));
}

#[test]
fn a_grace_names_its_signal_and_is_short() {
    let graced = |grace: &str| parse(&with_workload(&format!("grace = {grace}")));
    let config = graced("{ signal = \"usr1\", time = \"20us\" }").unwrap();
    let grace = config.workload("b").unwrap().grace.unwrap();
    assert_eq!((grace.signal, grace.time), (quell_model::GraceSignal::Usr1, Nanos::from_micros(20)));
    let too_long = graced("{ signal = \"usr1\", time = \"2ms\" }").unwrap_err().to_string();
    assert!(too_long.contains("at most 1 ms"), "{too_long}");
    let unknown = graced("{ signal = \"kill\", time = \"20us\" }").unwrap_err().to_string();
    assert!(unknown.contains("urg"), "{unknown}");
}

#[test]
fn on_the_kernels_scheduler_guard_stands_beside_grants() {
    let text = |policies: &str| {
        let workloads = "[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nmatch = [{ command = \"web\" }]\n\
                         [[workload]]\nname = \"batch\"\nclass = \"be\"\nmatch = [{ command = \"batch\" }]\n";
        format!("{policies}\n{workloads}")
    };
    let stack = |policies: &str| -> Vec<(&'static str, Option<Vec<String>>)> {
        let config = parse(&text(policies)).unwrap().on_the_kernels_scheduler();
        assert!(!config.has_own_scheduler());
        config.policies.into_iter().map(|layer| (layer.policy.describe().name, layer.workloads)).collect()
    };
    assert_eq!(stack("[[policy]]\nname = \"caladan\""), [("guard", None), ("caladan", None)]);
    let some = Some(vec!["web".to_owned()]);
    let of_some = "[[policy]]\nname = \"caladan\"\nworkloads = [\"web\"]";
    assert_eq!(stack(of_some), [("guard", some.clone()), ("caladan", some)]);
    let has_one = "[[policy]]\nname = \"caladan\"\n[[policy]]\nname = \"guard\"";
    assert_eq!(stack(has_one), [("caladan", None), ("guard", None)]);
    assert_eq!(stack("[[policy]]\nname = \"rkube\""), [("rkube", None)], "no policy grants");
    let both = checked(&text("[[policy]]\nname = \"caladan\"\n[[policy]]\nname = \"rkube\""), 4).to_string();
    assert!(both.contains("would both set the knob"), "{both}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", at in 0usize..400) {
        let _ = parse(&text);
        let mut broken = EXAMPLE.to_owned();
        if let Some(place) = (at * 8..EXAMPLE.len()).find(|place| EXAMPLE.is_char_boundary(*place)) {
            broken.insert_str(place, &text);
        }
        let _ = parse(&broken);
    }
}

#[test]
fn a_policy_that_grants_cpus_has_quells_own_scheduler_which_wants_cgroups() {
    let text = |machine: &str, selector: &str| {
        format!(
            "{machine}\n[[policy]]\nname = \"caladan\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\nmatch = [{selector}]"
        )
    };
    let said = |machine: &str, selector: &str, grants: Support| {
        let config = read_text(Path::new("quell.toml"), &text(machine, selector)).unwrap();
        let mut can = Capabilities { grants, ..Capabilities::default() };
        for &signal in Signal::ALL {
            can.signals.insert(signal, Support::Yes);
        }
        for rule in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
            can.rules.insert(rule, Support::Yes);
        }
        let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
        let problems = check(&config, &topology, Some(&can), &mut AllMatch);
        (
            config.has_own_scheduler(),
            problems.of(Severity::Error).map(|problem| problem.what.clone()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(said("", "{ cgroup = \"web\" }", Support::Yes), (true, Vec::new()));
    let (_, by_process) = said("", "{ command = \"web\" }", Support::Yes);
    assert!(by_process[0].contains("systemd-run --scope"), "{by_process:?}");
    let (own, without) = said("machine.scheduler = \"kernel\"", "{ cgroup = \"web\" }", Support::default());
    assert!(!own && without[0].contains("grant single CPUs"), "{without:?}");
    let text = "machine.scheduler = \"quell\"\n[[policy]]\nname = \"none\"\n[[workload]]\nname = \"a\"\nclass = \"be\"\nmatch = [{ cgroup = \"a\" }]";
    let config = parse(text).unwrap();
    assert_eq!((config.has_own_scheduler(), config.granted().map(|names| names.len())), (true, Some(0)));
    let (_, alone) = said("machine.cpus = \"1\"\nagent.poll = \"dedicated\"", "{ cgroup = \"web\" }", Support::Yes);
    assert!(alone.iter().any(|what| what.contains("adaptive")), "{alone:?}");
    let polls_above = "agent.poll = \"dedicated\"\n[[policy]]\nname = \"guard\"";
    let (_, polls_above) = said(polls_above, "{ cgroup = \"web\" }", Support::Yes);
    assert!(polls_above.iter().any(|what| what.contains("would be real-time")), "{polls_above:?}");
    let polls = "agent.poll = \"dedicated\"\nagent.realtime = false\n[[policy]]\nname = \"guard\"";
    let (_, polls) = said(polls, "{ cgroup = \"web\" }", Support::Yes);
    assert!(!polls.iter().any(|what| what.contains("would be real-time")), "{polls:?}");
}

#[test]
fn guarantees_that_leave_no_cpu_to_others_are_warned_of() {
    let warned = |text: &str, cpus| checked(text, cpus).to_string().contains("guarantees every CPU");
    assert!(warned(GOOD, 1) && !warned(GOOD, 2));
    let second = "[[workload]]\nname = \"db\"\nclass = \"lc\"\ncpus = 1\nmatch = [{ command = \"db\" }]\n";
    let both = format!("{GOOD}{second}");
    assert!(warned(&both, 2) && !warned(&both, 3));
    let with = |from, to| both.replace(from, to);
    assert!(
        !warned(&with("name = \"guard\"", "name = \"guard\"\nworkloads = [\"web\"]"), 2),
        "the other's class is not set"
    );
    assert!(!warned(&with("\"guard\"", "\"none\""), 2), "nothing is guaranteed");
    assert!(warned(&format!("machine.cpus = \"0-1\"\n{both}"), 4), "of those that Quell may use");
}

#[test]
fn services_under_dasec_hold_cpus_in_quells_scheduler_and_its_best_effort_work_does_not() {
    let text = "[machine]\nscheduler = \"quell\"\n[[policy]]\nname = \"dasec\"\n\
                [[workload]]\nname = \"shop\"\nclass = \"lc\"\nmatch = [{ cgroup = \"shop\" }]\n\
                [[workload]]\nname = \"batch\"\nclass = \"be\"\nmatch = [{ cgroup = \"batch\" }]\n";
    let config = parse(text).unwrap();
    assert!(config.asks_for_cpus_as_one() && config.has_own_scheduler());
    assert_eq!(config.holding(), Some(["shop".to_owned()].into()));
    assert_eq!(config.granted(), Some(std::collections::BTreeSet::new()));
    let auto = parse(&text.replace("\"quell\"", "\"auto\"")).unwrap();
    assert!(!auto.has_own_scheduler(), "it does without as well");
}

#[test]
fn cpus_may_be_thousandths_as_kubernetes_has_them() {
    let cpus = |text: &str| parse(&GOOD.replace("cpus = 1", text)).map(|config| config.workloads[0].workload.cpus);
    assert_eq!(cpus("cpus = \"500m\"").unwrap().as_f64(), 0.5);
    assert_eq!(cpus("cpus = \"2500m\"").unwrap().as_f64(), 2.5);
    let limited = parse(&GOOD.replace("cpus = 1", "cpus = 1\nlimit = \"1500m\"")).unwrap();
    assert_eq!(limited.workloads[0].workload.limit.unwrap().as_f64(), 1.5);
    for (text, expected) in [
        ("cpus = \"1\"", "cpus is the text \"1\"; write cpus = 1"),
        ("cpus = \"0.5m\"", "cpus: '0.5m' is not a number of CPUs such as 0.5 or 500m"),
        ("cpus = \"half\"", "cpus is the text \"half\"; write cpus = 1.5"),
    ] {
        let said = cpus(text).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    let said = refused(&format!("{GOOD}\n[machine]\ncpus = 1\n"));
    assert!(said.contains("cpus is the number 1; write cpus = \"1\""), "{said}");
}

#[test]
fn a_file_without_an_end_is_no_configuration() {
    let said = read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(said.contains("neither a file nor a pipe"), "{said}");
    let directory = tempfile::tempdir().unwrap();
    let long = directory.path().join("long.toml");
    std::fs::write(&long, "#\n".repeat(1 << 20)).unwrap();
    let said = read(&long).unwrap_err().to_string();
    assert!(said.contains("larger than 1 MiB"), "{said}");
}

#[test]
fn a_policy_without_a_workload_is_a_warning() {
    let problems = checked("[[policy]]\nname = \"guard\"\n", 2);
    assert!(!problems.are_fatal());
    assert!(problems.to_string().contains("there is no [[workload]], so nothing is managed"), "{problems}");
}

#[test]
fn of_several_users_none_is_proposed() {
    let config = parse(&GOOD.replace("{ command = \"nginx\" }", "{ command = \"nginx -g\" }")).unwrap();
    let mut problems = Problems::default();
    selector::forbid_disguises(&config, &mut |_| vec!["root".into(), "www-data".into()], &mut problems);
    let said = problems.to_string();
    assert!(said.contains("user = \"NAME\" }] (it matches processes of root and www-data now)"), "{said}");
}
