//! The references name every key that the files take. What is taken is asked of the reader itself: it lists the keys of a
//! table in which it finds one that it does not know.

use std::path::Path;

use quell_sim::scenario::Scenario;
use regex::Regex;

use quell_checks::documents::page;

/// A scenario with a key that is not known, in each table that there is, and the heading below which its keys stand.
const SCENARIO: &[(&str, &str)] = &[
    ("The top", "nosuch = 1"),
    ("The top", "machine = { cores = 1, nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nnosuch = 1"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\nserver = { nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\nclosed = { nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\nbatch = { nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\nparallel = { nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\nperiodic = { nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\njobs = { nosuch = 1 }"),
    ("`[[workload]]`", "[[workload]]\nname = \"a\"\nclass = \"be\"\nforks = { nosuch = 1 }"),
    ("Arrivals", "[[workload]]\nname = \"a\"\nclass = \"be\"\nserver = { arrivals = { nosuch = 1 } }"),
    ("Distributions", "[[workload]]\nname = \"a\"\nclass = \"be\"\nserver = { service = { nosuch = 1 } }"),
    ("`[[request]]` and", "[[request]]\nnosuch = 1"),
    ("`[[request]]` and", "[[request]]\nname = \"r\"\n[[request.stage]]\nnosuch = 1"),
    ("`[[request]]` and", "[[lock]]\nnosuch = 1"),
    ("`[[vm]]`", "[[vm]]\nnosuch = 1"),
    ("`[kernel]`", "[kernel]\nnosuch = 1"),
    ("`[kernel]`", "[kernel.costs]\nnosuch = 1"),
    ("`[contention]`", "[contention]\nnosuch = 1"),
];

/// The same of a configuration.
const CONFIGURATION: &[(&str, &str)] = &[
    ("`[machine]`", "[machine]\nnosuch = 1"),
    ("`[machine]`", "[machine.solo_runs]\nnosuch = 1"),
    ("`[agent]`", "[agent]\nnosuch = 1"),
    ("`[api]` and", "[api]\nnosuch = 1"),
    ("`[api]` and", "[metrics]\nnosuch = 1"),
    ("`[attribution]`", "[attribution]\nnosuch = 1"),
    ("`[kubernetes]`", "[kubernetes]\nnosuch = 1"),
    ("`[[policy]]`", "[[policy]]\nnosuch = 1"),
    ("`[[workload]]`", "[[workload]]\nnosuch = 1"),
];

/// What a page has below a heading of the second level.
fn below<'a>(page: &'a str, heading: &str) -> &'a str {
    let wanted = format!("\n## {heading}");
    let from = page.find(&wanted).unwrap_or_else(|| panic!("there is no heading {heading}"));
    let text = &page[from + wanted.len()..];
    text.split("\n## ").next().unwrap()
}

/// The keys that the message lists.
fn keys(message: &str) -> Vec<String> {
    if let Some((_, list)) = message.split_once("there are: ") {
        return list.lines().next().unwrap_or_default().split(", ").map(str::to_owned).collect();
    }
    let (_, list) = message.split_once("expected").unwrap_or_else(|| panic!("no keys are listed: {message}"));
    let word = Regex::new("[`']([a-z_-]+)[`']").unwrap();
    word.captures_iter(list).map(|found| found[1].to_owned()).collect()
}

fn missing(name: &str, tables: &[(&str, &str)], refusal: impl Fn(&str) -> String) -> Vec<String> {
    let pages = page::all();
    let page = pages.iter().find(|page| page.name == name).unwrap();
    let text = std::fs::read_to_string(&page.path).unwrap();
    let mut missing = Vec::new();
    for (heading, table) in tables {
        let keys = keys(&refusal(table));
        assert!(!keys.is_empty(), "{table}");
        let is_missing =
            |key: &&String| !Regex::new(&format!("[`.{{ ]{key}[`\" =.]")).unwrap().is_match(below(&text, heading));
        missing.extend(keys.iter().filter(is_missing).map(|key| format!("{name}, {heading}: `{key}` ({table})")));
    }
    missing
}

#[test]
fn the_references_have_every_key() {
    let scenario = |text: &str| Scenario::parse(Path::new("s"), text, &[]).unwrap_err().to_string();
    let mut wrong = missing("docs/lab/scenarios.md", SCENARIO, scenario);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    let configuration = |text: &str| {
        std::fs::write(&file, text).unwrap();
        quell_agent::config::read(&file).unwrap_err().to_string()
    };
    wrong.extend(missing("docs/reference/configuration.md", CONFIGURATION, configuration));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
