//! For tests of what is printed.

use unicode_width::UnicodeWidthStr;

/// No line is wider than the terminal.
///
/// # Panics
/// If one is.
pub fn assert_fits(text: &str, columns: usize) {
    for line in text.lines() {
        assert!(line.width() <= columns, "{} columns of {columns}: {line}\n{text}", line.width());
    }
}
