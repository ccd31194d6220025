//! A remark that is made once, until its cause is gone.

use serde::{Deserialize, Serialize};

/// Has it been said?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Once(bool);

impl Once {
    /// True the first time.
    #[must_use]
    pub fn first(&mut self) -> bool {
        !std::mem::replace(&mut self.0, true)
    }

    /// The cause is gone: the next time is a first one again.
    pub fn forget(&mut self) {
        self.0 = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_until_it_is_forgotten() {
        let mut once = Once::default();
        assert!(once.first() && !once.first());
        once.forget();
        assert!(once.first() && !once.first());
    }
}
