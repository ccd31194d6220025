//! The one look of all of Quell's tables.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// A table with a line under its head. The first column is text, the others are numbers (right-aligned).
#[must_use]
pub fn table<H, R, C>(head: H, rows: R) -> Table
where
    H: IntoIterator,
    H::Item: ToString,
    R: IntoIterator<Item = C>,
    C: IntoIterator,
    C::Item: ToString,
{
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─')
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head.into_iter().map(|cell| cell.to_string()));
    for row in rows {
        table.add_row(row.into_iter().map(|cell| cell.to_string()));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_under_each_other() {
        let text = table(["phase", "p99"], [["alone", "0.24 ms"], ["beside", "28.0 ms"]]).to_string();
        let column = |line: &str| line.trim_end().chars().count();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("ms")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(column(lines[0]), column(lines[1]));
    }
}
