//! What a word on a command line means: a unit, a container, a cgroup, a process, or a program by its name.
//!
//! [`resolve`] is pure: it reads [`Processes`], plain data. The processes of one unit, one container or one tree are one match.
//! Any user may give a process any name, so that a name alone never chooses between two, nor a stranger's process.

mod found;
mod home;
mod overflow;
mod processes;
mod resolve;
mod services;

pub use found::{Found, What, quoted};
pub use home::{Home, home};
pub use overflow::overflow_user;
pub use processes::{Process, Processes};
pub use resolve::{Asker, Miss, resolve};
pub use services::{Kind, Service, services};

#[cfg(test)]
mod tests;
