//! Lines out of a stream that comes in pieces.

use super::Malformed;

/// The longest line that is understood.
pub(super) const LINE_BYTES: usize = 512;

/// Keeps the beginning of a line whose end has not come yet.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    kept: [u8; LINE_BYTES],
    len: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { kept: [0; LINE_BYTES], len: 0 }
    }
}

impl Lines {
    /// Takes the next line, without its end, out of the piece; none where its end has not come yet.
    pub fn next<'line, 'piece: 'line>(
        &'line mut self,
        piece: &mut &'piece [u8],
    ) -> Result<Option<&'line [u8]>, Malformed> {
        let Some(end) = piece.iter().position(|byte| *byte == b'\n') else {
            self.keep(piece)?;
            *piece = &[];
            return Ok(None);
        };
        let (line, rest) = piece.split_at(end + 1);
        *piece = rest;
        let line = if self.len == 0 {
            line
        } else {
            self.keep(line)?;
            &self.kept[..std::mem::take(&mut self.len)]
        };
        line.strip_suffix(b"\r\n").map(Some).ok_or(Malformed)
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        let end = self.len + piece.len();
        self.kept.get_mut(self.len..end).ok_or(Malformed)?.copy_from_slice(piece);
        self.len = end;
        Ok(())
    }
}
