//! The driver in a real API server on this machine, with nodes, pods and reports that the test writes: no kubelet, no scheduler.

mod act;
mod leads;
mod plane;
mod roles;
