//! Faults of a configuration, with their places.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: Arc<PathBuf>,
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// A file as a whole.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Place {
        Place { file: Arc::new(path.into()), line: 0, column: 0 }
    }

    /// The place of a byte of this text.
    #[must_use]
    pub fn at(file: &Arc<PathBuf>, text: &str, byte: usize) -> Place {
        let mut end = byte.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            file: Arc::clone(file),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        Ok(())
    }
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It works, but perhaps not as meant.
    Warning,
    /// It works as meant, and this is worth knowing.
    Info,
}

impl Severity {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity.
    pub severity: Severity,
    /// Place.
    pub place: Place,
    /// The fault, and the fix.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.severity.word(), self.what)
    }
}

/// All problems that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds an error.
    pub fn error(&mut self, place: &Place, what: impl Into<String>) {
        self.0.push(Problem { severity: Severity::Error, place: place.clone(), what: what.into() });
    }

    /// Adds a warning.
    pub fn warning(&mut self, place: &Place, what: impl Into<String>) {
        self.0.push(Problem { severity: Severity::Warning, place: place.clone(), what: what.into() });
    }

    /// Adds what needs no action.
    pub fn info(&mut self, place: &Place, what: impl Into<String>) {
        self.0.push(Problem { severity: Severity::Info, place: place.clone(), what: what.into() });
    }

    /// In the order of these files, and of their lines.
    pub fn sort(&mut self, files: &[PathBuf]) {
        let file = |place: &Place| files.iter().position(|file| *file == *place.file).unwrap_or(usize::MAX);
        self.0.sort_by_key(|problem| (file(&problem.place), problem.place.line, problem.place.column));
    }

    /// Is there an error, or are there warnings only?
    #[must_use]
    pub fn are_fatal(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The problems of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Problem> {
        self.0.iter().filter(move |problem| problem.severity == severity)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let file = Arc::new(PathBuf::from("a.toml"));
        let text = "eins\nzwö = 1\n";
        let byte = text.find("= 1").unwrap();
        assert_eq!(Place::at(&file, text, byte).to_string(), "a.toml:2:5");
        assert_eq!(Place::at(&file, text, 0).to_string(), "a.toml:1:1");
        assert_eq!(Place::at(&file, text, 999).line, 3);
        assert_eq!(Place::at(&file, text, text.find('ö').unwrap() + 1).column, 3, "inside a character");
    }
}
