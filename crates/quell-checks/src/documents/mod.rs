//! The documents of the repository, and the command lines in them.

pub mod commands;
pub mod page;
