//! The whole command, on scenarios that take no time.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::simulate::compare::Outcome;

/// A server and batch work on two CPUs; the service times are random, the arrivals too.
const SMALL: &str = r#"
title = "small & <fast>"
duration = "200ms"
warm_up = "20ms"
machine = { cores = 2 }

[[workload]]
name = "server"
class = "lc"
cpus = 1.0
slo = { quantile = 0.99, bound = "1ms" }
server = { arrivals = { poisson = 8000.0 }, service = { exponential = "100us" } }

[[workload]]
name = "batch, \"big\""
class = "be"
threads = 2
batch = {}
"#;

const ASKED: json::Asked = json::Asked { scenario: "small", set: &[] };

fn plan_of(text: &str, set: &[&str], sweep: &[&str], policies: &[&str]) -> Result<Plan> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    Plan::read(file.path(), &owned(set), &owned(sweep), &owned(policies))
}

fn run_all(plan: &Plan, detail: Detail) -> Vec<Outcome> {
    compare::all(plan, detail, &Progress::new(plan.simulated(), plan.runs())).unwrap()
}

fn shipped(changes: &[&str]) -> Scenario {
    let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
    let memcached = SHIPPED.iter().find(|shipped| shipped.name == "memcached-2cpus").unwrap();
    Scenario::parse(Path::new("s"), memcached.text, &changes).unwrap()
}

#[test]
fn policies_are_those_named_with_the_scenarios_parameters() {
    let scenario = shipped(&["policy.guard.parameters.priority=7"]);
    let policies = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        stacks::of(&scenario, &only, &mut BTreeSet::new())
    };
    let names = |only: &[&str]| policies(only).unwrap().into_iter().map(|stack| stack.name).collect::<Vec<_>>();
    assert_eq!(names(&[]), ["none", "guard"]);
    assert_eq!(names(&["caladan"]), ["caladan"]);
    let guard = &policies(&["guard"]).unwrap()[0].treatment.policies[0].0;
    assert!(serde_json::to_string(guard).unwrap().contains("\"priority\":7"));
    assert!(policies(&["nothere"]).unwrap_err().to_string().contains("nothere"));
}

#[test]
fn the_tables_are_these() {
    let plan = plan_of(SMALL, &[], &["workload.server.threads=1,4"], &["none", "caladan"]).unwrap();
    insta::assert_snapshot!(table::text(&plan, &run_all(&plan, Detail::Blocks), &Screen::UNBOUNDED));
}

#[test]
fn the_tables_fit_the_terminal() {
    let plan = plan_of(SMALL, &[], &[], &["none", "caladan"]).unwrap();
    let outcomes = run_all(&plan, Detail::Blocks);
    for columns in [80, 200] {
        let text = table::text(&plan, &outcomes, &Screen::columns(columns));
        quell_report::testing::assert_fits(&text, columns);
        insta::assert_snapshot!(format!("sim_{columns}"), text);
    }
}

#[test]
fn the_csv_is_this() {
    let plan = plan_of(SMALL, &["repetitions=2"], &["kernel.preemption=lazy,full"], &[]).unwrap();
    let csv = csv::text(&run_all(&plan, Detail::Blocks));
    insta::assert_snapshot!(csv);
    // Commas within quotes belong to their cell.
    let cells = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
    let head = cells(csv.lines().next().unwrap());
    assert!(csv.lines().skip(1).all(|line| cells(&line.replace("\"\"", "")) == head), "{csv}");
}

#[test]
fn sweeps_are_run_in_all_combinations() {
    let sweeps = ["seed=1,2,3", "workload.server.threads=1,2"];
    let plan = plan_of(SMALL, &["duration=20ms"], &sweeps, &["none", "caladan"]).unwrap();
    assert_eq!((plan.entries.len(), plan.runs()), (6, 12));
    let outcomes = run_all(&plan, Detail::Totals);
    assert_eq!(outcomes[3].name(), "caladan, seed=1, workload.server.threads=2");
    let json = json::lines(&ASKED, &outcomes, false).unwrap();
    let line: serde_json::Value = serde_json::from_str(json.lines().nth(11).unwrap()).unwrap();
    assert_eq!(line["sweep"], serde_json::json!({"seed": 3, "workload.server.threads": 2}));
    assert_eq!(line["policy"], "caladan");
    // Other seeds, other arrivals.
    assert_ne!(outcomes[0].report, outcomes[4].report);
}

#[test]
fn what_is_asked_for_is_refused_with_the_fix() {
    let refused = |set: &[&str], sweep: &[&str]| format!("{:#}", plan_of(SMALL, set, sweep, &[]).err().unwrap());
    assert!(refused(&["repetitions=0"], &[]).contains("give 1 to 10000"));
    assert!(refused(&[], &["workload.server.threads="]).contains("a value is missing"));
    let many = refused(&["repetitions=2000"], &["seed=1,2,3"]);
    assert!(many.contains("6000 runs") && many.contains("5000 are possible"), "{many}");
    let parameter = "policy.guard.parameters.budgets=1ms";
    let guard = format!("{SMALL}\n[[policy]]\nname = \"guard\"\n");
    let error = format!("{:#}", plan_of(&guard, &[], &[parameter], &[]).err().unwrap());
    assert!(
        error.contains(parameter) && error.contains("there is no parameter 'budgets'; there are: interval"),
        "{error}"
    );
    let with = |parameters: &str, set: &[&str]| {
        let text = format!("{SMALL}\n[[policy]]\nname = \"guard\"\nparameters = {{ {parameters} }}\n");
        format!("{:#}", plan_of(&text, set, &[], &[]).err().unwrap())
    };
    for (parameters, part) in [
        ("interval = 20", "interval = 20: a time needs a unit"),
        ("interval = \"1000s\"", "interval = \"1000s\": out of range: give 1ms to 1s"),
        ("run_budget = \"0s\"", "run_budget = \"0s\": out of range"),
        ("priority = 100", "priority = 100: out of range"),
    ] {
        let error = with(parameters, &[]);
        let line = SMALL.lines().count() + 4;
        assert!(error.contains(&format!(":{line}:")) && error.contains(part) && !error.contains('\n'), "{error}");
        let change = format!("policy.guard.parameters.{}", parameters.replace([' ', '"'], ""));
        let error = with("", &[&change]);
        assert!(error.starts_with(&format!("--set {change}: the parameters")) && error.contains(part), "{error}");
    }
    let unknown = Plan::read(Path::new("nothing"), &[], &[], &[]).err().unwrap();
    assert!(format!("{unknown:#}").contains("nothing") && format!("{unknown:#}").contains("colocation"));
    let both = Simulation {
        scenario: "colocation".into(),
        json: Some("-".into()),
        csv: Some("-".into()),
        ..Simulation::default()
    };
    assert!(run(&both).unwrap_err().to_string().contains("--csv=FILE"));
}

#[test]
fn however_many_threads_run_it_the_bytes_are_the_same() {
    let plan = plan_of(SMALL, &["repetitions=3"], &["seed=1,9"], &["none", "caladan"]).unwrap();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| json::lines(&ASKED, &run_all(&plan, Detail::Course), true).unwrap())
    };
    let one = with(1);
    assert_eq!(one, with(4));
    assert_eq!(one.matches("\"series\"").count(), 4);
}

#[test]
fn looking_on_changes_nothing() {
    let plan = plan_of(SMALL, &[], &[], &["none", "caladan", "guard"]).unwrap();
    let without_intervals = |detail| {
        let mut outcomes = run_all(&plan, detail);
        let workloads = outcomes.iter_mut().flat_map(|outcome| &mut outcome.report.workloads);
        let intervals: Vec<_> = workloads.map(|workload| workload.intervals.take()).collect();
        (outcomes.into_iter().map(|outcome| outcome.report).collect::<Vec<_>>(), intervals)
    };
    let [totals, blocks, course] = [Detail::Totals, Detail::Blocks, Detail::Course].map(without_intervals);
    assert_eq!(totals.0, blocks.0);
    assert_eq!(blocks, course);
    assert!(totals.1.iter().all(Option::is_none) && blocks.1[0].unwrap().p99.is_some());
}

#[test]
fn the_course_of_time_adds_up_to_the_totals() {
    let plan = plan_of(SMALL, &[], &[], &["none", "caladan"]).unwrap();
    for outcome in run_all(&plan, Detail::Course) {
        let course = outcome.course.as_ref().unwrap();
        assert_eq!(course.ends.len(), 200);
        assert_eq!(course.workloads[0].cpus_granted.is_some(), outcome.report.policy == "caladan");
        for (seen, total) in course.workloads.iter().zip(&outcome.report.workloads) {
            assert_eq!(seen.completed.iter().sum::<u64>(), total.completed);
            let mean = seen.cpus_got.iter().sum::<f64>() / 200.0;
            assert!((mean - total.cpus_got).abs() < 0.01, "{mean} {}", total.cpus_got);
            assert_eq!(seen.max.iter().flatten().max().copied(), total.max);
        }
        let granted = |at: usize| course.workloads[at].cpus_granted.iter().flatten().sum::<f64>() / 200.0;
        let all = granted(0) + granted(1);
        assert!(outcome.report.policy != "caladan" || (1.0..=2.0 + 1e-9).contains(&all), "{all}");
    }
}

#[test]
fn intervals_are_wide_where_repetitions_differ_and_nothing_where_they_do_not() {
    let interval = |text: &str| {
        let plan = plan_of(text, &["repetitions=4", "duration=1s"], &[], &[]).unwrap();
        run_all(&plan, Detail::Blocks)[0].report.workloads[0].intervals.unwrap()
    };
    let random = interval(SMALL);
    let (low, high) = random.p99.unwrap();
    assert!(low < high, "{random:?}");
    // 32,000 requests, but 8,000 in each repetition.
    assert_eq!(random.p999, None);
    let alone = SMALL.split("[[workload]]\nname = \"batch").next().unwrap();
    let constant = alone.replace("poisson", "uniform").replace("exponential", "constant");
    let (low, high) = interval(&constant).p99.unwrap();
    assert_eq!(low, high);
}

#[test]
fn of_many_workloads_the_smaller_ones_are_drawn_together() {
    let many = SMALL.replace("class = \"be\"", "class = \"be\"\ncopies = 11");
    let plan = plan_of(&many, &["duration=20ms"], &[], &["none", "caladan"]).unwrap();
    let html = page::of(&plan, &run_all(&plan, Detail::Course)).to_html();
    check_elements(&html);
    assert!(html.contains("the other 5") && html.contains("Charts show 8 of the 12 workloads"));
}

/// Every element that is opened is closed, in order.
fn check_elements(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let tag = tag.split_once('>').expect("a tag ends").0;
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        match tag {
            _ if tag.starts_with('!') || tag.ends_with('/') || name == "meta" => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name)),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_has_every_chart_and_is_well_formed() {
    let plan = plan_of(SMALL, &[], &[], &["none", "caladan"]).unwrap();
    let html = page::of(&plan, &run_all(&plan, Detail::Course)).to_html();
    check_elements(&html);
    for part in [
        "small &amp; &lt;fast&gt;</h1>",
        "Latency distribution of server",
        "p99 of server in each 1.00 ms",
        "CPUs got: none",
        "CPUs got: caladan",
        "CPUs granted: caladan",
        "poisson = 8000.0",
        "from seed 1",
        concat!("quell ", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("CPUs granted: none") && !html.contains("distribution of batch"));
    // Two distributions, two latencies over time, three times CPUs of two workloads.
    assert_eq!(html.matches("<path class=\"curve").count(), 10);
    for outside in ["src=", "href=", "url(", "@import"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_swept_number_has_charts_against_it() {
    let sweeps = ["workload.server.server.arrivals.poisson=2000.0,5000.0,8000.0", "kernel.preemption=lazy,full"];
    let plan = plan_of(SMALL, &["duration=600ms"], &sweeps, &["none", "caladan"]).unwrap();
    let html = page::of(&plan, &run_all(&plan, Detail::Course)).to_html();
    check_elements(&html);
    for part in [
        "p99 of server against workload.server.server.arrivals.poisson",
        "Throughput of server against",
        "CPUs got of batch",
        "none, kernel.preemption=lazy",
        "caladan, kernel.preemption=full",
        "there are no curves over time",
        "--sweep kernel.preemption=lazy,full",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<path class=\"curve").count(), 3 * 4);
}
