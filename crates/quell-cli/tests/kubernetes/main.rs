//! Pods of a real containerd and runc in the lab, made by the calls of a kubelet (`cri`, in Go): what Quell sees, keeps and puts back.
//! Minutes, and a compilation of containerd before the first: `make test-kubernetes` runs them.

mod alternatives;
mod chart;
mod cost;
mod kubelet;
mod limit;
mod node;
mod partition;
mod plugin;
mod resize;
mod strict;
mod table2;
