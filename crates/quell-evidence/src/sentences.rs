//! Does the list of a paper's sentences, and do the claims' quotations, agree with its text? The text itself is not part of
//! the project.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::claim::Claim;

/// Classification of each sentence of a text that has a number or a comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentences {
    /// The text's file name without ending.
    pub text: String,
    /// Of the whole file, in hexadecimal digits.
    sha256: String,
    /// The lines in which all such sentences are listed, from and to, counted from 1.
    lines: Vec<(usize, usize)>,
    sentences: Vec<Sentence>,
}

/// A sentence: exactly one of `rows`, `set_up` and `no_claim`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    line: usize,
    /// Its first words, as many as distinguish it from the others of its line.
    begins: String,
    /// Ids of claims.
    #[serde(default)]
    rows: Vec<String>,
    /// It says how the experiment was made.
    #[serde(default)]
    set_up: bool,
    /// The reason why it is no claim that a run could confirm.
    no_claim: Option<String>,
}

/// Outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Quotations that stand in their line.
    pub quotations: usize,
    /// Sentences that are listed and found: with rows, set-up, and no claims.
    pub listed: [usize; 3],
    /// Sentences with a number or a comparison that are not listed: the line and their first words.
    pub unlisted: Vec<(usize, String)>,
    /// All else that is wrong.
    pub wrong: Vec<String>,
}

impl Checked {
    /// Is nothing wrong, and nothing left out?
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.unlisted.is_empty() && self.wrong.is_empty()
    }
}

static FILES: LazyLock<Vec<Sentences>> = LazyLock::new(|| {
    let texts = [
        include_str!("../../../papers/rkube/sentences.toml"),
        include_str!("../../../papers/caladan/sentences.toml"),
        include_str!("../../../papers/his/sentences.toml"),
        include_str!("../../../papers/edgeiso/sentences.toml"),
        include_str!("../../../papers/dasec/sentences.toml"),
        include_str!("../../../papers/sdc/sentences.toml"),
    ];
    texts.iter().map(|text| Sentences::read(text).expect("a test reads these files")).collect()
});

impl Sentences {
    /// All lists.
    #[must_use]
    pub fn all() -> &'static [Sentences] {
        &FILES
    }

    /// A list from its TOML.
    ///
    /// # Errors
    /// The fault of the TOML.
    pub fn read(text: &str) -> Result<Sentences, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Compares the list and the claims with the text. `claims` are all claims, of any text.
    #[must_use]
    pub fn check<'a>(&self, claims: impl Iterator<Item = &'a Claim> + Clone, text: &[u8]) -> Checked {
        let mut checked = Checked::default();
        let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        if hash != self.sha256 {
            checked.wrong.push(format!("the text is another one: its SHA-256 is {hash}"));
        }
        let text = String::from_utf8_lossy(text);
        let lines: Vec<&str> = text.lines().collect();
        let line = |number: usize| number.checked_sub(1).and_then(|at| lines.get(at)).copied().unwrap_or_default();
        for claim in claims.clone().filter(|claim| claim.source.text == self.text) {
            let (Some(quotation), Some(number)) = (&claim.quotation, claim.source.line) else {
                checked.wrong.push(format!("{}: no quotation, or no line", claim.id));
                continue;
            };
            match alike(line(number as usize)).contains(&alike(quotation)) {
                true => checked.quotations += 1,
                false => checked.wrong.push(format!("{}: line {number} does not say \"{quotation}\"", claim.id)),
            }
            if !self.sentences.iter().any(|sentence| sentence.rows.contains(&claim.id)) && self.is_of(claim) {
                checked.wrong.push(format!("{}: no sentence has this row", claim.id));
            }
        }
        for sentence in &self.sentences {
            let Sentence { line: number, begins, rows, set_up, no_claim } = sentence;
            let is = [!rows.is_empty(), *set_up, no_claim.is_some()];
            let kind = is.iter().position(|is| *is).filter(|_| is.iter().filter(|is| **is).count() == 1);
            let unknown = rows.iter().find(|row| !claims.clone().any(|claim| claim.id == **row));
            match (kind, unknown) {
                (None, _) => checked.wrong.push(format!("line {number}, \"{begins}\": not one of three")),
                (_, Some(row)) => checked.wrong.push(format!("line {number}, \"{begins}\": there is no row {row}")),
                _ if !alike(line(*number)).contains(&alike(begins)) => {
                    checked.wrong.push(format!("line {number} has no sentence \"{begins}\""));
                }
                (Some(kind), None) => checked.listed[kind] += 1,
            }
        }
        for (number, line) in (1..).zip(&lines) {
            if !self.lines.iter().any(|(from, to)| (*from..=*to).contains(&number)) {
                continue;
            }
            for sentence in split(line).into_iter().filter(|sentence| says_something(sentence)) {
                let begins =
                    |known: &&Sentence| known.line == number && alike(sentence).starts_with(&alike(&known.begins));
                if !self.sentences.iter().any(|known| begins(&known)) {
                    let words = sentence.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
                    checked.unlisted.push((number, words));
                }
            }
        }
        checked
    }

    /// Is the claim of a topic whose rows this list has?
    fn is_of(&self, claim: &Claim) -> bool {
        let topic = |id: &str| id.split('.').next().unwrap_or_default().to_owned();
        // Topics whose rows are only some of a text's are not asked for all.
        let rows = self.sentences.iter().flat_map(|sentence| &sentence.rows);
        let most = rows.filter(|row| topic(row) == topic(&claim.id)).count();
        2 * most > self.sentences.iter().map(|sentence| sentence.rows.len()).sum::<usize>()
    }
}

/// The same words, however they are set: without white space and marks of emphasis and formulas.
fn alike(text: &str) -> String {
    let text = text.replace("\\times", "×").replace("\\mu", "μ").replace('µ', "μ");
    text.chars().filter(|letter| !letter.is_whitespace() && !"$*".contains(*letter)).collect()
}

/// The sentences of a line. A text's paragraph is one line.
fn split(line: &str) -> Vec<&str> {
    static END: LazyLock<Regex> = LazyLock::new(|| regex(r#"([.!?]["”)]?\s+)["“(*$]*[A-Z0-9]"#));
    const SHORT: [&str; 9] = ["e.g", "i.e", "et al", "vs", "Sec", "Fig", "cf", "resp", "etc"];
    let (mut sentences, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(end) = END.captures_at(line, at).and_then(|found| found.get(1)) {
        at = end.end();
        if !SHORT.iter().any(|short| line[start..end.start()].ends_with(short)) {
            sentences.push(line[start..at].trim());
            start = at;
        }
    }
    sentences.push(line[start..].trim());
    sentences
}

/// Has it a number, or a comparison? Numbers of headings, figures and references do not count.
fn says_something(sentence: &str) -> bool {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:- )?[0-9]+(?:\.[0-9]+)*\.?(?:\s|\]|$)"));
    static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"\[[0-9, –-]+(?:, sec\. [0-9.]+)?\]|§\s*[0-9.]+|§|(?:Figures?|Table|Sections?|Sec\.|Algorithms?|Appendix|Eq\.|Fig\.)\s*[0-9]+(?:\.[0-9]+)*[a-c]?(?:(?:,? and |, |–)[0-9]+(?:\.[0-9]+)*[a-c]?)*",
        )
    });
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| regex(r"[0-9]|(?i)\b(?:half|twice|double|dozens?|hundreds|milliseconds|microseconds?)\b"));
    static COMPARES: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)\b(?:more|less|fewer|most|least|higher|lower|highest|lowest|faster|slower|larger|smaller|better|best|worse|worst|longer|shorter|than|outperforms?|similar|nearly|close to|comparable|same|increases?|increased|increasing|decreases?|decreased|decreasing|reduces?|reduced|reducing|improves?|improved|improving|drops?|degrades?|degraded|saturates?|unable)\b",
        )
    });
    let sentence = HEAD.replace(sentence, "");
    let sentence = REFERENCE.replace_all(&sentence, " ");
    NUMBER.is_match(&sentence) || COMPARES.is_match(&sentence)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Source;
    use crate::topics;
    use crate::verdict::Expected;

    const TEXT: &str =
        "1 Introduction\n\nA **tail** of $52 \\mu s$ is better than 580 ms. See Figure 3. It drops, e.g. by half.\n";

    fn list(sentences: &str) -> Sentences {
        let hash: String = Sha256::digest(TEXT).iter().map(|byte| format!("{byte:02x}")).collect();
        let head = format!("text = 'p'\nsha256 = '{hash}'\nlines = [[1, 3]]\n");
        Sentences::read(&format!("{head}sentences = [{sentences}]")).unwrap()
    }

    fn claim(quotation: &str) -> Claim {
        Claim {
            id: "t.c".into(),
            expected: Expected::Derived { value: 1.0 },
            statement: "s".into(),
            source: Source { text: "p".into(), line: Some(3), place: "§1".into() },
            quotation: Some(quotation.into()),
            known_difference: None,
            missing: None,
        }
    }

    const FIRST: &str = "{ line = 3, begins = 'A tail of', rows = ['t.c'] }";
    const SECOND: &str = "{ line = 3, begins = 'It drops', no_claim = 'says not when' }";

    #[test]
    fn a_text_whose_sentences_are_all_listed_and_whose_quotations_are_found_is_fine() {
        let checked = list(&format!("{FIRST}, {SECOND}")).check([claim("tail of 52 µs")].iter(), TEXT.as_bytes());
        assert!(checked.is_fine(), "{checked:?}");
        assert_eq!((checked.quotations, checked.listed), (1, [1, 0, 1]));
    }

    #[test]
    fn what_is_not_listed_not_found_or_of_another_text_is_said() {
        let one = [claim("tail of 52 μs")];
        let checked = list(FIRST).check(one.iter(), TEXT.as_bytes());
        assert_eq!(checked.unlisted, [(3, "It drops, e.g. by half.".to_owned())]);
        let both = format!("{FIRST}, {SECOND}");
        for (sentences, claim, text, wrong) in [
            (both.clone(), claim("a tail of 53 μs"), TEXT, "does not say"),
            (both.clone(), claim("tail of 52 μs"), &TEXT[..60], "another one"),
            (
                format!("{both}, {{ line = 1, begins = 'A tail of', set_up = true }}"),
                one[0].clone(),
                TEXT,
                "no sentence",
            ),
            (format!("{both}, {{ line = 3, begins = 'See', rows = ['t.d'] }}"), one[0].clone(), TEXT, "no row t.d"),
            (format!("{both}, {{ line = 3, begins = 'See' }}"), one[0].clone(), TEXT, "not one of three"),
        ] {
            let checked = list(&sentences).check([claim].iter(), text.as_bytes());
            assert!(checked.wrong.iter().any(|it| it.contains(wrong)), "{wrong}: {checked:?}");
        }
    }

    #[test]
    fn headings_and_references_are_no_numbers() {
        for (sentence, says) in [
            ("7.1 Comparison to Other Systems", false),
            ("See Figures 2a and 3, and Table 1 [12, 38] (§7.2).", false),
            ("It takes 20 μs.", true),
            ("It drops by half.", true),
            ("The same holds here.", true),
            ("All is well.", false),
        ] {
            assert_eq!(says_something(sentence), says, "{sentence}");
        }
        assert_eq!(split("One, e.g. Two. Three! \"Four.\" 5 is."), ["One, e.g. Two.", "Three!", "\"Four.\"", "5 is."]);
    }

    #[test]
    fn the_lists_are_read_and_their_rows_exist() {
        for list in Sentences::all() {
            let claims = || topics().iter().flat_map(|topic| &topic.claims);
            for row in list.sentences.iter().flat_map(|sentence| &sentence.rows) {
                assert!(claims().any(|claim| claim.id == *row), "{row}");
            }
        }
    }
}
