//! Kernels of 6.12, 6.13 and of times to come, by type information of the tests' own making.

use super::*;

/// Raw type information, in the format of the kernel's.
struct Types {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

const STRUCT: u32 = 4;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const ENUM64: u32 = 19;

impl Types {
    /// A kernel with these functions, operations and numbers.
    fn of(functions: &[&str], operations: &[&str], numbers: &[(&str, &str, u64)]) -> Types {
        let mut types = Types { types: Vec::new(), strings: vec![0], count: 0 };
        let proto = types.begin("", FUNC_PROTO, 0, 0);
        for function in functions {
            types.begin(function, FUNC, 0, proto);
        }
        types.begin("sched_ext_ops", STRUCT, operations.len(), 8 * operations.len() as u32);
        for (at, operation) in operations.iter().enumerate() {
            let name = types.string(operation);
            types.words(&[name, 0, 64 * at as u32]);
        }
        let mut enums: Vec<&str> = numbers.iter().map(|number| number.0).collect();
        enums.sort_unstable();
        enums.dedup();
        for of in enums {
            let members: Vec<_> = numbers.iter().filter(|number| number.0 == of).collect();
            types.begin(of, ENUM64, members.len(), 8);
            for (_, name, number) in members {
                let name = types.string(name);
                types.words(&[name, *number as u32, (*number >> 32) as u32]);
            }
        }
        types
    }

    /// Adds a type; returns its number.
    fn begin(&mut self, name: &str, kind: u32, members: usize, size_or_type: u32) -> u32 {
        let name = self.string(name);
        self.words(&[name, kind << 24 | members as u32, size_or_type]);
        self.count += 1;
        self.count
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.types.extend(word.to_ne_bytes()));
    }

    fn read(&self, name: &str) -> Btf<'static> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut raw = Vec::new();
        raw.extend(0xeb9f_u16.to_ne_bytes());
        raw.extend([1, 0]);
        [24, 0, types, types, strings].iter().for_each(|word: &u32| raw.extend(word.to_ne_bytes()));
        raw.extend(&self.types);
        raw.extend(&self.strings);
        let path = std::env::temp_dir().join(format!("quell-btf-{name}-{}", std::process::id()));
        std::fs::write(&path, raw).unwrap();
        let read = Btf::from_path(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        read
    }
}

const OPERATIONS: [&str; 2] = ["enqueue", "cpu_release"];
const OF_6_12: [&str; 8] = [
    "scx_bpf_dispatch",
    "scx_bpf_dispatch_vtime",
    "scx_bpf_consume",
    "scx_bpf_dispatch_from_dsq",
    "scx_bpf_dispatch_vtime_from_dsq",
    "scx_bpf_dispatch_from_dsq_set_vtime",
    "scx_bpf_dispatch_from_dsq_set_slice",
    "scx_bpf_reenqueue_local",
];
const OF_6_13: [&str; 8] = [
    "scx_bpf_dsq_insert",
    "scx_bpf_dsq_insert_vtime",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_move",
    "scx_bpf_dsq_move_vtime",
    "scx_bpf_dsq_move_set_vtime",
    "scx_bpf_dsq_move_set_slice",
    "scx_bpf_reenqueue_local",
];
/// The second versions alone, as a kernel has them that dropped the first ones.
const LATER: [&str; 8] = [
    "scx_bpf_dsq_insert___v2",
    "__scx_bpf_dsq_insert_vtime",
    "scx_bpf_dsq_move_to_local___v2",
    "scx_bpf_dsq_move",
    "scx_bpf_dsq_move_vtime",
    "scx_bpf_dsq_move_set_vtime",
    "scx_bpf_dsq_move_set_slice",
    "scx_bpf_reenqueue_local___v2",
];

#[test]
fn each_kernel_has_every_function_by_one_of_its_names() {
    for (name, functions) in [("6.12", OF_6_12), ("6.13", OF_6_13), ("later", LATER)] {
        let types = Types::of(&functions, &OPERATIONS, &NUMBERS).read(name);
        assert_eq!(unknown(&types), [], "{name}");
        assert!(releases(&types));
    }
}

#[test]
fn a_function_that_is_there_by_no_name_is_told() {
    let without = |functions: &[&'static str], one: &str| -> Vec<&'static str> {
        functions.iter().copied().filter(|name| *name != one).collect()
    };
    let types = Types::of(&without(&OF_6_12, "scx_bpf_consume"), &OPERATIONS, &NUMBERS).read("without");
    assert_eq!(unknown(&types), [Unknown::Function("scx_bpf_dsq_move_to_local")]);
}

#[test]
fn a_number_that_is_another_one_is_told() {
    let mut numbers = NUMBERS;
    numbers[3].2 = 1 << 33;
    let types = Types::of(&OF_6_13, &OPERATIONS, &numbers).read("numbers");
    assert_eq!(unknown(&types), [Unknown::Number("SCX_ENQ_PREEMPT", 1 << 33)]);
}

#[test]
fn without_cpu_release_its_successor_has_to_be_there() {
    let types = Types::of(&LATER, &["enqueue"], &NUMBERS).read("release");
    assert!(!releases(&types));
    assert_eq!(unknown(&types), []);
    let types = Types::of(&LATER[..7], &["enqueue"], &NUMBERS).read("no-release");
    assert_eq!(unknown(&types), [Unknown::Release]);
    assert!(unknown(&types)[0].to_string().contains("cpu_release"));
}
