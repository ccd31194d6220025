//! Compiles the BPF program and writes its loader's skeleton.

fn main() {
    quell_bpf_build::skeleton("trace", &[]);
}
