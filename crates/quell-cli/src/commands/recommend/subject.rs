//! The service that a target means.

use anyhow::{Result, anyhow, bail};
use quell_linux::procfs::ProcFs;
use quell_linux::target::{Asker, Found, Miss, Processes, What, resolve};

/// Finds it, or says which targets mean one of those that match.
pub fn find(proc: &mut ProcFs, target: &str) -> Result<Found> {
    let processes = Processes::read(proc)?;
    let own = std::process::id().cast_signed();
    let line = processes.ancestors(own).map(|process| process.pid).collect();
    let users = processes.get(own).and_then(|process| process.uid).into_iter().collect();
    match resolve(&processes, target, &Asker { users, line }) {
        Ok(found) => Ok(found),
        Err(Miss::Nothing(why)) => Err(anyhow!(why)),
        Err(Miss::Several(all)) => {
            let lines = all.iter().map(|one| format!("\n  quell recommend {}   # {}", one.target(), one.in_words()));
            bail!("that may mean these; run one of:{}", lines.collect::<String>())
        }
    }
}

/// The entry of `match` in a configuration that means it.
pub fn selector(subject: &Found) -> String {
    let text = |text: &str| toml::Value::from(text).to_string();
    match &subject.what {
        What::Unit(name) => format!("{{ unit = {} }}", text(name)),
        What::Container(id) => format!("{{ container = {} }}", text(id)),
        What::Cgroup(path) => format!("{{ cgroup = {} }}", text(path)),
        What::Tree => {
            let pids = subject.roots.iter().map(|root| format!("{{ pid = {} }}", root.tid));
            pids.collect::<Vec<_>>().join(", ")
        }
    }
}
