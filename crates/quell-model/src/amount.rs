//! Numbers of things, for people.

use std::fmt::Display;

/// `1 thread`, `2 threads`.
#[must_use]
pub fn amount<N: Display + PartialEq + From<u8>>(number: N, one: &str, several: &str) -> String {
    let name = if number == N::from(1) { one } else { several };
    format!("{number} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [0, 1, 2].map(|number: usize| amount(number, "process", "processes")),
            ["0 processes", "1 process", "2 processes"]
        );
    }
}
