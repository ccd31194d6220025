//! The service's demand, from the command line or a file.

use std::path::Path;

use anyhow::{Context, Result};
use quell_policy::vas::{Margin, Releases, Task, TaskSet};
use serde::Deserialize;

/// A file with tasks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demand {
    #[serde(default)]
    sporadic: bool,
    #[serde(default)]
    task: Vec<Task>,
}

/// Points of a CPU, 0 to 100.
pub fn margin(text: &str) -> Result<Margin, String> {
    let points = text.trim().trim_end_matches('%').trim_end().parse().ok();
    points.and_then(Margin::points).ok_or_else(|| "expected percentage points of a CPU, 0 to 100, such as 5".into())
}

/// The tasks of a file or, without one, these.
pub fn tasks(file: Option<&Path>, given: &[Task], sporadic: bool) -> Result<TaskSet> {
    let demand = match file {
        None => Demand { sporadic: false, task: given.to_vec() },
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| {
                format!("cannot read {}; give a file with [[task]], or --task OFFSET,WORK,PERIOD", file.display())
            })?;
            toml::from_str(&text).with_context(|| format!("{}", file.display()))?
        }
    };
    let releases = if sporadic || demand.sporadic { Releases::Sporadic } else { Releases::Periodic };
    let set = TaskSet::new(demand.task, releases);
    match file {
        Some(file) => set.with_context(|| format!("{}", file.display())),
        None => Ok(set?),
    }
}
