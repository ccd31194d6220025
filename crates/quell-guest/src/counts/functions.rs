//! The counts of each function.

use std::collections::BTreeMap;

use super::blocks::Counts;
use super::symbols::{Side, Symbols};

/// A function's counts, by CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// What it belongs to.
    pub side: Side,
    /// Its name; of programs none.
    pub name: String,
    /// Instructions that each CPU executed in it.
    pub instructions: Vec<u64>,
    /// How often each CPU executed its first block: calls, and jumps back to its beginning.
    pub calls: Vec<u64>,
}

/// Code of the kernel before the first symbol.
const UNKNOWN: &str = "(unknown)";

/// The counts of all functions, by side and name; functions of one name are counted together.
#[must_use]
pub fn by_function(counts: &Counts, symbols: &Symbols) -> Vec<Function> {
    let mut found: BTreeMap<(Side, &str), Function> = BTreeMap::new();
    for block in &counts.blocks {
        let (begin, side, name) = match block.address {
            0 => (0, Side::Programs, ""),
            address => symbols.of(address).unwrap_or((0, Side::Kernel, UNKNOWN)),
        };
        let function = found.entry((side, name)).or_insert_with(|| Function {
            side,
            name: name.to_owned(),
            instructions: vec![0; counts.cpus],
            calls: vec![0; counts.cpus],
        });
        let is_first = side != Side::Programs && block.address == begin;
        for (cpu, &executions) in block.executions.iter().enumerate() {
            function.instructions[cpu] += executions * block.instructions;
            function.calls[cpu] += if is_first { executions } else { 0 };
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_their_function_and_the_first_one_counts_its_calls() {
        let counts = Counts::parse(
            "cpus 2\n0 1 1000 10\nffffffff81000100 4 5 1\nffffffff81000104 3 5 0\nffffffff81000100 2 1 0\n\
             ffffffff80000000 7 1 1\nffffffffc0002000 10 0 2\nffffffffc0003000 1 0 2\n",
        );
        let symbols = Symbols::parse(
            "ffffffff81000100 t schedule\n\
             ffffffffc0002000 t bpf_prog_0123456789abcdef_running [bpf]\n\
             ffffffffc0003000 t bpf_prog_fedcba9876543210_running [bpf]\n",
        );
        let function = |side, name: &str, instructions: [u64; 2], calls: [u64; 2]| Function {
            side,
            name: name.to_owned(),
            instructions: instructions.to_vec(),
            calls: calls.to_vec(),
        };
        let expected = [
            function(Side::Kernel, "(unknown)", [7, 7], [0, 0]),
            function(Side::Kernel, "schedule", [37, 4], [6, 1]),
            function(Side::Bpf, "running", [0, 22], [0, 4]),
            function(Side::Programs, "", [1000, 10], [0, 0]),
        ];
        assert_eq!(by_function(&counts.unwrap(), &symbols), expected);
    }
}
