//! What one request costs the generator, apart from the system calls.

fn main() {}
