//! Gets a kernel, QEMU and busybox from Debian's archive into the cache, without touching the system's packages.

pub mod apt;
mod btf;
mod bzimage;
mod kernel;
mod qemu;

pub use kernel::{Kernel, PREFERRED_KERNELS};
pub use qemu::{Busybox, Qemu, Virtiofsd};
