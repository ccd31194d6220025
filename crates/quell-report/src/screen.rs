//! Capabilities of the output: the width of a line, and colours.

use std::fmt::Display;
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use terminal_size::{Width, terminal_size_of};

/// Things that the user ought to see at a glance, one style each in all of Quell's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A heading: bold.
    Head,
    /// An error, a missed objective: red.
    Bad,
    /// Something to fix: yellow.
    Warning,
    /// An objective that is kept: green.
    Good,
    /// Less important than the text beside it.
    Faint,
}

impl Mark {
    fn style(self) -> Style {
        match self {
            Mark::Head => Style::new().bold(),
            Mark::Bad => AnsiColor::Red.on_default().bold(),
            Mark::Warning => AnsiColor::Yellow.on_default(),
            Mark::Good => AnsiColor::Green.on_default(),
            Mark::Faint => Style::new().dimmed(),
        }
    }
}

/// The width and the colours of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns of a line; no bound in a file or a pipe.
    pub width: Option<usize>,
    /// Are there colours?
    pub colour: bool,
}

static HERE: OnceLock<Screen> = OnceLock::new();

impl Screen {
    /// A file or a pipe: lines of any length, no colours.
    pub const UNBOUNDED: Screen = Screen { width: None, colour: false };

    /// This number of columns, without colours.
    #[must_use]
    pub fn columns(width: usize) -> Screen {
        Screen { width: Some(width), ..Screen::UNBOUNDED }
    }

    /// This process's standard output, as it is found now, for all later calls of [`Screen::here`]. `wide`: lines of any
    /// length even on a terminal.
    pub fn find(wide: bool) -> Screen {
        let found = Screen::of_output();
        *HERE.get_or_init(|| Screen { width: found.width.filter(|_| !wide), ..found })
    }

    /// This process's standard output.
    #[must_use]
    pub fn here() -> Screen {
        Screen::find(false)
    }

    /// This process's standard output, as it is now.
    #[must_use]
    pub fn of_output() -> Screen {
        Screen::of(&std::io::stdout())
    }

    /// This process's standard error.
    #[must_use]
    pub fn of_errors() -> Screen {
        Screen::of(&std::io::stderr())
    }

    fn of<S: anstream::stream::RawStream + std::os::fd::AsFd>(stream: &S) -> Screen {
        let terminal = stream.is_terminal().then(|| terminal_size_of(stream)).flatten();
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        Screen {
            width: columns.or(terminal.map(|(Width(width), _)| usize::from(width))).filter(|&width| width > 0),
            // NO_COLOR, CLICOLOR_FORCE and TERM=dumb are looked at there.
            colour: AutoStream::choice(stream) != ColorChoice::Never,
        }
    }

    /// The text with its mark, where there are colours.
    #[must_use]
    pub fn mark(&self, mark: Mark, text: impl Display) -> String {
        if !self.colour {
            return text.to_string();
        }
        let style = mark.style();
        format!("{style}{text}{style:#}")
    }

    /// The line in as many lines as it needs, the further ones below its first word and two columns to the right.
    #[must_use]
    pub fn wrap(&self, line: &str) -> String {
        self.hang(line, line.len() - line.trim_start().len() + 2)
    }

    /// The line in as many lines as it needs, the further ones behind this many blanks.
    #[must_use]
    pub fn hang(&self, line: &str, blanks: usize) -> String {
        let Some(width) = self.width.filter(|&width| unicode_width::UnicodeWidthStr::width(line) > width) else {
            return line.to_owned();
        };
        let indent = " ".repeat(blanks.min(width / 2));
        textwrap::fill(line, textwrap::Options::new(width).subsequent_indent(&indent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_hang_below_their_first_word() {
        let line = "  means  the kernel may run other work there";
        assert_eq!(Screen::UNBOUNDED.wrap(line), line);
        assert_eq!(Screen::columns(80).wrap(line), line);
        assert_eq!(
            Screen::columns(24).hang(line, 9),
            "  means  the kernel may\n         run other work\n         there"
        );
        assert_eq!(Screen::columns(30).wrap(line), "  means  the kernel may run\n    other work there");
    }

    #[test]
    fn marks_are_escape_sequences_only_where_there_are_colours() {
        assert_eq!(Screen::columns(80).mark(Mark::Bad, "missed"), "missed");
        let colourful = Screen { colour: true, ..Screen::UNBOUNDED };
        assert_eq!(colourful.mark(Mark::Warning, 7), "\u{1b}[33m7\u{1b}[0m");
    }
}
