//! Who ran where, who waited, and who woke whom: the kernel's scheduling events of watched threads.
//!
//! [`Event`] is plain data, so that what reads it can be tested without a kernel.

mod event;

pub use event::{Change, Doing, Event, Left, Member, Slot, Task};
