//! `quell enable`: the drop-in of `quell protect --keep`, without measuring.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_linux::{LinuxError, Roots, cgroup};
use quell_model::{CpuCount, Selector, Workload, foreign};
use quell_policy::recommend::Looks;

use super::agent_socket::AgentSocket;
use super::managed::{Asked, demand};
use super::protect::before::Before;
use super::protect::target::{Program, Subject};
use super::protect::{Sources, Wanted};
use super::protect::{advice, keep, leased};

/// Directories of unit files (systemd.unit(5)), the administrator's first.
const UNITS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// Write a service into the agent's configuration, permanently, without measuring it
///
/// TARGET is a unit (nginx.service), which need not run yet, a container (container:NAME, or digits of its id), all containers with a
/// label (label:app=web; Docker's), a cgroup, a process or a program. This is `quell protect TARGET --keep` for a request that is
/// known: the same drop-in, which a running agent reads at once. `quell disable NAME` removes it.
#[derive(Args)]
pub struct Arguments {
    /// What to manage: a unit, container, label, cgroup, process or program. Several are one workload
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    asked: Asked,
    /// CPUs requested; for lc these are guaranteed, and have to be given. May be fractional
    #[arg(long, value_name = "N")]
    cpus: Option<CpuCount>,
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = quell_agent::config::DEFAULT_PATH)]
    config: PathBuf,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Writes the drop-in.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let subject = subject(&arguments.targets)?;
    let asked = &arguments.asked;
    if asked.class().is_lc() && arguments.cpus.is_none_or(|cpus| cpus == CpuCount::ZERO) {
        bail!(
            "a latency-critical workload requests CPUs: run `quell enable {words} --cpus 1`, or let it be measured: `quell protect {words} \
             --keep`",
            words = subject.words
        );
    }
    let name = asked.name_or(&subject.name);
    let file = keep::file_of(&arguments.config, &name);
    if file.exists() {
        let (name, file) = (foreign::text(&name), foreign::path(&file));
        bail!("{name} is enabled already, in {file}: run `quell disable {name}` first, or give another --name");
    }
    leased::refuse_managed(leased::agent(&arguments.agent)?.as_ref(), &subject)?;
    let wanted = Wanted { asked: asked.clone(), cpus: arguments.cpus, sources: Sources::default() };
    // This process sets nothing: it needs no right but to write the file.
    let here = advice::Here::look(false, asked.policys_name(), &subject)?;
    let most = demand::most(here.cpus);
    if let Some(cpus) = arguments.cpus.filter(|cpus| *cpus > most) {
        let has = quell_model::amount(here.cpus as usize, "CPU", "CPUs");
        bail!(
            "--cpus {cpus} would take all of this machine, which has {has}: run `quell enable {} --cpus {most}`",
            subject.words
        );
    }
    let unmeasured = Before { phase: None, looks: Looks::default() };
    let decided = here.decide(&wanted, true, &subject, &unmeasured)?;
    let mut workload =
        Workload { reservation: decided.reservation, ..Workload::new(name, asked.class(), decided.cpus) };
    workload.selectors.clone_from(&subject.selectors);
    workload.check()?;
    let set = asked.parameters();
    let kept = keep::keep(&arguments.config, &workload, &decided.policy, &subject, set, &arguments.agent)?;
    keep::print(&kept, &workload, &decided.policy, None, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

/// What the targets mean: what needs no process by its selector, else what runs.
fn subject(targets: &[String]) -> Result<Subject> {
    let mut known = Vec::new();
    for target in targets {
        known.push(by_selector(target)?);
    }
    if known.iter().all(Option::is_none) {
        return Subject::find("enable", targets);
    }
    let mut subject: Option<Subject> = None;
    for (target, known) in targets.iter().zip(known) {
        let one = match known {
            Some((name, selector)) => Subject {
                verb: "enable",
                words: foreign::text(target).into_owned(),
                name: foreign::text(&name).into_owned(),
                selectors: vec![selector],
                found: Vec::new(),
                program: Program::default(),
                histogram: None,
            },
            None => Subject::find("enable", std::slice::from_ref(target))?,
        };
        if one.is_of_processes() {
            bail!("{} is a process, and is enabled by itself: run `quell enable {}`", one.name, one.words);
        }
        subject = Some(match subject {
            None => one,
            Some(mut all) => {
                all.words = format!("{} {}", all.words, one.words);
                all.selectors.extend(one.selectors);
                all.found.extend(one.found);
                all
            }
        });
    }
    Ok(subject.expect("there is a target"))
}

/// The name and the selector of a label, of a container by its name, and of a unit that does not run; None: it is looked for among
/// what runs.
fn by_selector(target: &str) -> Result<Option<(String, Selector)>> {
    let tree = |selector: &Selector| -> Result<Vec<PathBuf>, LinuxError> {
        Ok(cgroup::named(&Roots::default().cgroup, selector)?.unwrap_or_default())
    };
    let shown = foreign::text(target);
    if let Some(label) = target.strip_prefix("label:") {
        let selector = Selector::Label(label.to_owned());
        if tree(&selector)?.is_empty() {
            bail!(
                "no container that runs has the label '{}', as far as Docker's state on disk says: see docker inspect NAME; \
                 containers of Podman are enabled by name: quell enable container:NAME",
                foreign::text(label)
            );
        }
        let value = label.rsplit('=').next().unwrap_or(label);
        return Ok(Some((if value.is_empty() { label } else { value }.to_owned(), selector)));
    }
    if let Some(name) = target.strip_prefix("container:") {
        let is_id = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let selector = Selector::Container(name.to_owned());
        if is_id || name.is_empty() {
            return Ok(None);
        }
        if tree(&selector)?.is_empty() {
            let why = cgroup::Tree::at(&Roots::default().cgroup).ambiguity(&selector)?;
            let why = why.unwrap_or_else(|| "start it first, or see docker ps and podman ps".into());
            bail!("no container called '{}' can be enabled: {why}", foreign::text(name));
        }
        return Ok(Some((name.to_owned(), selector)));
    }
    let unit = target.strip_prefix("unit:").unwrap_or(target);
    let is_unit = [".service", ".scope", ".slice"].iter().any(|suffix| unit.ends_with(suffix)) && !unit.contains('/');
    let selector = Selector::Unit(unit.to_owned());
    if !is_unit || !tree(&selector)?.is_empty() {
        return Ok(None);
    }
    if !is_installed(unit, UNITS.map(Path::new).as_slice()) {
        bail!("no unit {shown} runs or is installed here: see systemctl list-unit-files");
    }
    Ok(Some((unit.strip_suffix(".service").unwrap_or(unit).to_owned(), selector)))
}

/// Is there a file of this unit, or of the template that it is of?
fn is_installed(unit: &str, directories: &[&Path]) -> bool {
    let template = unit.split_once('@').and_then(|(name, rest)| Some(format!("{name}@.{}", rest.rsplit_once('.')?.1)));
    let mut names = vec![unit.to_owned()];
    names.extend(template);
    names.iter().any(|name| directories.iter().any(|directory| directory.join(name).exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_installed_by_its_file_or_its_templates() {
        let root = tempfile::tempdir().unwrap();
        for file in ["web.service", "worker@.service"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        let is = |unit| is_installed(unit, &[root.path()]);
        assert!(is("web.service") && is("worker@1.service"));
        assert!(!is("we.service") && !is("worker.service") && !is("web@1.service") && !is("worker@1.socket"));
    }
}
