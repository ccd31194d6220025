//! A policy with the parameters that `--set` gives it.

use anyhow::{Context, Result, bail};
use quell_policy::AnyPolicy;
use serde_json::{Map, Value};

/// The policy of this name with `NAME=VALUE`, where a name may reach into tables (`tasks.web.thresh_qd=20us`).
pub fn policy(name: &str, set: &[String]) -> Result<AnyPolicy> {
    Ok(AnyPolicy::build(name, Value::Object(map(set)?))?)
}

/// The parameters that `NAME=VALUE` gives.
pub fn map(set: &[String]) -> Result<Map<String, Value>> {
    let mut parameters = Map::new();
    for text in set {
        let (key, value) = text
            .split_once('=')
            .with_context(|| format!("--set {text}: expected NAME=VALUE, such as run_budget=20ms"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        let (path, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
        let mut table = &mut parameters;
        for part in path.into_iter().flat_map(|path| path.split('.')) {
            table = match table.entry(part).or_insert_with(|| Value::Object(Map::new())) {
                Value::Object(below) => below,
                _ => bail!("--set {text}: '{part}' has nothing below it"),
            };
        }
        table.insert(last.to_owned(), value);
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, set: &[&str]) -> Result<AnyPolicy, String> {
        policy(name, &set.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn times_need_units_and_values_their_range_on_the_command_line_too() {
        for (text, parts) in [
            ("interval=20", &["interval = 20", "unit", "1ms to 1s"][..]),
            ("priority=100", &["priority = 100", "1 to 95"]),
            ("run_budget=0s", &["run_budget = \"0s\"", "1ms to 10s"]),
            ("interval=1000s", &["interval = \"1000s\"", "1ms to 1s"]),
            ("intervall=1ms", &["did you mean 'interval'"]),
            ("interval", &["NAME=VALUE"]),
        ] {
            let error = given("guard", &[text]).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
        assert!(given("gaurd", &[]).unwrap_err().contains("did you mean 'guard'"));
    }

    #[test]
    fn names_reach_into_tables() {
        let both = ["tasks.web.thresh_qd=20us", "tasks.web.thresh_ht=30us"];
        let inline = [r#"tasks={"web": {"thresh_qd": "20us", "thresh_ht": "30us"}}"#];
        assert_eq!(given("caladan", &both).unwrap(), given("caladan", &inline).unwrap());
        assert!(given("caladan", &["interval=1ms", "interval.a=1"]).unwrap_err().contains("nothing below"));
    }
}
