//! What is refused, and where the message points.

use std::path::Path;

use crate::scenario::Scenario;

const TEXT: &str = r#"duration = "1s"
machine = { cores = 4 }

[[workload]]
name = "app"
class = "lc"
threads = 4
pool = { main = 1, helper = 3 }

[[workload]]
name = "store"
class = "lc"
copies = 2
threads = 2
pool = {}

[[workload]]
name = "hog"
class = "be"
batch = {}

[[lock]]
name = "index"

[[request]]
name = "search"
arrivals = { poisson = 100.0 }

[[request.stage]]
name = "parse"
on = "app.main"
steps = [{ work = { exponential = "1ms" } }, { signal = "asked" }, { wait = ["look-up"] }]

[[request.stage]]
name = "look-up"
on = "app.helper"
after = ["asked"]
steps = [{ work = { exponential = "1ms" }, lock = "index" }]

[[request]]
name = "put"
copies = 2
clients = { number = 1, think = { constant = "1ms" } }

[[request.stage]]
name = "write"
on = "store"
steps = [{ work = { constant = "1ms" } }]
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("s.toml"), text, &[]).map_err(|error| error.to_string())
}

#[test]
fn copies_are_written_out_and_use_each_other() {
    let scenario = parse(TEXT).unwrap();
    let names: Vec<&str> = scenario.workloads.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["app", "store-1", "store-2", "hog"]);
    let puts: Vec<(&str, &str)> =
        scenario.requests[1..].iter().map(|put| (put.name.as_str(), put.stages[0].on.as_str())).collect();
    assert_eq!(puts, [("put-1", "store-1"), ("put-2", "store-2")]);
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let refused = |from: &str, to: &str, parts: &[&str]| {
        let text = TEXT.replacen(from, to, 1);
        assert_ne!(text, TEXT);
        let error = parse(&text).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
    };
    refused("\"store\"\nsteps", "\"stare\"\nsteps", &["s.toml:47", "'stare'", "not a workload"]);
    refused("app.main\"", "app\"", &["'app'", "app.helper, app.main"]);
    refused("app.main\"", "hog\"", &["'hog'", "give it a pool"]);
    refused("lock = \"index\" }", "lock = \"idnex\" }", &["s.toml:38", "'idnex' is not a lock"]);
    refused("after = [\"asked\"]", "after = [\"aksed\"]", &["s.toml:37", "'aksed'", "'look-up'"]);
    refused("[\"look-up\"]", "[\"lock-up\"]", &["s.toml:32", "'lock-up'"]);
    refused("after = [\"asked\"]", "", &["'search'", "exactly one first stage"]);
    refused("after = [\"asked\"]", "after = [\"parse\"]", &["'parse'", "waits for 'look-up'", "circle"]);
    refused("after = [\"asked\"]", "after = [\"look-up\"]", &["'look-up'", "circle"]);
    refused("{ signal = \"asked\" }", "{ signal = \"look-up\" }", &["two stages or signals", "'look-up'"]);
    refused("{ signal = \"asked\" }", "{ signal = \"asked\", lock = \"index\" }", &["s.toml:32", "a step is one of"]);
    refused("{ signal = \"asked\" }", "{ singal = \"asked\" }", &["s.toml:32", "singal"]);
    refused("{ wait = [\"look-up\"] }", "{ barrier = \"b\" }, { barrier = \"b\" }", &["'parse'", "barrier"]);
    refused("poisson = 100.0", "poisson = 1100.0", &["'index'", "would be held 1.10 times"]);
    refused(
        ", lock = \"index\" }",
        " }, { work = { constant = \"30ms\" } }",
        &["s.toml:36", "'app.helper'", "3.10 CPUs", "3 threads"],
    );
    refused("arrivals = { poisson = 100.0 }", "", &["s.toml:26", "either arrivals or clients"]);
    refused("number = 1", "number = 0", &["'put-1'", "s.toml:41", "at least one"]);
    refused("copies = 2", "copies = 0", &["'store'", "0 copies"]);
    refused("threads = 4\n", "threads = 5\n", &["s.toml:5", "4 threads together"]);
    refused("name = \"put\"\ncopies = 2", "name = \"search\"", &["s.toml:26", "two requests are named 'search'"]);
}

#[test]
fn threads_that_may_all_wait_for_one_of_them_are_refused() {
    let shared = TEXT.replace("pool = { main = 1, helper = 3 }", "pool = {}").replace("app.main", "app");
    let shared = shared.replace("app.helper", "app");
    let error = parse(&shared).unwrap_err();
    assert!(error.contains("s.toml:5: 'app' has 4 threads") && error.contains("at_most"), "{error}");
    let limited = |most: u32| shared.replace("poisson = 100.0 }", &format!("poisson = 100.0 }}\nat_most = {most}"));
    assert!(parse(&limited(2)).is_ok());
    let error = parse(&limited(3)).unwrap_err();
    assert!(error.contains("give it 6 threads"), "{error}");
}
