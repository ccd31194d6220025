//! `quell protect --keep`: a drop-in of the agent's configuration. Nothing else writes one.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_agent::api::client::path_segment;
use quell_agent::api::wire::{Agent, Status};
use quell_agent::config::{self, Config, Start};
use quell_command::{output, parameters};
use quell_daemon::Asked;
use quell_linux::user_name;
use quell_model::{Class, Policy as _, Selector, Workload, foreign};
use quell_policy::AnyPolicy;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::{Map, Value};

use super::target::{Program, Subject};
use crate::commands::agent_socket::AgentSocket;
use crate::commands::check;

/// The first words of a file of these.
pub const MARK: &str = "# Written by `quell protect --keep`;";
/// An agent takes a configuration within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was done, for programs.
#[derive(Serialize)]
struct Kept<'a> {
    workload: &'a str,
    file: &'a Path,
    policy: &'a str,
    cpus_requested: f64,
    /// Does an agent manage it now?
    managed: bool,
}

/// The drop-in of a workload, beside this configuration.
#[must_use]
pub fn file_of(config: &Path, workload: &str) -> PathBuf {
    config::drop_in_directory(config).join(format!("protect-{}.toml", path_segment(workload)))
}

/// Writes the drop-in of a workload, and asks a running agent to read it.
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
    json: bool,
) -> Result<ExitCode> {
    let file = file_of(config, &workload.name);
    let before = config::read_with(config, Some((&file, None))).0;
    let selectors = if subject.is_of_processes() { of_program(subject)? } else { of_groups(&workload.selectors) };
    let entries = entries(workload, selectors);
    let name = policy.describe().name;
    let layer = match needs_layer(&before, name)? {
        true => layer(name, &workload.name, &parameters::map(set)?),
        false => String::new(),
    };
    let words = foreign::text(&workload.name).into_owned();
    let text = format!("{MARK} `quell disable {words}` takes it out.\n{entries}{layer}");
    let read = config::read_with(config, Some((&file, Some(&text))));
    let start = Start { only_checks: true, ..Start::default() };
    let examined = check::examine_read(read, &start, Asked::Kernel)?;
    if let Some(problem) = examined.problems.0.iter().find(|problem| problem.severity == config::Severity::Error) {
        bail!("nothing is written, as the configuration would be refused: {problem}");
    }
    write(&file, &text)?;
    let managed = reload(agent, &workload.name, true)?;
    if json {
        let cpus_requested = workload.cpus.as_f64();
        output::json_line(Kept { workload: &workload.name, file: &file, policy: name, cpus_requested, managed })?;
    } else {
        let end = if managed {
            "the agent manages it now"
        } else {
            "no agent runs: start it with `systemctl start quell`, or `quell run`"
        };
        writeln!(io::stdout(), "{words}: kept in {}; {end}", foreign::path(&file))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does the workload need a layer of its own? Not where one of its policy owns all workloads.
fn needs_layer(config: &Config, policy: &str) -> Result<bool> {
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

fn of_groups(selectors: &[Selector]) -> String {
    let one = |selector: &Selector| match selector {
        Selector::Unit(name) => format!("{{ unit = {} }}", quoted(name)),
        Selector::Cgroup(path) => format!("{{ cgroup = {} }}", quoted(&path.to_string_lossy())),
        Selector::Container(id) => format!("{{ container = {} }}", quoted(id)),
        Selector::Pod(uid) => format!("{{ pod = {} }}", quoted(uid)),
        Selector::Pid(pid) => format!("{{ pid = {pid} }}"),
        Selector::Command(line) => format!("{{ command = {} }}", quoted(&line.text)),
    };
    selectors.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A process's number is another one's after a restart: what remains is its command line with its user. Not its file: an agent
/// that runs may have given up the right to see that.
fn of_program(subject: &Subject) -> Result<String> {
    let Program { command, uid, .. } = &subject.program;
    let Some(uid) = uid.filter(|_| subject.found.len() == 1) else {
        bail!("nothing is written: --keep takes one target, of one user; name a unit of systemd, or one process");
    };
    Ok(format!("{{ command = {}, user = {} }}", quoted(command), quoted(&user_name(uid))))
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
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The drop-in directory, if no other user could have put something there.
///
/// # Errors
/// If another user could.
pub fn directory(file: &Path, make: bool) -> Result<PathBuf> {
    let directory = file.parent().context("a file is in a directory")?.to_owned();
    if make {
        match DirBuilder::new().mode(0o755).create(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot make {}; make it by hand: mkdir -p", directory.display()));
            }
        }
    }
    let own = rustix::process::geteuid().as_raw();
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for path in [above, &directory] {
        let found = fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
        let may_be_link = path == above;
        let found = if found.is_symlink() && may_be_link { fs::metadata(path)? } else { found };
        if !found.is_dir() || ![0, own].contains(&found.uid()) || found.mode() & 0o022 != 0 {
            let path = path.display();
            bail!(
                "{path} is no directory that only root and this user can write to; fix: chown root {path}; chmod 755 {path}"
            );
        }
    }
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

/// Asks a running agent to read its configuration again, and waits until it has; false: none runs.
///
/// # Errors
/// If it refuses it.
pub fn reload(agent: &AgentSocket, workload: &str, is_there: bool) -> Result<bool> {
    let client = agent.client()?;
    let Ok(status) = client.get::<Status>("/v1/status") else { return Ok(false) };
    let Agent { pid, not_reloaded: before, .. } = status.agent;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("the agent's process has no number")?;
    kill_process(pid, Signal::HUP)
        .with_context(|| format!("cannot ask the agent to read it: kill -HUP {}", pid.as_raw_nonzero()))?;
    let (begun, mut waits) = (Instant::now(), None);
    while begun.elapsed() < PATIENCE {
        if let Ok(status) = client.get::<Status>("/v1/status") {
            let known = status.configured.iter().find(|known| known.name == workload);
            let is_managed = status.workloads.iter().any(|managed| managed.name == workload);
            if if is_there { is_managed } else { known.is_none() } {
                return Ok(true);
            }
            waits = known.and_then(|known| known.why.clone());
            if let Some(refused) = status.agent.not_reloaded.filter(|refused| before.as_ref() != Some(refused)) {
                bail!(
                    "it is written, and the agent has refused it: {}",
                    refused.why.lines().next().unwrap_or_default()
                );
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if let Some(why) = waits {
        bail!("it is written, and the agent does not manage it yet: {why}");
    }
    bail!("it is written, and the agent has not read it within {} s: see `quell status`", PATIENCE.as_secs())
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
        assert!(needs_layer(&Config::default(), "guard").unwrap());
        let all = config("[[policy]]\nname = \"guard\"\n");
        assert!(!needs_layer(&all, "guard").unwrap());
        assert!(needs_layer(&all, "rkube").unwrap_err().to_string().contains("--policy guard"));
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
        assert!(write(&file, "four").unwrap_err().to_string().contains("no directory"));
    }
}
