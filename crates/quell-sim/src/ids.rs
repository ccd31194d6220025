//! Numbers of threads and groups.

/// A thread's number in the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// A control group's number; 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The root of the tree.
    pub const ROOT: GroupId = GroupId(0);
}
