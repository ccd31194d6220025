//! Progress bars on the error output.

use std::io;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quell_model::Nanos;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// A bar of this length in this style. None is drawn beside a terminal's other jobs: where a shell has started this one in the
/// background (`&`), it would be drawn over what is typed there.
///
/// # Panics
/// If the style is no template.
#[must_use]
pub fn bar(length: u64, template: &str) -> ProgressBar {
    let target = if is_in_background() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).expect("constant template");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

/// A bar of milliseconds.
#[must_use]
pub fn of_time(length: Nanos, what: impl Into<String>) -> ProgressBar {
    bar(length.0 / 1_000_000, "{prefix} {wide_bar} {eta}").with_prefix(what.into())
}

/// Is another job the terminal's foreground process group?
fn is_in_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|foreground| foreground != getpgrp())
}
