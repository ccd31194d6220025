//! A machine's regular shape.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{MAX_CPUS, Topology};

/// A regular machine, as `2x16x2`: sockets, cores, threads of each core; and caches, where a socket has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Sockets.
    #[serde(default = "one")]
    pub sockets: u32,
    /// Last-level caches in each.
    #[serde(default = "one")]
    pub llcs: u32,
    /// Cores on each cache.
    pub cores: u32,
    /// CPUs of each core.
    #[serde(default = "one")]
    pub threads: u32,
}

fn one() -> u32 {
    1
}

impl Shape {
    /// This many CPUs, one a core.
    #[must_use]
    pub fn cores(cores: u32) -> Shape {
        Shape { sockets: 1, llcs: 1, cores, threads: 1 }
    }

    /// Its CPUs.
    ///
    /// # Errors
    /// A sentence if it has none, or more than [`MAX_CPUS`].
    pub fn topology(self) -> Result<Topology, String> {
        let Shape { sockets, llcs, cores, threads } = self;
        let cpus = [llcs, cores, threads].iter().try_fold(sockets, |product, &factor| product.checked_mul(factor));
        match cpus {
            Some(cpus) if (1..=MAX_CPUS).contains(&(cpus as usize)) => {
                Ok(Topology::synthetic(sockets, llcs, cores, threads))
            }
            _ => Err(format!("a machine has 1 to {MAX_CPUS} CPUs: change its shape")),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let numbers = text.split('x').map(str::parse).collect::<Result<Vec<u32>, _>>();
        match numbers.as_deref() {
            Ok(&[sockets, cores, threads]) => Ok(Shape { sockets, llcs: 1, cores, threads }),
            _ => Err("expected SOCKETSxCORESxTHREADS, such as 2x16x2".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_and_has_its_cpus() {
        let shape: Shape = "2x16x2".parse().unwrap();
        assert_eq!(shape.topology().unwrap().cpus().len(), 64);
        assert!("2x16".parse::<Shape>().is_err() && "axbxc".parse::<Shape>().is_err());
        for bad in [Shape::cores(0), Shape::cores(MAX_CPUS as u32 + 1), Shape { sockets: u32::MAX, ..Shape::cores(2) }]
        {
            assert!(bad.topology().unwrap_err().contains("1 to"), "{bad:?}");
        }
    }
}
