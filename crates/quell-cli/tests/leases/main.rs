//! Workloads that last as long as somebody wants them: leased from an agent, or managed by a command without one.

mod alone;
mod leased;
mod scene;
