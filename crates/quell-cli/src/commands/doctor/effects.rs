//! `quell doctor --effects`: how soon each knob of control groups acts here.

use std::io::{self, Write};

use anyhow::Result;
use quell_bench::settling::{self, Effect};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use quell_command::output;

/// Trials of each knob.
const TRIALS: u32 = 20;

/// As data.
#[derive(Serialize)]
struct Printed {
    effects: Vec<Effect>,
}

/// Measures and prints.
pub fn run(json: bool) -> Result<()> {
    let effects = settling::measure(TRIALS)?;
    if json {
        return output::json_line(&Printed { effects });
    }
    let rows = effects.iter().map(|effect| {
        let mut sorted = effect.after_ns.clone();
        sorted.sort_unstable();
        let at = |place: usize| sorted.get(place).map_or("–".to_owned(), |ns| human::nanoseconds(*ns));
        let last = sorted.len().saturating_sub(1);
        [effect.turn.name().to_owned(), at(0), at(sorted.len() / 2), at(last), effect.unseen.to_string()]
    });
    let text = table(["knob", "least", "median", "greatest", "not seen"], rows).fit(&Screen::here());
    writeln!(io::stdout(), "From the write of a knob to its effect on a thread, {TRIALS} times\n{text}")?;
    Ok(())
}
