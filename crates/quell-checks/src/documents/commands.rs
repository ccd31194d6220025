//! Every line of a program in the documents is a command line that it takes, run or not.

use clap::Command;
use clap::error::ErrorKind;
use regex::Regex;

use super::page;

/// The first command of a shell's line, if it is this program: its words.
fn words(line: &str, program: &str) -> Option<Vec<String>> {
    let line = line.trim_start_matches(['$', '#', ' ']);
    let line = line.strip_prefix("./target/release/").unwrap_or(line);
    let line = Regex::new(r"\$\(\(.*?\)\)\)?|\$\([^)]*\)").unwrap().replace_all(line, "1");
    let words = shlex::split(line.trim_end_matches('\\'))?;
    let ends =
        |word: &String| ["|", "&", "&&", ";"].contains(&word.as_str()) || word.trim_start_matches('2').starts_with('>');
    let words: Vec<String> = words.into_iter().take_while(|word| !ends(word)).collect();
    (words.first()? == program).then_some(words)
}

/// The fault in it; omitted parts may be missing.
fn wrong(command: &Command, words: &[String]) -> Option<String> {
    let error = command.clone().try_get_matches_from(words).err()?;
    let is_fine = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_fine).then(|| error.to_string())
}

/// A command that the text names, such as `quell top --socket PATH`: its subcommand and options.
fn wrong_in_text(command: &Command, words: &[String]) -> Option<String> {
    let mut at = command;
    for word in words[1..].iter().take_while(|word| *word != "--") {
        let Some(option) = word.strip_prefix("--") else {
            let below = at.find_subcommand(word);
            if at.has_subcommands() && below.is_none() {
                return Some(format!("{} has no '{word}'", at.get_name()));
            }
            at = below.unwrap_or(at);
            continue;
        };
        let option = option.split('=').next().unwrap_or(option);
        if !at.get_arguments().any(|argument| argument.get_long() == Some(option)) {
            return Some(format!("{} has no --{option}", at.get_name()));
        }
    }
    None
}

/// Every command line of the program in the documents is one that it takes, and there are that many at least.
///
/// # Panics
/// If one is not.
pub fn assert_taken(mut command: Command, least: usize) {
    command.build();
    let program = command.get_name().to_owned();
    let words = |line: &str| words(line, &program);
    let (mut wrongs, mut count) = (Vec::new(), 0);
    for page in page::all() {
        for block in page.blocks.iter().filter(|block| ["sh", "console", ""].contains(&block.language.as_str())) {
            for (number, line) in block.text.lines().enumerate() {
                // The words of a command with a continuation line are not all here.
                let Some(words) = words(line) else { continue };
                count += 1;
                let why = if line.ends_with('\\') { wrong_in_text(&command, &words) } else { wrong(&command, &words) };
                wrongs.extend(why.map(|why| format!("{}:{}: {line}: {why}", page.name, block.line + number)));
            }
        }
        for (line, code) in &page.code {
            let is_name =
                |word: &String| word.chars().all(|letter| letter.is_alphanumeric() || "-=:./,_…*".contains(letter));
            let Some(words) = words(code).filter(|words| words.iter().all(is_name) && words.len() > 1) else {
                continue;
            };
            count += 1;
            wrongs.extend(wrong_in_text(&command, &words).map(|why| format!("{}:{line}: `{code}`: {why}", page.name)));
        }
    }
    assert!(count >= least, "only {count} were found");
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}
