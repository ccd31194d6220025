//! `quell reproduce` of what the simulator shows. The same seeds give the same rows on every machine, so that none may
//! differ here.

use std::process::Command;

use serde_json::Value;

fn rows(topic: &str) -> Vec<Value> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_quell")).args(["reproduce", topic, "--quick", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is(row: &Value, verdict: &str) -> bool {
    row["verdict"] == verdict
}

#[test]
fn queues_are_as_in_theory_up_to_a_load_of_90_percent() {
    let rows = rows("queueing");
    assert_eq!(rows.len(), 32);
    for row in &rows {
        let id = row["id"].as_str().unwrap();
        assert!(is(row, if id.contains(".0.95.") { "not-run" } else { "reproduced" }), "{row}");
        let has_interval = row["note"].as_str().unwrap().contains("99 % interval");
        assert_eq!(has_interval, row["ours"].is_number(), "{row}");
    }
}

#[test]
fn shares_and_schedules_are_as_promised_drawn_and_worked_out_elsewhere() {
    let rows = rows("fairness");
    assert_eq!(rows.len(), 30);
    for row in &rows {
        let id = row["id"].as_str().unwrap();
        // A sentence without a number, and a drawing that leaves pieces of quota out.
        let is_shape = id.contains("figure4") || id.contains("figure3b-pieces");
        assert!(is(row, if is_shape { "shape" } else { "reproduced" }), "{row}");
    }
}
