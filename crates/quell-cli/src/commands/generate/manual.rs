//! Man pages: a page for each command, and the file formats' pages from the documents, so that the two cannot differ.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::page;

const STATUSES: &str = include_str!("../../../../../docs/use/exit-statuses.md");

/// The pages of section 5: name, description, and source document.
const FORMATS: [(&str, &str, &str); 2] = [
    ("quell.toml", "the configuration of Quell's agent", include_str!("../../../../../docs/use/configuration.md")),
    ("quell-scenario", "what quell sim simulates", include_str!("../../../../../docs/use/scenarios.md")),
];

/// Files that a command reads or writes; quell(1) has all of them.
const FILES: [(&str, &str, &[&str]); 6] = [
    ("/etc/quell/quell.toml", "the configuration, see quell.toml(5)", &["run", "check"]),
    ("/etc/quell/quell.d/*.toml", "its drop-ins, in the order of their names", &["run", "check"]),
    ("/run/quell", "the lock, and the journal of what was there before Quell", &["run", "exec", "restore"]),
    ("/run/quell/api.sock", "where the agent answers", &["run", "status", "top", "why", "verify", "off", "on"]),
    ("~/.cache/quell/lab", "kernels and QEMU of the lab", &["lab"]),
    ("./report.json, ./report.html", "what quell demo reports", &["demo"]),
];

/// Pages for a command and all below it, and those of the file formats.
pub fn write(mut command: clap::Command, directory: &Path) -> Result<()> {
    command.build();
    commands(&command, None, directory)?;
    for (name, what, text) in FORMATS {
        let mut roff = Roff::new();
        roff.control("TH", [name, "5", "", "quell", ""])
            .control("SH", ["NAME"])
            .text([roman(format!("{name} - {what}"))]);
        roff.control("SH", ["DESCRIPTION"]);
        page::render(&mut roff, text);
        see_also(&mut roff, &["quell(1)", "quell-check(1)", "quell-sim(1)"]);
        put(directory, &format!("{name}.5"), &roff)?;
    }
    Ok(())
}

/// `top` is the first word below `quell` on the way to the command.
fn commands(command: &clap::Command, top: Option<&str>, directory: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut bytes = Vec::new();
    Man::new(command.clone()).render(&mut bytes).with_context(|| format!("render the man page of {name}"))?;
    let mut roff = Roff::new();
    let files: Vec<_> = FILES.iter().filter(|(.., of)| top.is_none_or(|top| of.contains(&top))).collect();
    if !files.is_empty() {
        roff.control("SH", ["FILES"]);
        files.iter().for_each(|(path, what, _)| page::item(&mut roff, path, what));
    }
    roff.control("SH", ["EXIT STATUS"]);
    page::render(&mut roff, &page::section(STATUSES, None));
    let own = page::section(STATUSES, Some(&name.replacen('-', " ", 1).replace("lab-run", "lab run")));
    page::render(&mut roff, &own);
    let others =
        ["quell(1)", "quell.toml(5)", "quell-scenario(5)"].into_iter().filter(|other| *other != format!("{name}(1)"));
    see_also(&mut roff, &others.collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&bytes).into_owned() + &roff.to_roff();
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        commands(below, top.or(Some(below.get_name())), directory)?;
    }
    Ok(())
}

fn see_also(roff: &mut Roff, pages: &[&str]) {
    roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
}

fn put(directory: &Path, name: &str, roff: &Roff) -> Result<()> {
    let path = directory.join(name);
    fs::write(&path, roff.render()).with_context(|| format!("write {}", path.display()))
}
