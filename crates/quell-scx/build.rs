//! Compiles the scheduler and writes its loader's skeleton.

fn main() {
    quell_bpf_build::skeleton("grant", &["-mcpu=v3", "-Isrc/bpf"]);
}
