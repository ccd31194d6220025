//! The scenes as files.

use std::path::{Path, PathBuf};

use quell_sim::scenario::Scenario;
use serde::Deserialize;

/// `scenes/recommend/index.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    pub written_with: Vec<String>,
    pub held_out: Vec<String>,
    pub batch_may_get_less: Vec<String>,
    #[serde(default)]
    pub misses: Vec<String>,
    #[serde(default)]
    pub quick: Vec<String>,
}

impl Index {
    pub fn read() -> Index {
        let text = std::fs::read_to_string(folder().join("index.toml")).unwrap();
        toml::from_str(&text).unwrap()
    }

    /// The names of all scenes that there are.
    pub fn scenes() -> Vec<String> {
        let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        files.map(name).filter(|name| name != "index").collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenes/recommend")
}

/// One scene.
pub struct Scene {
    pub name: String,
    pub scenario: Scenario,
    pub batch_may_get_less: bool,
}

impl Scene {
    pub fn read(name: &str, index: &Index) -> Scene {
        let scenario = Scenario::read(&folder().join(format!("{name}.toml")), &[]).unwrap();
        Scene {
            name: name.to_owned(),
            scenario,
            batch_may_get_less: index.batch_may_get_less.iter().any(|other| other == name),
        }
    }

    /// Has the machine sched_ext?
    pub fn has_own_scheduler(&self) -> bool {
        self.scenario.machine.scheduler() != quell_model::Scheduler::Kernel
    }
}
