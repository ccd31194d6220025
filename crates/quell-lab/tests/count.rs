//! A request costs what it did: instructions of kernel and BPF programs in the scene `spin`, in rounds of 1 µs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

/// Instructions by treatment and place. A change on purpose is committed with it: the failure prints what to write there.
const EXPECTED: &str = "scenes/counts/spin.json";
/// Of what was expected.
const WITHIN: f64 = 0.01;

fn counted() -> Value {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_quell-lab"));
    let product = program.with_file_name("quell");
    assert!(product.is_file(), "{} is not there: cargo build -p quell-cli", product.display());
    let output = Command::new(program).args(["count", "spin", "--duration", "1s", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Kernel and BPF instructions a request, by treatment and place.
fn costs(counted: &Value) -> Value {
    let treatments = counted["treatments"].as_array().unwrap().iter();
    let of = |treatment: &Value| -> Value {
        let places = treatment["a_request"].as_array().unwrap().iter();
        let cost = |place: &Value| (place["kernel"].as_f64().unwrap() + place["bpf"].as_f64().unwrap()).round();
        let places = places.map(|place| (place["place"].as_str().unwrap().to_owned(), cost(place).into()));
        Value::Object(places.collect())
    };
    let costs: Map<_, _> = treatments.map(|one| (one["treatment"].as_str().unwrap().to_owned(), of(one))).collect();
    costs.into()
}

/// The places where it differs by more than the allowed part.
fn differing(found: &Value, expected: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (treatment, places) in expected.as_object().unwrap() {
        for (place, cost) in places.as_object().unwrap() {
            let (cost, now) = (cost.as_f64().unwrap(), found[treatment][place].as_f64());
            if now.is_none_or(|now| (now - cost).abs() > WITHIN * cost) {
                wrong.push(format!("{treatment}, {place}: {now:?} instructions a request, {cost} expected"));
            }
        }
    }
    wrong
}

#[test]
#[ignore = "make count: boots two guests, which takes minutes"]
fn a_request_costs_what_it_did() {
    let found = costs(&counted());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let wrong = match std::fs::read_to_string(root.join(EXPECTED)) {
        Ok(text) => differing(&found, &serde_json::from_str(&text).unwrap()),
        Err(error) => vec![format!("{EXPECTED}: {error}")],
    };
    let now = serde_json::to_string_pretty(&found).unwrap();
    assert!(wrong.is_empty(), "{}\n{EXPECTED} would be:\n{now}", wrong.join("\n"));
}

#[test]
fn more_than_a_hundredth_is_a_difference() {
    let costs = |managed: f64, all: f64| serde_json::json!({ "caladan": { "managed": managed, "all": all } });
    assert!(differing(&costs(100.9, 199.0), &costs(100.0, 200.0)).is_empty());
    assert_eq!(differing(&costs(101.1, 190.0), &costs(100.0, 200.0)).len(), 2);
    assert_eq!(differing(&serde_json::json!({}), &costs(100.0, 200.0)).len(), 2);
}
