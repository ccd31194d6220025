//! The functions of the kernel that runs here.

use std::fs;

use anyhow::{Context, Result};

/// What makes the kernel name its functions with their addresses, BPF programs included.
const SHOWN: [(&str, &str); 2] =
    [("/proc/sys/kernel/kptr_restrict", "0"), ("/proc/sys/net/core/bpf_jit_kallsyms", "1")];
const SYMBOLS: &str = "/proc/kallsyms";

/// Has the kernel name its functions.
pub fn show() -> Result<()> {
    SHOWN
        .iter()
        .try_for_each(|(path, value)| fs::write(path, value).with_context(|| format!("write {value} to {path}")))
}

/// The functions that the kernel has now.
pub fn functions() -> Result<String> {
    let text = fs::read_to_string(SYMBOLS).with_context(|| format!("read {SYMBOLS}"))?;
    Ok(code(&text))
}

/// The lines of code alone: a third of them is data.
fn code(kallsyms: &str) -> String {
    let is_code = |line: &&str| line.split(' ').nth(1).is_some_and(|kind| "tTwW".contains(kind));
    kallsyms.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_handed_on() {
        let lines = "0 A percpu\nff t one\nff D data\nff T two\t[bpf]\n";
        assert_eq!(code(lines), "ff t one\nff T two\t[bpf]\n");
    }
}
