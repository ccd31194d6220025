//! Progress bars on the error output.

use indicatif::{ProgressBar, ProgressStyle};
use quell_model::Nanos;

/// A bar of milliseconds.
#[must_use]
pub fn of_time(length: Nanos, what: impl Into<String>) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {eta}").expect("constant template");
    ProgressBar::new(length.0 / 1_000_000).with_style(style).with_prefix(what.into())
}
