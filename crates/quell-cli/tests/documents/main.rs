//! The documents are true: their commands are run, and what they print is compared with what is shown.
//!
//! * A block `console` is a session: `$` and, for root, `#` before each command, below it what it prints ([`output`]
//!   says what may differ). `cat FILE` of a file that is not there shows it: from then on it is there.
//! * A block `sh` is a list of commands: each has to succeed.
//! * In front of a block `<!-- test: numbers vary -->`, or `<!-- test: not run: why -->`, which the test lists.
//!
//! The blocks of a page are one session. Why not `trycmd`: it has no shell, so no jobs in the background, pipes and
//! redirections, and no root's prompt.

mod keys;
mod output;
mod session;

use std::io::Write;
use std::time::{Duration, Instant};

use quell_checks::documents::page::{self, Block, Page};
use session::{Session, may_be_root};

/// Longest time for which output that depends on a background process, such as a starting agent, is asked for again.
const PATIENCE: Duration = Duration::from_secs(15);

/// A command with what is shown below it.
struct Step {
    line: usize,
    is_root: bool,
    command: String,
    shown: String,
}

/// The commands of a block, in order.
fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in block.text.lines().enumerate() {
        let goes_on = |step: &mut Step| {
            let unfinished = step.shown.is_empty() && step.command.ends_with('\\');
            let part = if unfinished { &mut step.command } else { &mut step.shown };
            *part += &format!("{}{line}{}", if unfinished { "\n" } else { "" }, if unfinished { "" } else { "\n" });
        };
        let is_console = block.language == "console";
        let begins = |prompt: &str| line.strip_prefix(prompt).filter(|_| is_console);
        let command = begins("$ ").or_else(|| begins("# ")).or((!is_console).then_some(line));
        let continues = steps.last().is_some_and(|step| step.shown.is_empty() && step.command.ends_with('\\'));
        match (command, steps.last_mut()) {
            (Some(command), _) if !continues => steps.push(Step {
                line: block.line + number,
                is_root: line.starts_with("# ") && is_console,
                command: command.to_owned(),
                shown: String::new(),
            }),
            (_, Some(step)) => goes_on(step),
            (_, None) => panic!("a session begins with a prompt, $ or #: {line}"),
        }
    }
    steps
}

/// Runs one command; what is wrong.
fn run(session: &mut Session, step: &Step, block: &Block, patience: Duration) -> Result<(), String> {
    if let Some(file) = step.command.strip_prefix("cat ").filter(|file| !file.contains(' ') && !session.has_file(file))
    {
        session.put_file(file, &step.shown);
        return Ok(());
    }
    let numbers_vary = block.marker.as_deref() == Some("numbers vary");
    let begun = Instant::now();
    loop {
        let said = session.run(&step.command)?;
        let is_right = match block.language.as_str() {
            "console" => output::is_same(&step.shown, &said.text, numbers_vary),
            _ => said.status == 0,
        };
        if is_right {
            return Ok(());
        }
        if block.language != "console" || begun.elapsed() > patience {
            return Err(format!("status {}; shown:\n{}printed:\n{}", said.status, step.shown, said.text));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Does the block hold commands?
fn has_commands(block: &Block) -> bool {
    matches!(block.language.as_str(), "console" | "sh")
}

/// Why not, here.
fn skipped(block: &Block) -> Option<String> {
    let needs_root = !may_be_root() && steps(block).iter().any(|step| step.is_root);
    block.not_run().map(str::to_owned).or(needs_root.then(|| "needs root, and namespaces of its own".to_owned()))
}

/// Reports even where the test passes.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "documents: {text}");
}

#[test]
fn commands_do_what_the_documents_say() {
    let only = std::env::var("QUELL_PAGE").ok();
    let (mut wrong, mut done) = (Vec::new(), 0);
    for page in page::all().iter().filter(|page| only.as_ref().is_none_or(|only| page.name.contains(only.as_str()))) {
        let begun = Instant::now();
        let mut session = None;
        for block in page.blocks.iter().filter(|block| has_commands(block)) {
            let place = format!("{}:{}", page.name, block.line);
            if let Some(why) = skipped(block) {
                report(&format!("{place}: not run: {why}"));
                continue;
            }
            let session = session.get_or_insert_with(Session::start);
            for step in steps(block) {
                done += 1;
                // After a mistake the next ones follow from it.
                let patience = if wrong.is_empty() { PATIENCE } else { Duration::ZERO };
                if let Err(why) = run(session, &step, block, patience) {
                    wrong.push(format!("{}:{}: {}: {why}", page.name, step.line, step.command));
                }
            }
        }
        if session.is_some() {
            report(&format!("{}: {:.1} s", page.name, begun.elapsed().as_secs_f64()));
        }
    }
    report(&format!("{done} commands run"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_stand_in_blocks_that_are_run() {
    for page in page::all() {
        for block in page.blocks.iter().filter(|block| !has_commands(block)) {
            let is_command = |line: &&str| {
                ["quell ", "$ ", "# quell", "cargo ", "curl ", "make "].iter().any(|c| line.starts_with(c))
            };
            let command = block.text.lines().find(is_command);
            assert_eq!(command, None, "{}:{}: make it a block `sh` or `console`", page.name, block.line);
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let pages = page::all();
    let mut wrong = Vec::new();
    for page in &pages {
        for (line, link) in page.links.iter().filter(|(_, link)| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, at)| (file, Some(at)));
            let path = if file.is_empty() { page.path.clone() } else { page.path.with_file_name("").join(file) };
            let target = path.canonicalize().ok();
            let other = pages.iter().find(|other| other.path.canonicalize().ok() == target);
            let has_anchor = |other: &Page| anchor.is_none_or(|anchor| other.anchors.iter().any(|one| one == anchor));
            if target.is_none() || !other.is_none_or(has_anchor) {
                wrong.push(format!("{}:{line}: {link}", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "links to nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_index_has_every_page() {
    let pages = page::all();
    let index = pages.iter().find(|page| page.name == "docs/README.md").expect("docs/README.md is the index");
    let missing: Vec<&str> = pages
        .iter()
        .filter_map(|page| page.name.strip_prefix("docs/"))
        .filter(|name| *name != "README.md" && !index.links.iter().any(|(_, link)| link == name))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not link {missing:?}");
}
