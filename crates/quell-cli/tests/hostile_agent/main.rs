//! Nothing that a stranger holds, says or is named may stop, cost or fool the agent: on stock Linux, in seconds. Each test
//! prints the figure that it holds; the comment above it has the figure from before the fix.

mod scene;

mod bounded_reads;
mod edge;
mod failed_reads;
mod locks;
mod strangers;
mod two_agents;
