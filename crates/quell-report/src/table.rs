//! The one look of all of Quell's tables.

use std::fmt;

pub use comfy_table::Cell;
use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, TableComponent, Width, presets,
};
use unicode_width::UnicodeWidthStr;

use crate::screen::{Mark, Screen};

/// Text of an absent measurement.
pub const NOTHING: &str = "–";

/// The last column is wrapped before others are left out, but not into less than this.
const NARROWEST: usize = 28;

/// Rows under a head, and the columns that may be left out on a narrow screen.
#[derive(Clone, Debug)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    least: Vec<String>,
}

/// A table with a line under its head. Columns of numbers are right-aligned, all others left.
#[must_use]
pub fn table<H, R, C>(head: H, rows: R) -> Table
where
    H: IntoIterator,
    H::Item: ToString,
    R: IntoIterator<Item = C>,
    C: IntoIterator,
    C::Item: Into<Cell>,
{
    let head: Vec<String> = head.into_iter().map(|cell| cell.to_string()).collect();
    let row = |cells: C| {
        let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        cells.resize_with(head.len(), || Cell::new(""));
        cells
    };
    Table { rows: rows.into_iter().map(row).collect(), head, least: Vec::new() }
}

/// A cell with a mark, where there are colours.
#[must_use]
pub fn marked(mark: Mark, text: impl ToString) -> Cell {
    let cell = Cell::new(text);
    match mark {
        Mark::Head => cell.add_attribute(Attribute::Bold),
        Mark::Bad => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        Mark::Warning => cell.fg(Color::Yellow),
        Mark::Good => cell.fg(Color::Green),
        Mark::Faint => cell.add_attribute(Attribute::Dim),
    }
}

impl Table {
    /// The columns that are left out first where there is no room, the least important one first. After them go the others
    /// from the right; the first column, and a last one of text, always stay.
    #[must_use]
    pub fn least<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> Table {
        self.least = columns.into_iter().map(str::to_owned).collect();
        self
    }

    /// The table as this screen has room for it: the last column wrapped if it is text, then the least important columns
    /// left out and named in a line below.
    #[must_use]
    pub fn fit(&self, screen: &Screen) -> String {
        let mut shown: Vec<usize> = (0..self.head.len()).collect();
        let mut hidden = Vec::new();
        for column in self.to_leave_out() {
            if screen.width.is_none_or(|width| self.least_width(&shown) <= width) {
                break;
            }
            shown.retain(|&other| other != column);
            hidden.push(column);
        }
        let mut text = self.drawn(&shown, screen).trim_fmt();
        if !hidden.is_empty() {
            hidden.sort_unstable();
            let names = hidden.iter().map(|&column| self.head[column].as_str()).collect::<Vec<_>>().join(", ");
            let line = screen.wrap(&format!(" not shown: {names} (--wide shows all)"));
            text += &format!("\n{}", screen.mark(Mark::Faint, line));
        }
        text
    }

    /// Columns that can be left out, in this order.
    fn to_leave_out(&self) -> Vec<usize> {
        let named = self.least.iter().filter_map(|name| self.head.iter().position(|head| head == name));
        let mut order: Vec<usize> = named.collect();
        let end = self.head.len() - usize::from(self.wraps());
        let rest = (1..end).rev().filter(|column| !order.contains(column)).collect::<Vec<_>>();
        order.extend(rest);
        order
    }

    fn wraps(&self) -> bool {
        self.head.len() > 1 && !self.is_numeric(self.head.len() - 1)
    }

    /// Does the column hold only numbers, and signs of absent ones?
    fn is_numeric(&self, column: usize) -> bool {
        let mut texts = self.rows.iter().map(|row| row[column].content()).filter(|text| !text.is_empty()).peekable();
        let number = |text: &str| {
            let text = text.trim_start_matches(['!', '~', '<', '≤', '>', '±', '+', '-', ' ']);
            text.starts_with(|first: char| first.is_ascii_digit()) || ["–", "?"].contains(&text)
        };
        texts.peek().is_some() && texts.all(|text| number(&text))
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].content());
        let widest = |text: &str| text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
        cells.map(|text| widest(&text)).max().unwrap_or(0).max(widest(&self.head[column]))
    }

    /// Least width of a line if these columns are shown.
    fn least_width(&self, shown: &[usize]) -> usize {
        let last = self.head.len() - 1;
        let narrowest = |&column: &usize| match self.width_of(column) {
            width if self.wraps() && column == last => width.min(NARROWEST),
            width => width,
        };
        frame_of(shown.len()) + shown.iter().map(narrowest).sum::<usize>()
    }

    fn drawn(&self, shown: &[usize], screen: &Screen) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_style(TableComponent::HeaderLines, '─')
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(shown.iter().map(|&column| marked(Mark::Head, &self.head[column])));
        if screen.colour {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        for row in &self.rows {
            table.add_row(shown.iter().map(|&column| row[column].clone()));
        }
        let width = screen.width.unwrap_or(usize::MAX);
        let natural = frame_of(shown.len()) + shown.iter().map(|&column| self.width_of(column)).sum::<usize>();
        if natural > width {
            let width = u16::try_from(width).unwrap_or(u16::MAX);
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        // An excess is the last column's; if even the first one has no room, all are wrapped.
        let only_last = natural > width && self.least_width(shown) <= width;
        for (place, &column) in shown.iter().enumerate() {
            let Some(drawn) = table.column_mut(place) else { continue };
            if place > 0 && self.is_numeric(column) {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
            if only_last && place + 1 < shown.len() {
                let width = u16::try_from(self.width_of(column) + 2).unwrap_or(u16::MAX);
                drawn.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            }
        }
        table
    }
}

/// Width of the blanks beside this many columns.
fn frame_of(columns: usize) -> usize {
    2 * columns
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fit(&Screen::UNBOUNDED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    #[test]
    fn numbers_stand_under_each_other_and_text_begins_at_the_left() {
        let rows = [["alone", "0.24 ms", "none"], ["beside", "28.0 ms", "SCHED_FIFO"]];
        let text = table(["phase", "p99", "knobs"], rows).to_string();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("ms")).collect();
        assert_eq!(lines, [" alone   0.24 ms  none", " beside  28.0 ms  SCHED_FIFO"], "{text}");
    }

    #[test]
    fn a_narrow_screen_wraps_the_last_column_and_leaves_out_the_least_important_ones() {
        let why = "its longest thread ran for 52 ms without a pause, longer than its budget of 20 ms";
        let rows = [["db", "2.00", "0.25", "12 µs", why], ["batch", "0.50", "–", "–", "nothing"]];
        let table = table(["workload", "CPUs", "waiting", "queueing", "why"], rows).least(["queueing", "waiting"]);
        let full = table.to_string();
        assert_eq!(full.lines().count(), 4, "{full}");
        assert_eq!(table.fit(&Screen::columns(200)), full);
        for width in 12..130 {
            let text = table.fit(&Screen::columns(width));
            assert!(widest(&text) <= width, "{width}:\n{text}");
        }
        let at_80 = table.fit(&Screen::columns(80));
        assert!(!at_80.contains("not shown") && at_80.lines().count() == 5, "{at_80}");
        let at_60 = table.fit(&Screen::columns(60));
        assert!(at_60.ends_with("not shown: queueing (--wide shows all)"), "{at_60}");
        let at_50 = table.fit(&Screen::columns(50));
        assert!(at_50.ends_with("not shown: waiting, queueing (--wide shows all)"), "{at_50}");
    }

    #[test]
    fn marks_do_not_move_columns() {
        let rows = |cell: Cell| [[Cell::new("db"), cell, Cell::new("x")]];
        let head = ["workload", "latency", "knobs"];
        let plain = table(head, rows(Cell::new("2.0 ms"))).to_string();
        let marked = table(head, rows(marked(Mark::Bad, "2.0 ms")));
        assert_eq!(marked.to_string(), plain);
        let colourful = marked.fit(&Screen { colour: true, ..Screen::UNBOUNDED });
        assert!(colourful.contains("2.0 ms") && colourful.contains('\u{1b}'), "{colourful:?}");
        let bare = anstream::adapter::strip_str(&colourful).to_string();
        assert!(bare.lines().map(str::trim_end).eq(plain.lines()), "{bare}");
    }
}
