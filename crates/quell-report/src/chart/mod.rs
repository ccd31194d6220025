//! Charts: plain data in, SVG out. Only [`latency_chart`] knows the meaning of its numbers.
//!
//! A [`Chart`] has two axes, series (lines, steps or points) and marks (limits and spans). [`Chart::to_svg`] gives an
//! element for a page that carries [`STYLE`]; [`Chart::to_svg_file`] a file of its own. Colours follow the reader's
//! light or dark setting.

mod axis;
mod latency;
mod plot;

pub use axis::{Axis, Scale, Unit};
pub use latency::latency_chart;

/// The style sheet of all charts.
pub const STYLE: &str = include_str!("chart.css");
/// Number of colours; further series repeat them.
pub const COLOURS: usize = 8;

/// A picture of some numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// One line above it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series that are shown.
    pub series: Vec<Series>,
    /// Limits, spans and quoted numbers.
    pub marks: Vec<Mark>,
}

/// One set of points, in the order of `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its form.
    pub form: Form,
    /// Index of the colour, modulo [`COLOURS`].
    pub colour: usize,
    /// Points; those that are not finite, or not positive on a logarithmic axis, break the line.
    pub points: Vec<(f64, f64)>,
}

/// Form of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Straight from point to point.
    Line,
    /// `y` holds until the next point's `x`.
    Steps,
    /// Single dots.
    Points,
}

/// Something to compare with.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A vertical line.
    AtX {
        /// Position.
        x: f64,
        /// Label.
        label: String,
    },
    /// A horizontal line.
    AtY {
        /// Position.
        y: f64,
        /// Label.
        label: String,
    },
    /// A shaded span of `x`.
    Span {
        /// Its beginning.
        from: f64,
        /// Its end.
        to: f64,
        /// Label.
        label: String,
    },
    /// A ring around one number, for example one that a paper quotes.
    Point {
        /// Position.
        x: f64,
        /// Position.
        y: f64,
        /// Label.
        label: String,
    },
}

impl Chart {
    /// A chart without content yet.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), marks: Vec::new() }
    }

    /// Adds a series in the next colour.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, form: Form, points: Vec<(f64, f64)>) -> Self {
        let colour = self.series.len();
        self.series.push(Series { name: name.into(), form, colour, points });
        self
    }

    /// Adds a mark.
    #[must_use]
    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    /// The `svg` element, for a page that carries [`STYLE`].
    #[must_use]
    pub fn to_svg(&self) -> String {
        plot::svg(self, None).into_string()
    }

    /// A whole SVG file with its style.
    #[must_use]
    pub fn to_svg_file(&self) -> String {
        plot::svg(self, Some(STYLE)).into_string()
    }
}
