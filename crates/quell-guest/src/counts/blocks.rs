//! What the plugin writes: how often each block was executed.

use crate::error::{LabError, Result};

/// The counts between two marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The guest's CPUs.
    pub cpus: usize,
    /// The blocks that were executed.
    pub blocks: Vec<Block>,
}

/// Instructions that are executed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the first one; 0: all programs as one.
    pub address: u64,
    /// Number of instructions.
    pub instructions: u64,
    /// How often each CPU executed the block.
    pub executions: Vec<u64>,
}

impl Counts {
    /// Reads what the plugin wrote.
    ///
    /// # Errors
    /// [`LabError::NotCounted`] if the guest did not set both marks, once each, or the text is not whole.
    pub fn parse(text: &str) -> Result<Self> {
        let failed = |why: String| LabError::NotCounted { why };
        let Some((head, rest)) = text.split_once('\n') else {
            return Err(failed("the command did not set the two marks".into()));
        };
        let cpus = head.strip_prefix("cpus ").and_then(|number| number.parse().ok());
        let cpus = cpus.ok_or_else(|| failed(format!("unexpected first line '{head}'")))?;
        if rest.lines().any(|line| line.starts_with("cpus ")) {
            return Err(failed("the command set the second mark more than once".into()));
        }
        let blocks = rest.lines().map(|line| {
            block(line)
                .filter(|block| block.executions.len() == cpus)
                .ok_or_else(|| failed(format!("unexpected line '{line}'")))
        });
        Ok(Self { cpus, blocks: blocks.collect::<Result<_>>()? })
    }
}

fn block(line: &str) -> Option<Block> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let instructions = words.next()?.parse().ok()?;
    let executions = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(Block { address, instructions, executions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_block() {
        let counts = Counts::parse("cpus 2\n0 1 100 20\nffffffff81000010 5 3 0\n").unwrap();
        let block = |address, instructions, executions: [u64; 2]| Block {
            address,
            instructions,
            executions: executions.to_vec(),
        };
        let blocks = vec![block(0, 1, [100, 20]), block(0xffff_ffff_8100_0010, 5, [3, 0])];
        assert_eq!(counts, Counts { cpus: 2, blocks });
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for (text, why) in [
            ("", "did not set the two marks"),
            ("cpus 2\n0 1 1 1\ncpus 2\n0 1 1 1\n", "more than once"),
            ("cpus 2\n0 1 1\n", "unexpected line"),
            ("cpus 1\nx 1 1\n", "unexpected line"),
            ("blocks\n", "unexpected first line"),
        ] {
            let error = Counts::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
