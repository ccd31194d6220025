//! The Helm chart, without Helm: its values, their schema and its templates agree, and what it writes for the agent is what the
//! page of the configuration has, which the documents' test compares with the agent's own reader.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn chart(name: &str) -> String {
    read(&format!("packaging/chart/quell/{name}"))
}

/// The values that the chart has, by their paths. The file is written so that each stands on a line of its own, as JSON.
fn values() -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut table = "";
    let text = chart("values.yaml");
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("no key: {line}"));
        let (is_inner, value) = (key.starts_with("  "), value.trim());
        if value.is_empty() {
            assert!(!is_inner, "a third level: {line}");
            table = key;
            continue;
        }
        let path = if is_inner { format!("{table}.{}", key.trim()) } else { key.to_owned() };
        let value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(found.insert(path, value).is_none(), "twice: {line}");
    }
    found
}

fn schema() -> Value {
    serde_json::from_str(&chart("values.schema.json")).unwrap()
}

/// The paths that a schema allows.
fn allowed(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        // Helm's own, for charts that are a part of another one.
        if key == "global" {
            continue;
        }
        let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match below.get("properties") {
            Some(_) => allowed(below, &path, found),
            None => _ = found.insert(path),
        }
    }
}

#[test]
fn values_and_schema_have_the_same_keys() {
    let mut allowed_paths = BTreeSet::new();
    allowed(&schema(), "", &mut allowed_paths);
    assert!(allowed_paths.len() > 20, "{allowed_paths:?}");
    assert_eq!(values().into_keys().collect::<BTreeSet<_>>(), allowed_paths);
}

#[test]
fn no_part_of_the_schema_takes_a_key_that_it_does_not_name() {
    fn open(schema: &Value, at: &str, found: &mut Vec<String>) {
        let others = &schema["additionalProperties"];
        // A map of names has a type for what is in it.
        let is_closed = others == &Value::Bool(false) || others.is_object();
        if schema["type"] == "object" && !is_closed {
            found.push(at.to_owned());
        }
        match schema {
            Value::Object(parts) => parts.iter().for_each(|(key, part)| open(part, &format!("{at}/{key}"), found)),
            Value::Array(parts) => parts.iter().for_each(|part| open(part, at, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    open(&schema(), "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn templates_use_every_value_and_no_other_one() {
    let mut used = BTreeSet::new();
    let value = Regex::new(r"\.Values\.([A-Za-z.]+[A-Za-z])").unwrap();
    let folder = root().join("packaging/chart/quell/templates");
    let inner = Regex::new(r"[ (]\.([a-z]+)").unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        used.extend(value.captures_iter(&text).map(|found| found[1].to_owned()));
        if let Some((_, image)) = text.split_once("with .Values.image -") {
            used.extend(inner.captures_iter(image).map(|found| format!("image.{}", &found[1])));
        }
    }
    used.remove("image");
    assert_eq!(used, values().into_keys().collect());
}

/// `quell.toml` with everything in it that the chart can write.
fn configuration() -> toml::Table {
    let values = values();
    let text = chart("templates/configmap.yaml");
    let (_, text) = text.split_once("quell.toml: |\n").unwrap();
    let value = Regex::new(r"\{\{ \.Values\.([A-Za-z.]+)(?: \| toString)? \| toJson \}\}").unwrap();
    let text = value.replace_all(text, |found: &Captures| values[&found[1]].to_string());
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("{{-")).collect();
    lines.join("\n").parse().unwrap_or_else(|error| panic!("{error}: {lines:#?}"))
}

#[test]
fn what_the_chart_writes_is_what_the_agent_reads() {
    let page = read("docs/reference/configuration.md");
    let row = Regex::new(r"(?m)^\| `([a-z_.]+)` \|").unwrap();
    let keys = |heading: &str| -> BTreeSet<String> {
        let (_, below) = page.split_once(&format!("\n## {heading}")).unwrap_or_else(|| panic!("no heading {heading}"));
        let below = below.split("\n## ").next().unwrap();
        row.captures_iter(below).map(|found| found[1].to_owned()).collect()
    };
    let written = configuration();
    let of = |table: &str| -> BTreeSet<String> { written[table].as_table().unwrap().keys().cloned().collect() };
    assert_eq!(of("kubernetes"), keys("`[kubernetes]`"), "every key can be set by the chart");
    assert!(of("attribution").is_subset(&keys("`[attribution]`")), "{:?}", of("attribution"));
    let metrics: BTreeSet<String> = of("metrics").iter().map(|key| format!("metrics.{key}")).collect();
    assert!(metrics.is_subset(&keys("`[api]` and `[metrics]`")), "{metrics:?}");
    assert_eq!(of("api"), BTreeSet::from(["group".to_owned()]));
    assert_eq!(written.len(), 4, "{written:?}");
}

#[test]
fn by_default_the_chart_observes_without_privileges() {
    assert_eq!(values()["kubernetes.mode"], "observe");
    assert_eq!(values()["priorityClassLabels.enabled"], false);
    assert_eq!((&values()["cluster.enabled"], &values()["cluster.mode"]), (&Value::Bool(false), &"recommend".into()));
    assert!(!chart("templates/cluster-roles.yaml").contains('*'));
    let capabilities = values()["capabilities"].clone();
    let has = |name: &str| capabilities.as_array().unwrap().iter().any(|one| one == name);
    // The step into the host's cgroup namespace takes two that are dropped then.
    assert!(has("SYS_NICE") && has("SYS_ADMIN") && !has("SYS_MODULE"), "{capabilities}");
    let daemonset = chart("templates/daemonset.yaml");
    for line in ["privileged: false", "hostPID: true", "drop: [\"ALL\"]", "key: quell.dev/off", "operator: NotIn"] {
        assert!(daemonset.contains(line), "{line}");
    }
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let version = manifest["workspace"]["package"]["version"].as_str().unwrap();
    let text = chart("Chart.yaml");
    let of =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().trim_matches('"').to_owned();
    assert_eq!((of("version:"), of("appVersion:")), (version.to_owned(), version.to_owned()));
}
