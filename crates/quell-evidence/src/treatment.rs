//! A treatment as data: what is done to a scene.

use serde::Deserialize;
use toml::{Table, Value};

/// A way in which a scene is treated: by policies, by settings of Linux, by another scheduler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Treatment {
    /// What measures and the command line call it.
    pub name: String,
    /// What tables call it; empty: its name.
    #[serde(default)]
    pub title: String,
    /// A stack as on the command line, such as `rkube+caladan`; without it Linux as it is.
    #[serde(default = "none")]
    pub policy: String,
    /// Changes of the scene, KEY=VALUE each.
    #[serde(default)]
    pub set: Vec<String>,
    /// Keys of every latency-critical workload.
    #[serde(default)]
    pub lc: Table,
    /// Keys of every best-effort one.
    #[serde(default)]
    pub be: Table,
    /// Without the workloads that work without end.
    #[serde(default)]
    pub alone: bool,
    /// Real programs have a control group each, even where nothing is set in it.
    #[serde(default)]
    pub groups: bool,
    /// Of real programs the work without end is there before the policy is; else it comes after the load.
    #[serde(default)]
    pub be_first: bool,
    /// A sched_ext scheduler that is not Quell's, as words of a command; real threads alone know it.
    #[serde(default)]
    pub sched_ext: Vec<String>,
    /// Keys of `[agent]` in the configuration with which real threads are managed.
    #[serde(default)]
    pub agent: Table,
}

fn none() -> String {
    "none".into()
}

impl Treatment {
    /// The treatments of a text, and the text without them.
    ///
    /// # Errors
    /// What is wrong with it, with the place in the text where that is known.
    pub fn all(text: &str) -> Result<(Vec<Treatment>, String), String> {
        let mut file: Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let treatments = taken_from(&mut file)?;
        Ok((treatments, file.to_string()))
    }

    /// What tables call it.
    #[must_use]
    pub fn title(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }
}

/// The treatments of a file, which has none afterwards.
pub(crate) fn taken_from(file: &mut Table) -> Result<Vec<Treatment>, String> {
    let treatments = file.remove("treatment").map_or(Ok(Vec::new()), Value::try_into);
    treatments.map_err(|error| format!("[[treatment]]: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn treatments_are_read_and_the_rest_is_left() {
        let text = "title = 't'\n[[treatment]]\nname = 'a'\n[[treatment]]\nname = 'b'\ntitle = 'B'";
        let (all, rest) = Treatment::all(text).unwrap();
        assert_eq!(all.iter().map(Treatment::title).collect::<Vec<_>>(), ["a", "B"]);
        assert_eq!((all[0].policy.as_str(), rest.trim()), ("none", "title = \"t\""));
        assert!(Treatment::all("[[treatment]]\ntitle = 'a'").unwrap_err().contains("name"));
    }
}
