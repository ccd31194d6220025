//! The token that a client of the metrics shows where other machines can reach them: from a file that no other user can read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::AgentError;

/// Access of others than the file's owner.
const OTHERS: u32 = 0o077;
/// A token has this number of characters at least …
const SHORTEST: usize = 16;
/// … and at most this number.
const LONGEST: u64 = 4096;
const SCHEME: &str = "Bearer ";

/// A token.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    /// Reads it.
    ///
    /// # Errors
    /// If others can read or write the file, or no token is in it: with the fix.
    pub fn read(path: &Path) -> Result<Token, AgentError> {
        let fail = |cause: io::Error, fix: &str| AgentError::File {
            operation: "read the token of the metrics in",
            path: path.to_owned(),
            cause,
            fix: fix.to_owned(),
        };
        let make = format!("make it: (umask 077; openssl rand -hex 32 > {})", path.display());
        let mut file = File::open(path).map_err(|cause| fail(cause, &make))?;
        let found = file.metadata().map_err(|cause| fail(cause, &make))?;
        let refuse = |problem: &str, fix: &str| Err(fail(io::Error::new(io::ErrorKind::InvalidData, problem), fix));
        if !found.is_file() {
            return refuse("it is not a file", &make);
        }
        let own = rustix::process::geteuid().as_raw();
        if found.uid() != 0 && found.uid() != own {
            return refuse("another user owns it", &format!("run chown root {}", path.display()));
        }
        if found.mode() & OTHERS != 0 {
            return refuse("other users may open it", &format!("run chmod 0600 {}", path.display()));
        }
        let mut text = String::new();
        file.by_ref().take(LONGEST + 1).read_to_string(&mut text).map_err(|cause| fail(cause, &make))?;
        let token = text.trim();
        if token.len() < SHORTEST || token.len() as u64 > LONGEST || !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return refuse("it is no line of 16 characters to 4 KiB without spaces", &make);
        }
        Ok(Token(token.as_bytes().to_vec()))
    }

    /// Does a request show it? The time that this takes says nothing of it but its length.
    #[must_use]
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let shown = value.and_then(|value| value.split_at_checked(SCHEME.len()));
        shown.is_some_and(|(scheme, shown)| {
            scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && bool::from(self.0.ct_eq(shown))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const GOOD: &str = "0123456789abcdef";

    #[test]
    fn a_token_is_a_line_that_its_owner_alone_can_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        assert_eq!(read(&format!("{GOOD}\n"), 0o600).unwrap().0, GOOD.as_bytes());
        assert!(read(GOOD, 0o400).is_ok());
        for (text, mode, part) in [
            (GOOD, 0o640, "chmod 0600"),
            (GOOD, 0o604, "chmod 0600"),
            (GOOD, 0o620, "chmod 0600"),
            ("short", 0o600, "16 characters"),
            ("", 0o600, "16 characters"),
            ("two words of many letters", 0o600, "without spaces"),
            (&GOOD.repeat(300), 0o600, "16 characters"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(part) && error.lines().count() == 1 && !error.contains(GOOD), "{error}");
        }
        let missing = Token::read(&directory.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("umask 077") && missing.lines().count() == 1, "{missing}");
        assert!(Token::read(directory.path()).is_err(), "a directory");
        assert_eq!(format!("{:?}", Token(GOOD.into())), "Token");
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token(GOOD.into());
        let shows = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            token.is_in(&headers)
        };
        assert!(shows("Bearer 0123456789abcdef") && shows("bearer 0123456789abcdef"));
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Basic 0123456789abcdef"]
        {
            assert!(!shows(wrong), "{wrong}");
        }
        assert!(!shows("Bearer 0123456789abcdef0") && !shows(GOOD) && !token.is_in(&HeaderMap::new()));
    }
}
