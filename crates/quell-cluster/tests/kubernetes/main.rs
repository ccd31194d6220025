//! The driver in a real API server on this machine: with nodes, pods and reports that the test writes, and with kwok's nodes, real
//! scheduler and controllers.

mod act;
mod leads;
mod roles;
mod shop;
