//! Compiles the BPF programs and writes their loaders' skeletons.

fn main() {
    quell_bpf_build::skeleton("trace", &[]);
    quell_bpf_build::skeleton("sampler", &[]);
}
