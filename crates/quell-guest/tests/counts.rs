//! The counting plugin on a QEMU of the test's own making, and in a guest.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use quell_guest::counts::{Counts, Function, Symbols, by_function};
use quell_guest::{Job, Lab, Lockstep, Machine, Output, Silent};

/// Compiles a program of the folder `tests` or of this text.
fn compiled(source: &Path, program: &Path) {
    assert!(Command::new("cc").arg("-o").arg(program).arg(source).status().unwrap().success());
}

#[test]
fn blocks_are_counted_by_cpu_between_the_marks() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("counts_on_host");
    compiled(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counts_on_host.c"), &program);
    let output = Command::new(program).output().unwrap();
    // All programs as one, the mark's own block included; a block of another length is another block.
    let text = "cpus 2\n\
                0 1 64 4\n\
                ffffffff81000000 5 3 2\n\
                ffffffff81000000 2 0 7\n\
                ffffffff81000040 1 1 0\n\
                ffffffff80fffff0 1 0 1\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    assert_eq!(Counts::parse(text).unwrap().blocks.len(), 5);
}

/// Asks the kernel a thousand times for a number, between the marks and once more afterwards.
const ASKS: &str = r#"
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n .long 0x51554c31");
    for (int i = 0; i < 1000; i++) syscall(SYS_getppid);
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n .long 0x51554c32");
    return syscall(SYS_getppid) == 0;
}
"#;

#[test]
fn a_guest_counts_the_calls_of_a_function_and_the_same_ones_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (source, asks) = (folder.path().join("asks.c"), folder.path().join("asks"));
    std::fs::write(&source, ASKS).unwrap();
    compiled(&source, &asks);
    let lockstep = Lockstep { serial: true, mips: 125, quantum_ns: 20_000 };
    let machine = Machine { counts: true, ..Machine::measuring(2, lockstep, vec![asks.clone()]) };
    let script: OsString = "\"$0\" && grep -w -e __x64_sys_getppid -e __x64_sys_getuid /proc/kallsyms".into();
    let job = Job::new([OsString::from("sh"), "-c".into(), script, asks.into()]);
    let [first, second]: [Output; 2] = [(), ()].map(|()| Lab::new(&Silent).unwrap().output(&machine, &job).unwrap());
    assert_eq!(first.ending.status, 0, "{}", String::from_utf8_lossy(&first.stderr));
    assert!(first.counts == second.counts, "to the digit");
    let symbols = Symbols::parse(&String::from_utf8(first.stdout).unwrap());
    let functions = by_function(&Counts::parse(&first.counts).unwrap(), &symbols);
    let asked = functions.iter().find(|function| function.name == "__x64_sys_getppid").unwrap();
    let total = |of: fn(&Function) -> &Vec<u64>| of(asked).iter().sum::<u64>();
    assert_eq!(total(|function| &function.calls), 1000);
    assert!(total(|function| &function.instructions) >= 10_000);
}
