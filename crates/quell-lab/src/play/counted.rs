//! A scene of programs in a guest whose instructions are counted while its servers are loaded.

use anyhow::{Result, bail};
use quell_command::request::Request;
use serde::{Deserialize, Serialize};

use super::apart::Apart;
use super::{Play, programs, symbols};

/// One treatment's play.
#[derive(Serialize, Deserialize)]
pub struct CountedPlay(pub Play);

/// What was found beside the counts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Requests that were answered between the marks.
    pub requests: u64,
    /// The kernel's functions, while all programs of the treatment were loaded.
    pub kallsyms: String,
}

impl Request for CountedPlay {
    const NAME: &'static str = "counted-play";
    type Answer = Found;

    fn answer(self) -> Result<Found> {
        symbols::show()?;
        let treated = self.0.checked()?;
        let [treated] = &treated[..] else { bail!("{} treatments cannot be counted in one boot", treated.len()) };
        let apart = self.0.generators.as_ref().map(Apart::new).transpose()?;
        programs::count(treated, apart.as_ref())
    }
}
