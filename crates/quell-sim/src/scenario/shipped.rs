//! The scenarios that come with Quell.

/// A scenario with its name and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its file's text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal,)+) => {
        /// All of them. The first is annotated, as an example.
        pub const SHIPPED: &[Shipped] =
            &[$(Shipped { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")) },)+];
    };
}

shipped! {
    "colocation",
    "consolidated-vms",
    "contended",
    "critical-path",
    "dasec",
    "edge",
    "hundred",
    "memcached-2cpus",
    "periodic",
    "rkube-figure3",
    "sdc",
    "stacked",
    "vas",
    "work-stealing",
}
