//! Workloads that end with a process: leased from an agent, or managed by a command without one.

mod alone;
mod exec;
mod leased;
mod scene;
