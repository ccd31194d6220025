//! A verified scheduler on its way to another process: bytes, and the descriptors that go with them.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use super::Verified;
use super::descriptors::{Descriptors, Names};
use super::verified::Made;

/// The bytes, as JSON.
#[derive(Serialize, Deserialize)]
struct Label {
    /// Of the program that made it: another one may have other variables.
    version: String,
    made: Made,
    names: Names,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Verified {
    /// To be sent with its descriptors (`SCM_RIGHTS`), in this order.
    #[must_use]
    pub fn into_parcel(self) -> (Vec<u8>, Vec<OwnedFd>) {
        let (names, descriptors) = self.kernel.into_parts();
        let label = Label { version: VERSION.to_owned(), made: self.made, names };
        (serde_json::to_vec(&label).expect("names and numbers"), descriptors)
    }

    /// As it was sent; None if it is not one, or of another version of this program.
    #[must_use]
    pub fn of_parcel(bytes: &[u8], descriptors: Vec<OwnedFd>) -> Option<Verified> {
        let Label { version, made, names } = serde_json::from_slice(bytes).ok()?;
        let kernel = Descriptors::of_parts(names, descriptors).filter(|_| version == VERSION)?;
        Some(Verified { kernel, made, began: quell_linux::now() })
    }
}
