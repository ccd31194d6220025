//! Looks whether a kernel's type information (BTF) lets sched_ext schedulers load.
//!
//! Some kernels were built with tools that left the implicit `struct bpf_prog_aux *` argument in the prototypes of
//! public kernel functions; libbpf then refuses every scheduler ("func_proto incompatible with vmlinux"). Functions
//! whose names end in `_impl` keep that argument rightly.

use btf_rs::{Btf, BtfType, FuncProto, Type};
use goblin::elf::Elf;

/// Functions that every scheduler calls.
const REQUIRED: [&str; 4] =
    ["scx_bpf_create_dsq", "scx_bpf_dsq_insert", "scx_bpf_dsq_move_to_local", "scx_bpf_kick_cpu"];
const IMPLICIT_ARGUMENT: &str = "bpf_prog_aux";

/// `Err` says why schedulers would not load on the kernel whose ELF file is `vmlinux`.
pub fn check(vmlinux: &[u8]) -> Result<(), String> {
    let btf = Btf::from_bytes(section(vmlinux)?).map_err(|error| format!("its BTF cannot be read: {error}"))?;
    for name in REQUIRED {
        if btf.resolve_types_by_name(name).is_err() {
            return Err(format!("it has no {name}: sched_ext is off in it, or it is too old"));
        }
    }
    let all_types = (1..).map_while(|id| btf.resolve_type_by_id(id).ok());
    let malformed: Vec<String> = all_types.filter_map(|kind| malformed_kfunc(&btf, &kind)).collect();
    match malformed.first() {
        None => Ok(()),
        Some(name) => Err(format!(
            "{} of its sched_ext functions have malformed prototypes in its BTF ({name}, for one), so that no scheduler \
             loads on it",
            malformed.len()
        )),
    }
}

fn section(vmlinux: &[u8]) -> Result<&[u8], String> {
    let elf = Elf::parse(vmlinux).map_err(|error| format!("it is not an ELF file: {error}"))?;
    let header = elf.section_headers.iter().find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(".BTF"));
    let range = header.and_then(|header| header.file_range()).ok_or("it has no BTF")?;
    vmlinux.get(range).ok_or_else(|| "its BTF lies outside the file".into())
}

/// The function's name, if it is a public sched_ext function that still has the implicit argument.
fn malformed_kfunc(btf: &Btf, kind: &Type) -> Option<String> {
    let Type::Func(function) = kind else { return None };
    let name = btf.resolve_name(function).ok()?;
    if !name.starts_with("scx_bpf_") || name.ends_with("_impl") {
        return None;
    }
    let Type::FuncProto(prototype) = btf.resolve_chained_type(function).ok()? else { return None };
    has_implicit_argument(btf, &prototype).then_some(name)
}

fn has_implicit_argument(btf: &Btf, prototype: &FuncProto) -> bool {
    prototype.parameters.iter().filter(|parameter| !parameter.is_variadic()).any(|parameter| {
        btf.chained_type_iter(parameter).any(|kind| {
            matches!(&kind, Type::Struct(_))
                && kind.as_btf_type().is_some_and(|kind: &dyn BtfType| {
                    btf.resolve_name(kind).is_ok_and(|name| name == IMPLICIT_ARGUMENT)
                })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_btf_is_refused() {
        assert!(check(b"hello").unwrap_err().contains("ELF"));
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(check(&own).unwrap_err().contains("no BTF"));
    }
}
