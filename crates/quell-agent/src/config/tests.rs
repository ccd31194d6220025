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

/// What a check on a machine with so many CPUs says; every selector matches.
fn checked(text: &str, cpus: u32) -> Problems {
    let topology = Arc::new(Topology::synthetic(1, 1, cpus, 1));
    check(&parse(text).unwrap(), &topology, None, &mut |_| Ok(()))
}

fn with_workload(more: &str) -> String {
    format!("{GOOD}\n[[workload]]\nname = \"b\"\nclass = \"be\"\nmatch = [{{ unit = \"b\" }}]\n{more}\n")
}

#[test]
fn the_example_is_complete_and_right() {
    let config = read_text(Path::new("example.toml"), EXAMPLE).unwrap();
    assert_eq!(config.policies.len(), 2);
    assert_eq!(config.workload("web").unwrap().slo.unwrap().quantile, 0.99);
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let problems = check(&config, &topology, None, &mut |_| Ok(()));
    assert!(problems.0.is_empty(), "{problems}");
    for key in ["cpus = \"0-7\"", "socket =", "group =", "listen =", "limit ="] {
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
}

#[test]
fn every_fault_is_found_with_its_line_and_the_mend() {
    let cases = [
        (GOOD.replace("cpus = 1", "cpu = 1"), "q.toml:8:1: error: unknown field 'cpu', expected one of"),
        (GOOD.replace("cpus = 1", "cpus = 5000"), "q.toml:8:8: error: 5000 CPUs: expected a number from 0 to 1024"),
        (GOOD.replace("cpus = 1", "cpus = -1"), "q.toml:8:8: error: -1 CPUs"),
        (GOOD.replace("guard", "gard"), "q.toml:3:8: error: there is no policy 'gard'; there are: none"),
        (GOOD.replace("lc", "fast"), "q.toml:7:9: error: unknown variant 'fast', expected 'lc' or 'be'"),
        (
            GOOD.replace("cpus = 1", "slo = { quantile = 0.99, bound = \"-1ms\" }"),
            "q.toml:8:34: error: '-1ms' is no time",
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
        (GOOD.replace("command = \"nginx\"", "command = \" \""), "q.toml:9:10: error: an empty text"),
        (GOOD.replace("command = \"nginx\"", "cgroup = \"/\""), "q.toml:9:10: error: the root cgroup is the whole"),
        (GOOD.replace("command = \"nginx\"", "cgroup = \"a/../..\""), "has no .."),
        (GOOD.replace("command", "name"), "unknown variant 'name', expected one of 'cgroup', 'unit', 'pid', 'command'"),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nworkloads = [\"wbe\"]"),
            "q.toml:4:14: error: there is no workload 'wbe'; there are: web",
        ),
        (GOOD.replace("\"guard\"", "\"guard\"\nworkloads = \"web\""), "expected \"all\", or a list of names"),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nparameters = { speed = 3 }"),
            "q.toml:4:16: error: the parameters of policy 'guard': unknown field 'speed'",
        ),
        (
            GOOD.replace("\"guard\"", "\"guard\"\nparameters.interval = \"1h\""),
            "q.toml:4:23: error: the parameters of policy 'guard': '1h' is no time",
        ),
        (format!("{GOOD}\n[machine]\ncpus = \"3-1\"\n"), "q.toml:12:8: error: '3-1' is no CPU list"),
        (format!("{GOOD}\n[machine.solo_runs]\nduty_per_mille = 2000\n"), "q.toml:12:18: error: solo runs of 2000"),
        (format!("{GOOD}\n[metrics]\nlisten = \"0.0.0.0:9464\"\n"), "error: metrics are served on loopback only"),
        (format!("{GOOD}\n[agent]\nhung_after = \"1ms\"\n"), "q.toml:12:14: error: the loop looks every 100 ms"),
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
fn workloads_have_one_name_and_one_place_each() {
    let said = refused(&with_workload("[[workload]]\nname = \"web\"\nclass = \"be\"\nmatch = [{ unit = \"c\" }]"));
    assert!(said.contains("q.toml:16:8: error: workload 'web' is already there, at q.toml:6:8"), "{said}");
    let said =
        refused(&with_workload("[[workload]]\nname = \"c\"\nclass = \"be\"\nmatch = [{ unit = \"b.service\" }]"));
    assert!(said.contains("workloads 'b' and 'c' both match systemd unit b.service"), "{said}");
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
    assert!(problems.to_string().contains("the CPUs 4-5, which are not here; there are 0-3"), "{problems}");
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
    let topology = Arc::new(Topology::synthetic(1, 1, 2, 1));
    let absent = |text: &str| check(&parse(text).unwrap(), &topology, None, &mut |_| Err("start it".into()));
    let problems = absent(GOOD);
    assert!(!problems.are_fatal() && problems.to_string().contains("matches nothing now; start it"), "{problems}");
    assert!(absent(&GOOD.replace("command = \"nginx\"", "pid = 7")).are_fatal());
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
        said.contains("30-c.toml:2:8: error: workload 'b' is already there, at") && said.contains("10-a.toml:4:8"),
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
    assert_eq!(stack("[[policy]]\nname = \"rkube\""), [("rkube", None)], "nobody grants");
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
        let problems = check(&config, &topology, Some(&can), &mut |_| Ok(()));
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
