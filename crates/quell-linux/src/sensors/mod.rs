//! What the host measures, a file or folder each.

pub(crate) mod bandwidth;
pub(crate) mod canary;
