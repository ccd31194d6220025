//! What a page holds: blocks of code, links, headings.

use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A Markdown file of the repository.
pub struct Page {
    /// From the repository's root, for messages.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its blocks of code.
    pub blocks: Vec<Block>,
    /// Targets, each with its line.
    pub links: Vec<(usize, String)>,
    /// What stands in the text as code, each with its line.
    pub code: Vec<(usize, String)>,
    /// As links name them.
    pub anchors: Vec<String>,
}

/// A fenced block.
pub struct Block {
    /// Of its first line.
    pub line: usize,
    /// What stands behind the fence.
    pub language: String,
    /// What is in it.
    pub text: String,
    /// What the comment `<!-- test: … -->` in front of it says.
    pub marker: Option<String>,
}

impl Block {
    /// Why its commands are not run, if they are not.
    pub fn not_run(&self) -> Option<&str> {
        self.marker.as_deref().and_then(|marker| marker.strip_prefix("not run: "))
    }
}

/// The README and all pages of docs/ and its parts; the notebook's are records and stay as they were.
pub fn all() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![Page::read("README.md".into(), root.join("README.md"))];
    for part in ["docs", "docs/start", "docs/operate", "docs/reference", "docs/how", "docs/extend", "docs/lab"] {
        let entries = root.join(part).read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
        files.sort();
        let named = |path: &PathBuf| format!("{part}/{}", path.file_name().unwrap().display());
        pages.extend(files.into_iter().map(|path| Page::read(named(&path), path)));
    }
    pages
}

impl Page {
    fn read(name: String, path: PathBuf) -> Page {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut page = Page { name, path, blocks: vec![], links: vec![], code: vec![], anchors: vec![] };
        page.parse(&text);
        page
    }

    fn parse(&mut self, text: &str) {
        let line = |range: &Range<usize>| text[..range.start].matches('\n').count() + 1;
        let (mut is_code, mut marker, mut heading) = (false, None, None::<String>);
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Html(comment) => marker = comment.trim().strip_prefix("<!-- test: ").map(marked).or(marker),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    is_code = true;
                    let (line, language) = (line(&range) + 1, language.to_string());
                    self.blocks.push(Block { line, language, text: String::new(), marker: marker.take() });
                }
                Event::Text(part) if is_code => self.blocks.last_mut().unwrap().text += &part,
                Event::End(TagEnd::CodeBlock) => is_code = false,
                Event::Start(Tag::Heading { level, .. }) if level > HeadingLevel::H1 => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => self.anchors.extend(heading.take().map(|text| anchor(&text))),
                Event::Text(part) => heading.iter_mut().for_each(|heading| *heading += &part),
                Event::Code(part) => {
                    heading.iter_mut().for_each(|heading| *heading += &part);
                    self.code.push((line(&range), part.to_string()));
                }
                Event::Start(Tag::Link { dest_url, .. }) => self.links.push((line(&range), dest_url.to_string())),
                _ => {}
            }
        }
    }
}

fn marked(comment: &str) -> String {
    comment.trim_end_matches("-->").trim().to_owned()
}

/// As GitHub makes them.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
