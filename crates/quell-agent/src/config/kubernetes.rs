//! `[kubernetes]`: the agent's part in a node of Kubernetes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use quell_model::CpuSet;
use quell_pods::{Mode, Namespaces, Rules};
use serde::Deserialize;
use toml::de::DeValue;

use super::Problems;
use super::keys::{Form, Key, Keys, key};

pub(super) const KUBERNETES: &[Key] = &[
    key("mode", Form::Text, "\"observe\""),
    key("socket", Form::Text, "\"/var/run/nri/nri.sock\""),
    key("lc_namespaces", Form::Any, "\"all\""),
    key("strict_namespaces", Form::Any, "\"all\""),
    key("reserved", Form::Text, "\"0\""),
    key("whole_cores", Form::Switch, "false"),
    key("policy", Form::Switch, "true"),
];

/// The table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// Does it only show, or keep classes and reservations?
    pub mode: Mode,
    /// The runtime's socket for plug-ins.
    pub socket: PathBuf,
    /// The namespaces whose pods may be latency-critical.
    pub lc_namespaces: Namespaces,
    /// The namespaces whose pods may have CPUs of their own.
    pub strict_namespaces: Namespaces,
    /// The CPUs that no pod ever has for itself.
    pub reserved: CpuSet,
    /// Are whole cores reserved?
    pub whole_cores: bool,
    /// Does `guard` manage latency-critical pods?
    pub policy: bool,
}

impl Default for Kubernetes {
    fn default() -> Kubernetes {
        Kubernetes {
            mode: Mode::Observe,
            socket: nri::DEFAULT_SOCKET.into(),
            lc_namespaces: Namespaces::All,
            strict_namespaces: Namespaces::All,
            reserved: CpuSet::EMPTY,
            whole_cores: false,
            policy: true,
        }
    }
}

impl Kubernetes {
    /// What is decided by.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            mode: self.mode,
            may_be_lc: self.lc_namespaces.clone(),
            may_be_strict: self.strict_namespaces.clone(),
            reserved: self.reserved,
            whole_cores: self.whole_cores,
        }
    }
}

/// The word for a mode.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Observe,
    Enforce,
}

/// Takes a file's table over.
pub(super) fn read(kubernetes: &mut Kubernetes, keys: &Keys, problems: &mut Problems) {
    match keys.take::<Word>("mode", problems) {
        Some((Word::Observe, _)) => kubernetes.mode = Mode::Observe,
        Some((Word::Enforce, _)) => kubernetes.mode = Mode::Enforce,
        None => {}
    }
    if let Some((socket, byte)) = keys.take::<PathBuf>("socket", problems) {
        if !socket.is_absolute() {
            problems.error(&keys.source.at(byte), "not an absolute path; write \"/var/run/nri/nri.sock\"");
        }
        kubernetes.socket = socket;
    }
    for (key, namespaces) in
        [("lc_namespaces", &mut kubernetes.lc_namespaces), ("strict_namespaces", &mut kubernetes.strict_namespaces)]
    {
        if let Some(read) = some_namespaces(key, keys, problems) {
            *namespaces = read;
        }
    }
    if let Some((reserved, _)) = keys.take("reserved", problems) {
        kubernetes.reserved = reserved;
    }
    if let Some((whole_cores, _)) = keys.take("whole_cores", problems) {
        kubernetes.whole_cores = whole_cores;
    }
    if let Some((policy, _)) = keys.take("policy", problems) {
        kubernetes.policy = policy;
    }
}

/// `"all"`, or a list of names.
fn some_namespaces(key: &str, keys: &Keys, problems: &mut Problems) -> Option<Namespaces> {
    let value = keys.raw(key)?;
    let mut wrong = |byte: usize| {
        let what = format!("{key} is neither \"all\" nor a list of namespaces; write [\"shop\", \"search\"]");
        problems.error(&keys.source.at(byte), what);
    };
    match value.get_ref() {
        DeValue::String(text) if &**text == "all" => Some(Namespaces::All),
        DeValue::Array(list) => {
            let mut names = BTreeSet::new();
            for entry in list {
                match entry.get_ref() {
                    DeValue::String(name) if is_namespace(name) => _ = names.insert(name.to_string()),
                    _ => wrong(entry.span().start),
                }
            }
            Some(Namespaces::Named(names))
        }
        _ => {
            wrong(value.span().start);
            None
        }
    }
}

/// A DNS label, as Kubernetes has it.
fn is_namespace(name: &str) -> bool {
    let is_end = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    name.len() <= 63
        && name.bytes().all(|letter| is_end(letter) || letter == b'-')
        && name.bytes().next().is_some_and(is_end)
        && name.bytes().last().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Problems, read_text};

    fn read(text: &str) -> Result<Kubernetes, Problems> {
        read_text(Path::new("q.toml"), text).map(|config| config.kubernetes.unwrap())
    }

    #[test]
    fn an_empty_table_observes() {
        assert_eq!(read("[kubernetes]").unwrap(), Kubernetes::default());
        assert_eq!(read("[kubernetes]").unwrap().mode, Mode::Observe);
    }

    #[test]
    fn every_key_is_read() {
        let text = "[kubernetes]\nmode = \"enforce\"\nsocket = \"/run/x.sock\"\nlc_namespaces = [\"shop\"]\n\
                    strict_namespaces = []\nreserved = \"0-1\"\nwhole_cores = true\npolicy = false\n";
        let expected = Kubernetes {
            mode: Mode::Enforce,
            socket: "/run/x.sock".into(),
            lc_namespaces: Namespaces::Named(["shop".to_owned()].into()),
            strict_namespaces: Namespaces::Named(BTreeSet::new()),
            reserved: "0-1".parse().unwrap(),
            whole_cores: true,
            policy: false,
        };
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn beside_strict_pods_no_policy_gives_cpus_away() {
        let with = |mode: &str, policy: &str| {
            let text = format!("[kubernetes]\nmode = \"{mode}\"\n[[policy]]\nname = \"{policy}\"\n");
            read(&text).map_err(|problems| problems.to_string())
        };
        for policy in ["rkube", "caladan"] {
            let why = with("enforce", policy).unwrap_err();
            assert!(why.contains("q.toml:4:") && why.contains("gives CPUs away"), "{why}");
            assert!(with("observe", policy).is_ok());
        }
        assert!(with("enforce", "guard").is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_nothing_is_taken() {
        for (line, part) in [
            ("mode = \"on\"", "there is no mode"),
            ("socket = \"nri.sock\"", "absolute"),
            ("lc_namespaces = \"some\"", "neither \"all\" nor a list"),
            ("strict_namespaces = [\"Shop\"]", "neither \"all\" nor a list"),
            ("reserved = \"x\"", "x"),
            ("reservd = \"0\"", "did you mean 'reserved'"),
        ] {
            let problems = read(&format!("[kubernetes]\n{line}\n")).unwrap_err().to_string();
            assert!(problems.contains("q.toml:2:") && problems.contains(part), "{line}: {problems}");
        }
    }
}
