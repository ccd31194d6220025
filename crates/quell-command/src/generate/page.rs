//! Markdown as a man page shows it: as much of both as Quell's documents use.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A tagged paragraph.
pub fn item(roff: &mut Roff, tag: &str, text: &str) {
    roff.control("TP", []).text([bold(tag)]).text([roman(text)]);
}

/// The text below the heading `## WORD`, with backticks or without; without a word, the text before the first one.
pub fn section(text: &str, word: Option<&str>) -> String {
    let mut parts = text.split("\n## ");
    let first = parts.next().unwrap_or_default();
    let Some(word) = word else { return first.to_owned() };
    let of = |part: &str| {
        part.split_once('\n').filter(|(heading, _)| heading.replace('`', "") == word).map(|(_, text)| text.to_owned())
    };
    parts.find_map(of).unwrap_or_default()
}

/// Appends a document. Its title is left out: the page has its own.
pub fn render(roff: &mut Roff, text: &str) {
    let mut writer = Writer::default();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        writer.take(roff, event);
    }
}

#[derive(Default)]
struct Writer {
    line: Vec<Inline>,
    /// Kind of its text: in a title, in strong or emphasised words.
    is_title: bool,
    is_bold: bool,
    is_italic: bool,
    is_code: bool,
    heading: Vec<String>,
    cells: Vec<Vec<Inline>>,
}

impl Writer {
    fn take(&mut self, roff: &mut Roff, event: Event) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => self.is_title = level == pulldown_cmark::HeadingLevel::H1,
            Event::End(TagEnd::Heading(_)) => {
                let text = plain(&std::mem::take(&mut self.line));
                if !std::mem::take(&mut self.is_title) {
                    roff.control("SH", [text.to_uppercase().as_str()]);
                }
            }
            Event::Start(Tag::Paragraph) => _ = roff.control("PP", []),
            Event::Start(Tag::Item) => _ = roff.control("IP", ["\\(bu", "2"]),
            Event::Start(Tag::CodeBlock(_)) => {
                self.is_code = true;
                roff.control("PP", []).control("RS", ["4"]).control("EX", []);
            }
            Event::End(TagEnd::CodeBlock) => {
                self.is_code = false;
                roff.control("EE", []).control("RE", []);
            }
            Event::Text(text) if self.is_code => text.lines().for_each(|line| _ = roff.text([roman(line)])),
            Event::Start(Tag::Strong) => self.is_bold = true,
            Event::End(TagEnd::Strong) => self.is_bold = false,
            Event::Start(Tag::Emphasis) => self.is_italic = true,
            Event::End(TagEnd::Emphasis) => self.is_italic = false,
            Event::Text(text) if self.is_bold => self.line.push(bold(&*text)),
            Event::Text(text) if self.is_italic => self.line.push(italic(&*text)),
            Event::Text(text) => self.line.push(roman(&*text)),
            Event::Code(text) => self.line.push(bold(&*text)),
            Event::SoftBreak | Event::HardBreak => self.line.push(roman(" ")),
            Event::End(TagEnd::Paragraph | TagEnd::Item) => self.flush(roff),
            // An item's text before a list within it.
            Event::Start(Tag::List(_)) => self.flush(roff),
            Event::End(TagEnd::TableCell) => self.cells.push(std::mem::take(&mut self.line)),
            Event::End(TagEnd::TableHead) => self.heading = self.cells.drain(..).map(|cell| plain(&cell)).collect(),
            Event::End(TagEnd::TableRow) => self.row(roff),
            _ => {}
        }
    }

    fn flush(&mut self, roff: &mut Roff) {
        if !self.line.is_empty() {
            roff.text(std::mem::take(&mut self.line));
        }
    }

    /// The first cell is the tag; a cell under a heading other than the last one is named by it.
    fn row(&mut self, roff: &mut Roff) {
        let mut cells = std::mem::take(&mut self.cells).into_iter();
        roff.control("TP", []).text(cells.next().unwrap_or_default());
        let rest: Vec<Vec<Inline>> = cells.collect();
        let mut body = Vec::new();
        for (at, cell) in rest.iter().enumerate().rev().filter(|(_, cell)| !cell.is_empty()) {
            let heading = self.heading.get(at + 1).filter(|heading| rest.len() > 1 && !heading.is_empty());
            if !body.is_empty() {
                body.push(roman("; "));
            }
            body.extend(heading.map(|heading| italic(format!("{heading} "))));
            body.extend(cell.iter().cloned());
        }
        roff.text(if body.is_empty() { vec![roman("must be given")] } else { body });
    }
}

fn plain(line: &[Inline]) -> String {
    let text = |inline: &Inline| match inline {
        Inline::Roman(text) | Inline::Bold(text) | Inline::Italic(text) => text.clone(),
        Inline::LineBreak => " ".to_owned(),
    };
    line.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_a_page() {
        let mut roff = Roff::new();
        let text = "# Title\n\nA *word* and `code`.\n\n## Keys\n\n| key | default | |\n|---|---|---|\n| `a` | `1` | how many |\n\n\
                    * one\n* two\n\n```\n.x = \\1\n```\n";
        render(&mut roff, text);
        let page = roff.render();
        for part in [
            "A \\fIword\\fR and \\fBcode\\fR.",
            ".SH KEYS",
            ".TP\n\\fBa\\fR\nhow many; \\fIdefault \\fR\\fB1\\fR",
            "one",
            ".EX",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("Title"), "{page}");
    }

    #[test]
    fn sections_go_by_their_headings() {
        let text = "first\n\n## `quell exec`\n\nsecond\n\n## third\n\nthree\n";
        assert_eq!(section(text, None).trim(), "first");
        assert_eq!(section(text, Some("quell exec")).trim(), "second");
        assert_eq!(section(text, Some("fourth")), "");
    }
}
