//! As what a plug-in registers.

use crate::error::Error;
use crate::message::FailurePolicy;

/// Name, place in the order of plug-ins, and what the runtime does when the plug-in fails to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub(crate) name: String,
    pub(crate) index: String,
    pub(crate) failure_policy: FailurePolicy,
}

impl Registration {
    /// A name of letters, digits, `-`, `_`, `.` and `+`; an index of two digits: plug-ins are called in ascending order.
    pub fn new(name: impl Into<String>, index: impl Into<String>) -> Result<Registration, Error> {
        let (name, index) = (name.into(), index.into());
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err(Error::Name(name));
        }
        if index.len() != 2 || !index.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(Error::Index(index));
        }
        Ok(Registration { name, index, failure_policy: FailurePolicy::default() })
    }

    /// With this policy in place of NRI's default, by which a plug-in that is late is disconnected and the request goes on without it.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Registration {
        self.failure_policy = policy;
        self
    }
}

#[test]
fn names_and_indexes_are_those_that_nri_allows() {
    assert!(Registration::new("my-plug.in_+9", "00").is_ok());
    for name in ["", "a b", "ä", "a/b", "a\n"] {
        assert!(matches!(Registration::new(name, "10"), Err(Error::Name(_))), "{name:?}");
    }
    for index in ["", "1", "100", "a0", "1 ", "٣"] {
        assert!(matches!(Registration::new("a", index), Err(Error::Index(_))), "{index:?}");
    }
}
