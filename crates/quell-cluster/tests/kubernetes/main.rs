//! The driver in a real API server on this machine: with nodes, pods and reports that the test writes, and with kwok's nodes, the real
//! scheduler and the real controllers of replica sets and disruption budgets.

mod act;
mod crashes;
mod evicts;
mod fleet;
mod leads;
mod roles;
mod shop;
