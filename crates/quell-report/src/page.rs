//! Self-contained HTML pages from plain data: no network, no script, light and dark.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::{self, COLOURS, Chart};

const STYLE: &str = include_str!("page.css");

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its head line.
    pub title: String,
    /// One sentence below it: the work done, its place and time.
    pub subtitle: String,
    /// Its content, from top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A head line within the page.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A chart.
    Chart(Chart),
    /// A table; all columns but the first are numbers.
    Table {
        /// Column heads.
        head: Vec<String>,
        /// Rows, each as long as the head.
        rows: Vec<Row>,
    },
    /// Short remarks, one a line.
    Notes(Vec<String>),
    /// Text as in a file.
    Listing(String),
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The colour of its series in the charts.
    pub colour: Option<usize>,
    /// Its cells.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// A second, smaller line: a confidence interval, a comparison.
    pub note: Option<String>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), note: None }
    }
}

impl Cell {
    /// A cell with a second line.
    #[must_use]
    pub fn with_note(text: impl Into<String>, note: impl Into<String>) -> Self {
        Self { text: text.into(), note: Some(note.into()) }
    }
}

impl Page {
    /// The whole file.
    #[must_use]
    pub fn to_html(&self) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(chart::STYLE)) (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        header {
                            h1 { (self.title) }
                            p.subtitle { (self.subtitle) }
                        }
                        @for block in &self.blocks { (block.markup()) }
                    }
                }
            }
        }
        .into_string()
    }
}

impl Block {
    fn markup(&self) -> Markup {
        match self {
            Self::Heading(text) => html! { h2 { (text) } },
            Self::Text(text) => html! { p { (text) } },
            Self::Chart(chart) => html! { figure { (PreEscaped(chart.to_svg())) } },
            Self::Table { head, rows } => table(head, rows),
            Self::Listing(text) => html! { pre { (text) } },
            Self::Notes(notes) => html! { ul.notes { @for note in notes { li { (note) } } } },
        }
    }
}

fn table(head: &[String], rows: &[Row]) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for cell in head { th scope="col" { (cell) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, cell) in row.cells.iter().enumerate() {
                                td {
                                    @if let (0, Some(colour)) = (column, row.colour) {
                                        span.dot style=(format!("background: var(--c{})", colour % COLOURS)) {}
                                    }
                                    (cell.text)
                                    @if let Some(note) = &cell.note { span.note { (note) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Form, Scale, Unit};

    #[test]
    fn a_page_is_whole_escaped_and_needs_nothing_from_outside() {
        let axis = |label: &str| Axis::new(label, Scale::Linear, Unit::Plain);
        let page = Page {
            title: "a < b".into(),
            subtitle: "of \"c\"".into(),
            blocks: vec![
                Block::Heading("heading".into()),
                Block::Text("<script>alert(1)</script>".into()),
                Block::Chart(Chart::new("chart", axis("x"), axis("y")).with("s", Form::Line, vec![(0.0, 1.0)])),
                Block::Table {
                    head: vec!["phase".into(), "p99".into()],
                    rows: vec![Row {
                        colour: Some(9),
                        cells: vec!["alone".into(), Cell::with_note("1 ms", "0.9–1.1 ms")],
                    }],
                },
                Block::Notes(vec!["note".into()]),
                Block::Listing("a = 1\nb < 2".into()),
            ],
        };
        let html = page.to_html();
        assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>"));
        assert!(html.contains("<title>a &lt; b</title>") && !html.contains("<script"));
        assert!(html.contains("<pre>a = 1\nb &lt; 2</pre>"));
        assert!(html.contains("0.9–1.1 ms") && html.contains("var(--c1)") && html.contains("<path"));
        for outside in ["src=", "href=", "url(", "@import"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
