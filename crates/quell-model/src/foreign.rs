//! Text that any user may choose, such as the names of programs, threads and cgroups, made safe to print.
//!
//! A terminal obeys control characters, and a line feed makes two lines of one. Here they become visible escapes: `\x1b`,
//! `\n`, `\u{202e}`. What is printed of another user's names passes through this; `quell-checks` looks for what does not.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// The text with each character that a terminal would obey, or hide, as an escape.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        // Writing to a string cannot fail.
        let _ = match letter {
            '\n' => safe.write_str("\\n"),
            '\r' => safe.write_str("\\r"),
            '\t' => safe.write_str("\\t"),
            _ if is_visible(letter) => safe.write_char(letter),
            _ if letter.is_ascii() => write!(safe, "\\x{:02x}", u32::from(letter)),
            _ => write!(safe, "\\u{{{:x}}}", u32::from(letter)),
        };
    }
    Cow::Owned(safe)
}

/// As [`text`]; bytes that are no text become `\u{fffd}`, the sign for such.
#[must_use]
pub fn bytes(bytes: &[u8]) -> String {
    text(&String::from_utf8_lossy(bytes)).into_owned()
}

/// As [`text`], of a path.
#[must_use]
pub fn path(path: &Path) -> String {
    bytes(path.as_os_str().as_encoded_bytes())
}

/// Is there nothing in it that a terminal would obey, or hide?
#[must_use]
pub fn is_plain(text: &str) -> bool {
    text.chars().all(is_visible)
}

/// Neither a control character nor one that changes the order of those beside it, or that takes no room.
fn is_visible(letter: char) -> bool {
    let is_hidden = matches!(letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    !(letter.is_control() || is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_an_escape() {
        assert_eq!(text("\x1b[31mX\x1b[2J\nY"), "\\x1b[31mX\\x1b[2J\\nY");
        assert_eq!(text("a\u{9b}2J\u{202e}b\u{7f}"), "a\\u{9b}2J\\u{202e}b\\x7f");
        assert_eq!(bytes(b"a\xffb\t"), "a\u{fffd}b\\t");
        for plain in ["memcached", "kworker/0:1", "größe", "foo@a\\x2db.service", "日本"] {
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_obeyed_and_nothing_plain_is_changed(any in any::<String>()) {
            let safe = text(&any);
            prop_assert!(is_plain(&safe));
            prop_assert_eq!(text(&safe), safe.clone());
            prop_assert_eq!(is_plain(&any), safe == any);
        }
    }
}
