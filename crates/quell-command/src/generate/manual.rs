//! Man pages: a page for each command, and the file formats' pages from the documents, so that the two cannot differ.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::page;

/// What a program's man pages say beside its command line.
pub struct Manual {
    /// The pages of section 5: name, description, and source document.
    pub formats: &'static [(&'static str, &'static str, &'static str)],
    /// Files that a command reads or writes: path, description, commands; the program's page has all of them.
    pub files: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// The document of exit statuses; a command's own are below its name as a heading.
    pub statuses: &'static str,
    /// Pages that all of them refer to.
    pub see_also: &'static [&'static str],
}

impl Manual {
    /// Pages for a command and all below it, and those of the file formats.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write(&self, mut command: Command, directory: &Path) -> Result<()> {
        command.build();
        self.commands(&command, &[], directory)?;
        for (name, what, text) in self.formats {
            let mut roff = Roff::new();
            roff.control("TH", [*name, "5", "", "quell", ""])
                .control("SH", ["NAME"])
                .text([roman(format!("{name} - {what}"))]);
            roff.control("SH", ["DESCRIPTION"]);
            page::render(&mut roff, text);
            self.refer(&mut roff, &format!("{name}(5)"));
            put(directory, &format!("{name}.5"), &roff.render())?;
        }
        Ok(())
    }

    /// `words`: those below the program on the way to the command.
    fn commands(&self, command: &Command, words: &[&str], directory: &Path) -> Result<()> {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let mut bytes = Vec::new();
        Man::new(command.clone()).render(&mut bytes).with_context(|| format!("render the man page of {name}"))?;
        let mut roff = Roff::new();
        let of = |of: &[&str]| words.first().is_none_or(|top| of.contains(top));
        let files: Vec<_> = self.files.iter().filter(|(.., commands)| of(commands)).collect();
        if !files.is_empty() {
            roff.control("SH", ["FILES"]);
            files.iter().for_each(|(path, what, _)| page::item(&mut roff, path, what));
        }
        roff.control("SH", ["EXIT STATUS"]);
        page::render(&mut roff, &page::section(self.statuses, None));
        let program = command.get_bin_name().unwrap_or_default();
        page::render(&mut roff, &page::section(self.statuses, Some(program)));
        self.refer(&mut roff, &format!("{name}(1)"));
        put(directory, &format!("{name}.1"), &(String::from_utf8_lossy(&bytes).into_owned() + &roff.to_roff()))?;
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            self.commands(below, &[words, &[below.get_name()]].concat(), directory)?;
        }
        Ok(())
    }

    fn refer(&self, roff: &mut Roff, own: &str) {
        let others: Vec<&str> = self.see_also.iter().copied().filter(|page| *page != own).collect();
        roff.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    }
}

fn put(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}
