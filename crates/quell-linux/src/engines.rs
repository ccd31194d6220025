//! What container engines call their containers: name and labels of an id, from the state that each engine keeps on disk.
//!
//! The kernel knows ids alone. Only root writes these files, and only files that root owns are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The largest file that is read: an engine's own are a hundredth of this.
const LARGEST: u64 = 4 << 20;

/// Name and labels of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its names; Docker gives one, Podman and CRI-O may give several.
    pub names: Vec<String>,
    /// Its labels; of Docker's containers only.
    pub labels: BTreeMap<String, String>,
}

impl Known {
    /// Has it this label? `KEY=VALUE`, or `KEY` for any value.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        match label.split_once('=') {
            Some((key, value)) => self.labels.get(key).is_some_and(|has| has == value),
            None => self.labels.contains_key(label),
        }
    }
}

/// The containers that the engines know.
#[derive(Clone, Debug, Default)]
pub struct Engines {
    docker: PathBuf,
    /// By id, as Podman and CRI-O list them all in one file.
    stored: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct DockerDaemon {
    #[serde(rename = "data-root")]
    data: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerContainer {
    #[serde(default)]
    name: String,
    config: Option<DockerConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerConfig {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Stored {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
}

impl Engines {
    /// Those of the machine whose root directory this is.
    #[must_use]
    pub fn at(root: &Path) -> Engines {
        let daemon: Option<DockerDaemon> = read(&root.join("etc/docker/daemon.json"));
        let data = daemon.and_then(|daemon| daemon.data).unwrap_or_else(|| "/var/lib/docker".into());
        let docker = root.join(data.strip_prefix("/").unwrap_or(&data)).join("containers");
        let mut stored = BTreeMap::new();
        for list in ["overlay-containers/containers.json", "overlay-containers/volatile-containers.json"] {
            let all: Vec<Stored> = read(&root.join("var/lib/containers/storage").join(list)).unwrap_or_default();
            stored.extend(all.into_iter().map(|one| (one.id, one.names.unwrap_or_default())));
        }
        Engines { docker, stored }
    }

    /// What is known of the container with this id; nothing: no engine on this machine that says it.
    #[must_use]
    pub fn known(&self, id: &str) -> Known {
        let mut known = Known { names: self.stored.get(id).cloned().unwrap_or_default(), ..Known::default() };
        if let Some(docker) = read::<DockerContainer>(&self.docker.join(id).join("config.v2.json")) {
            known.names.push(docker.name.trim_start_matches('/').to_owned());
            known.labels = docker.config.and_then(|config| config.labels).unwrap_or_default();
        }
        known
    }
}

/// A file of root's, or of this process's user; None: there is none that can be read so.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    // A pipe in its place does not hold up the loop.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let is = file.metadata().ok()?;
    let own = rustix::process::geteuid().as_raw();
    if !is.is_file() || is.len() > LARGEST || ![0, own].contains(&is.uid()) || is.mode() & 0o022 != 0 {
        return None;
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::fs;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn docker_gives_a_name_and_labels_also_where_its_data_lie_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let config = r#"{"ID":"1f","Name":"/web","Config":{"Image":"nginx","Labels":{"app":"shop","empty":""}}}"#;
        write(root.path(), "var/lib/docker/containers/1f/config.v2.json", config);
        let known = Engines::at(root.path()).known("1f");
        assert_eq!(known.names, ["web"]);
        assert!(["app", "app=shop", "empty", "empty="].iter().all(|label| known.has_label(label)));
        assert!(["app=", "app=shops", "shop", ""].iter().all(|label| !known.has_label(label)));
        assert_eq!(Engines::at(root.path()).known("2e"), Known::default());
        write(root.path(), "etc/docker/daemon.json", r#"{"data-root": "/srv/docker"}"#);
        assert_eq!(Engines::at(root.path()).known("1f"), Known::default());
        write(root.path(), "srv/docker/containers/1f/config.v2.json", r#"{"Name":"/other"}"#);
        assert_eq!(Engines::at(root.path()).known("1f").names, ["other"]);
    }

    #[test]
    fn podman_and_cri_o_give_names() {
        let root = tempfile::tempdir().unwrap();
        let list = r#"[{"id":"1f","names":["db"],"image":"x"},{"id":"2e"}]"#;
        write(root.path(), "var/lib/containers/storage/overlay-containers/containers.json", list);
        let engines = Engines::at(root.path());
        assert_eq!((engines.known("1f").names, engines.known("2e").names), (vec!["db".to_owned()], Vec::new()));
    }

    #[test]
    fn a_file_that_others_may_write_or_that_is_too_large_or_no_json_says_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = "var/lib/docker/containers/1f/config.v2.json";
        let mode = |mode| {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(root.path().join(path), permissions).unwrap();
        };
        write(root.path(), path, r#"{"Name":"/web"}"#);
        mode(0o600);
        assert_eq!(Engines::at(root.path()).known("1f").names, ["web"]);
        mode(0o666);
        assert_eq!(Engines::at(root.path()).known("1f"), Known::default());
        mode(0o600);
        write(root.path(), path, "{");
        assert_eq!(Engines::at(root.path()).known("1f"), Known::default());
        fs::File::create(root.path().join(path)).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(Engines::at(root.path()).known("1f"), Known::default());
        fs::remove_file(root.path().join(path)).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.path().join(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(Engines::at(root.path()).known("1f"), Known::default(), "a pipe without a writer");
    }
}
