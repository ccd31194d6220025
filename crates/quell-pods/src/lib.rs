//! The pods of a Kubernetes node: which class each belongs to, which CPUs strict ones have for themselves
//! (rkube-socc21 §5.2), and what the files of their cgroups should say.
//!
//! Pure: a [`Node`] is driven by events of the container runtime and says what it wants. It opens no file and reads no
//! clock. Same events, same answers.

mod class;
mod node;
mod path;
mod pod;
mod qos;
mod refused;
mod request;
mod rules;
mod strict;
mod view;

pub use class::Class;
pub use node::{EXCLUSIVE, Node, PARTITION};
pub use path::{BadPath, PodPath};
pub use pod::{Container, Sandbox};
pub use qos::Qos;
pub use refused::Refused;
pub use rules::{Mode, Namespaces, Rules};
pub use view::{ContainerView, PodView};
