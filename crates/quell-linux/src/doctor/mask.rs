//! The kernel's hexadecimal CPU masks (`00000000,00000003`: groups of 32, the highest first).

use quell_model::{CpuId, CpuSet};

/// The CPUs of a mask; None if the text is none.
pub(super) fn parse(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::EMPTY;
    for (group, word) in text.trim().rsplit(',').enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        (0..32).filter(|bit| word >> bit & 1 == 1).for_each(|bit| cpus.insert(CpuId(group as u32 * 32 + bit)));
    }
    Some(cpus)
}

/// A set as a mask, without leading zero groups.
pub(super) fn text(cpus: &CpuSet) -> String {
    let highest = cpus.iter().last().map_or(0, |cpu| cpu.0 / 32);
    let word =
        |group: u32| (0..32).filter(|bit| cpus.contains(CpuId(group * 32 + bit))).fold(0u32, |w, bit| w | 1 << bit);
    let groups = (0..=highest).rev().enumerate().map(|(place, group)| match place {
        0 => format!("{:x}", word(group)),
        _ => format!("{:08x}", word(group)),
    });
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_groups_of_32_the_highest_first() {
        assert_eq!(parse("3").unwrap().to_string(), "0-1");
        assert_eq!(parse("00000001,80000000").unwrap().to_string(), "31-32");
        assert_eq!(parse("x"), None);
        for list in ["", "0", "31-33", "0,64", "5-40"] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(parse(&text(&cpus)), Some(cpus), "{list}");
        }
        assert_eq!(text(&"32".parse().unwrap()), "1,00000000");
    }
}
