//! Where a guest's functions are: its `/proc/kallsyms`, BPF programs included.

/// What an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The kernel and its modules.
    Kernel,
    /// BPF programs, and the code by which the kernel enters them.
    Bpf,
    /// All programs.
    Programs,
}

/// The functions by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// In ascending order; of several names of one address the first.
    functions: Vec<(u64, Side, String)>,
}

/// Length of the tag in the name of a BPF program.
const TAG_DIGITS: usize = 16;

impl Symbols {
    /// Reads the text of `/proc/kallsyms`; what is no code is passed over.
    #[must_use]
    pub fn parse(kallsyms: &str) -> Self {
        let mut functions: Vec<_> = kallsyms.lines().filter_map(function).collect();
        functions.sort_by_key(|(address, ..)| *address);
        functions.dedup_by_key(|(address, ..)| *address);
        Self { functions }
    }

    /// The function at this address: where it begins, what it belongs to, its name. None before the first one.
    #[must_use]
    pub fn of(&self, address: u64) -> Option<(u64, Side, &str)> {
        let after = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let (begin, side, name) = self.functions.get(after.checked_sub(1)?)?;
        Some((*begin, *side, name))
    }
}

fn function(line: &str) -> Option<(u64, Side, String)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    let is_bpf = words.next() == Some("[bpf]");
    let (side, name) = if is_bpf { (Side::Bpf, of_bpf(name)) } else { (Side::Kernel, name) };
    is_code.then(|| (address, side, name.to_owned()))
}

/// `bpf_prog_<tag>_<name>` is the program; a trampoline has a number of its own in each boot.
fn of_bpf(symbol: &str) -> &str {
    if symbol.starts_with("bpf_trampoline_") {
        return "bpf_trampoline";
    }
    let after_tag = symbol.strip_prefix("bpf_prog_").and_then(|rest| rest.split_at_checked(TAG_DIGITS));
    after_tag.and_then(|(_, name)| name.strip_prefix('_')).unwrap_or(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t schedule
ffffffff81000080 W weak
ffffffff82000000 D data
ffffffffc0001000 t in_module\t[overlay]
ffffffffc0002000 t bpf_prog_0123456789abcdef_grant_running\t[bpf]
ffffffffc0003000 t bpf_trampoline_6442486787\t[bpf]
ffffffffc0004000 t bpf__sched_ext_ops_running\t[bpf]
";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = Symbols::parse(KALLSYMS);
        let of = |address| symbols.of(address);
        assert_eq!(of(0xffff_ffff_80ff_ffff), None);
        assert_eq!(of(0xffff_ffff_8100_0004), Some((0xffff_ffff_8100_0000, Side::Kernel, "_stext")));
        assert_eq!(of(0xffff_ffff_8100_00ff), Some((0xffff_ffff_8100_0080, Side::Kernel, "weak")));
        assert_eq!(of(0xffff_ffff_8200_0000).unwrap().2, "schedule", "data is no function");
        assert_eq!(of(0xffff_ffff_c000_1001).unwrap().2, "in_module");
        assert_eq!(of(0xffff_ffff_c000_2010), Some((0xffff_ffff_c000_2000, Side::Bpf, "grant_running")));
    }

    #[test]
    fn names_of_bpf_have_neither_tags_nor_numbers() {
        let symbols = Symbols::parse(KALLSYMS);
        assert_eq!(symbols.of(0xffff_ffff_c000_3000).unwrap().2, "bpf_trampoline");
        assert_eq!(symbols.of(0xffff_ffff_c000_4000).unwrap().2, "bpf__sched_ext_ops_running");
        assert_eq!(of_bpf("bpf_prog_short"), "bpf_prog_short");
    }
}
