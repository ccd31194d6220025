//! `quell protect --keep`: a drop-in of the agent's configuration. Nothing else writes one.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use quell_agent::api::client::path_segment;
use quell_agent::config::{self, Config, Start};
use quell_command::{output, parameters};
use quell_daemon::Asked;
use quell_effect::Effect;
use quell_model::{Class, Policy as _, Selector, Workload, foreign};
use quell_policy::AnyPolicy;
use quell_report::screen::Screen;
use serde::Serialize;
use serde_json::{Map, Value};

use super::kept;
use super::reload::{Answer, Expected, reload};
use super::target::Subject;
use crate::commands::agent_socket::AgentSocket;
use crate::commands::check;

/// The first words of a file of these.
pub const MARK: &str = "# Written by `quell protect --keep`;";

/// What was done, for programs.
#[derive(Serialize)]
struct Kept<'a> {
    workload: &'a str,
    file: &'a Path,
    policy: &'a str,
    cpus_requested: f64,
    /// Does an agent manage it now?
    managed: bool,
    /// What that did; null: nothing was measured.
    effect: Option<&'a Effect>,
}

/// The drop-in of a workload, beside this configuration.
#[must_use]
pub fn file_of(config: &Path, workload: &str) -> PathBuf {
    config::drop_in_directory(config).join(format!("protect-{}.toml", path_segment(workload)))
}

/// Says what was kept, and what that did.
///
/// # Errors
/// If it cannot be written.
pub fn print(
    (file, answer): &(PathBuf, Answer),
    workload: &Workload,
    policy: &AnyPolicy,
    effect: Option<&Effect>,
    json: bool,
) -> Result<()> {
    if json {
        let (cpus_requested, policy) = (workload.cpus.as_f64(), policy.describe().name);
        return output::json_line(Kept {
            workload: &workload.name,
            file,
            policy,
            cpus_requested,
            managed: *answer == Answer::Manages,
            effect,
        });
    }
    let screen = Screen::of_output();
    let effect = effect.map_or_else(String::new, |effect| effect.text(&screen));
    let end = match answer {
        Answer::Manages => "the agent manages it now",
        Answer::Waits => "it does not run yet, and the agent manages it from its start on",
        Answer::NoAgent => {
            "no agent runs, so it is not protected yet: start one with `systemctl start quell`, or `quell run`"
        }
    };
    let line = format!("{}: kept in {}; {end}", foreign::text(&workload.name), foreign::path(file));
    writeln!(io::stdout(), "{effect}{}", screen.wrap(&line))?;
    Ok(())
}

/// Writes the drop-in of a workload, and asks a running agent to read it; returns the file, and what the agent answered.
///
/// # Errors
/// If it would be no right configuration, or cannot be written; nothing has changed then.
pub fn keep(
    config: &Path,
    workload: &Workload,
    policy: &AnyPolicy,
    subject: &Subject,
    set: &[String],
    agent: &AgentSocket,
) -> Result<(PathBuf, Answer)> {
    let file = file_of(config, &workload.name);
    let before = config::read_with(config, Some((&file, None))).0;
    let selectors = if subject.is_of_processes() { kept::of_program(subject)? } else { of_groups(&workload.selectors) };
    let entries = entries(workload, selectors);
    let name = policy.describe().name;
    let layer = match needs_layer(&before, name)? {
        true => layer(name, &workload.name, &parameters::map(set)?),
        false => String::new(),
    };
    let words = foreign::text(&workload.name).into_owned();
    let text = format!("{MARK} `quell disable {words}` removes it.\n{entries}{layer}");
    let read = config::read_with(config, Some((&file, Some(&text))));
    let start = Start { only_checks: true, ..Start::default() };
    let examined = check::examine_read(read, &start, Asked::Kernel)?;
    if let Some(problem) = examined.problems.0.iter().find(|problem| problem.severity == config::Severity::Error) {
        bail!("nothing is written, as the configuration would be refused: {problem}");
    }
    write(&file, &text)?;
    let expected = if subject.found.is_empty() { Expected::Known } else { Expected::Managed };
    let answer = reload(agent, &workload.name, expected)?;
    Ok((file, answer))
}

/// Does the workload need a layer of its own? Not where one of its policy owns all workloads.
fn needs_layer(config: &Config, policy: &str) -> Result<bool> {
    // Nothing is written yet: what is read then is assumed.
    if config.files.is_empty() {
        return Ok(true);
    }
    let Some(all) = config.policies.iter().find(|layer| layer.workloads.is_none()) else { return Ok(true) };
    let name = all.policy.describe().name;
    if name != policy {
        bail!(
            "nothing is written: policy '{name}' owns all workloads ({}): run it with --policy {name}, or list its workloads there",
            all.place
        );
    }
    Ok(false)
}

/// The entry of `[[workload]]`.
fn entries(workload: &Workload, selectors: String) -> String {
    let class = if workload.class == Class::LatencyCritical { "lc" } else { "be" };
    let strict =
        if workload.reservation == quell_model::Reservation::Strict { "reservation = \"strict\"\n" } else { "" };
    let name = quoted(&workload.name);
    let cpus = workload.cpus.as_f64();
    format!("[[workload]]\nname = {name}\nclass = \"{class}\"\ncpus = {cpus}\n{strict}match = [{selectors}]\n")
}

/// The entries of `match` that mean these.
pub fn of_groups(selectors: &[Selector]) -> String {
    let one = |selector: &Selector| match selector {
        Selector::Unit(name) => format!("{{ unit = {} }}", quoted(name)),
        Selector::Cgroup(path) => format!("{{ cgroup = {} }}", quoted(&path.to_string_lossy())),
        Selector::Container(id) => format!("{{ container = {} }}", quoted(id)),
        Selector::Label(label) => format!("{{ label = {} }}", quoted(label)),
        Selector::Pod(uid) => format!("{{ pod = {} }}", quoted(uid)),
        Selector::Pid(pid) => format!("{{ pid = {pid} }}"),
        Selector::Command(line) => format!("{{ command = {} }}", quoted(&line.text)),
    };
    selectors.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn layer(policy: &str, workload: &str, parameters: &Map<String, Value>) -> String {
    let parameters = if parameters.is_empty() {
        String::new()
    } else {
        let table = toml::Value::try_from(parameters).map(|table| table.to_string()).unwrap_or_default();
        format!("parameters = {table}\n")
    };
    format!("\n[[policy]]\nname = \"{policy}\"\nworkloads = [{}]\n{parameters}", quoted(workload))
}

/// As TOML has it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The directory that a path is in.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Could a drop-in be written there? Nothing is made yet.
///
/// # Errors
/// If not, with the fix.
pub fn check_place(config: &Path) -> Result<()> {
    let directory = config::drop_in_directory(config);
    let own = above(&directory);
    let places: &[&Path] = if own.is_dir() { &[own, &directory] } else { &[above(own)] };
    let there = places.iter().rfind(|place| place.symlink_metadata().is_ok());
    let Some(there) = there.filter(|there| there.is_dir()) else {
        bail!("there is no directory {0}, where {1} belongs; make it: mkdir -p {0}", own.display(), config.display())
    };
    rustix::fs::access(*there, rustix::fs::Access::WRITE_OK).with_context(|| {
        format!("cannot write into {}; run it as root, or name another file with --config", there.display())
    })?;
    if own.is_dir() {
        check_owner(own, true)?;
    }
    if directory.symlink_metadata().is_ok() { check_owner(&directory, false) } else { Ok(()) }
}

/// Refuses a directory that another user could have put something into.
fn check_owner(path: &Path, may_be_link: bool) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let found = fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    let found = if found.is_symlink() && may_be_link { fs::metadata(path)? } else { found };
    if !found.is_dir() || ![0, own].contains(&found.uid()) || found.mode() & 0o022 != 0 {
        let path = path.display();
        bail!(
            "{path} is not a directory that only root and this user can write to; fix: chown root {path}; chmod 755 {path}"
        );
    }
    Ok(())
}

/// The drop-in directory, if no other user could have put something there. `make`: it is made where it is missing, and so is the
/// one of the configuration.
///
/// # Errors
/// If another user could.
pub fn directory(file: &Path, make: bool) -> Result<PathBuf> {
    let directory = file.parent().context("a file is in a directory")?.to_owned();
    let above = above(&directory);
    for path in [above, &directory].into_iter().filter(|_| make) {
        match DirBuilder::new().mode(0o755).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let path = path.display();
                return Err(error)
                    .with_context(|| format!("cannot make {path}; make it yourself with `mkdir -p {path}`"));
            }
        }
    }
    check_owner(above, true)?;
    check_owner(&directory, false)?;
    Ok(directory)
}

/// Writes it whole or not at all, and follows no link.
fn write(file: &Path, text: &str) -> Result<()> {
    let directory = directory(file, true)?;
    let failed = || format!("cannot write {}", file.display());
    let mut new = tempfile::Builder::new().prefix(".quell-").tempfile_in(&directory).with_context(failed)?;
    new.write_all(text.as_bytes()).with_context(failed)?;
    new.as_file().set_permissions(Permissions::from_mode(0o644)).with_context(failed)?;
    new.as_file().sync_all().with_context(failed)?;
    new.persist(file).with_context(failed)?;
    fs::File::open(&directory).and_then(|directory| directory.sync_all()).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::CpuCount;

    fn workload() -> Workload {
        let mut workload = Workload::new("my \"web\"", Class::LatencyCritical, CpuCount(1500));
        workload.selectors = vec![Selector::Unit("nginx.service".into())];
        workload
    }

    #[test]
    fn what_is_written_is_read_as_the_workload_and_its_policy() {
        let workload = workload();
        let parameters = parameters::map(&["run_budget=20ms".into()]).unwrap();
        let text = entries(&workload, of_groups(&workload.selectors)) + &layer("guard", &workload.name, &parameters);
        let config = config::read_text(Path::new("a.toml"), &text).unwrap();
        assert_eq!(config.workloads[0].workload, workload);
        assert_eq!(config.policies[0].workloads.as_deref(), Some(&[workload.name.clone()][..]));
        assert_eq!(config.policies[0].policy, parameters::policy("guard", &["run_budget=20ms".into()]).unwrap());
    }

    #[test]
    fn a_name_is_one_file_below_the_drop_in_directory() {
        for (name, file) in [("nginx", "protect-nginx.toml"), ("../../a b", "protect-..%2F..%2Fa%20b.toml")] {
            assert_eq!(file_of(Path::new("/etc/quell/quell.toml"), name), Path::new("/etc/quell/quell.d").join(file));
        }
    }

    #[test]
    fn a_layer_is_added_unless_one_owns_all() {
        let config = |text: &str| config::read_text(Path::new("a.toml"), text).unwrap();
        assert!(needs_layer(&Config::default(), "rkube").unwrap());
        let all = config("[[policy]]\nname = \"guard\"\n");
        assert!(!needs_layer(&all, "guard").unwrap());
        assert!(needs_layer(&all, "rkube").unwrap_err().to_string().contains("--policy guard"));
    }

    #[test]
    fn the_directory_of_the_configuration_is_made_and_a_place_that_cannot_be_is_refused_beforehand() {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().join("etc/quell.toml");
        check_place(&config).unwrap();
        assert!(!root.path().join("etc").exists(), "a check makes nothing");
        write(&file_of(&config, "a"), "one").unwrap();
        check_place(&config).unwrap();
        assert_eq!(fs::metadata(root.path().join("etc/quell.d")).unwrap().mode() & 0o777, 0o755);
        let nowhere = check_place(&root.path().join("no/such/quell.toml")).unwrap_err().to_string();
        assert!(nowhere.ends_with(&format!("mkdir -p {}/no/such", root.path().display())), "{nowhere}");
        fs::set_permissions(root.path().join("etc"), Permissions::from_mode(0o777)).unwrap();
        assert!(check_place(&config).unwrap_err().to_string().contains("chmod 755"));
    }

    #[test]
    fn a_directory_that_another_could_write_to_is_refused_and_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("quell.d/protect-a.toml");
        write(&file, "one").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        let target = root.path().join("target");
        fs::write(&target, "theirs").unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        write(&file, "two").unwrap();
        assert_eq!(
            (fs::read_to_string(&target).unwrap().as_str(), fs::read_to_string(&file).unwrap().as_str()),
            ("theirs", "two")
        );
        fs::set_permissions(root.path().join("quell.d"), Permissions::from_mode(0o777)).unwrap();
        assert!(write(&file, "three").unwrap_err().to_string().contains("chmod 755"));
        fs::remove_dir_all(root.path().join("quell.d")).unwrap();
        std::os::unix::fs::symlink("/tmp", root.path().join("quell.d")).unwrap();
        assert!(write(&file, "four").unwrap_err().to_string().contains("not a directory"));
    }
}
