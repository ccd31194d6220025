//! The rules of `quell-scx`'s `bpf/rules.h`, compiled for this machine, for tests only: they are held against the
//! reference functions in `quell-model`'s `rule`, on random machines and through random sequences of events.

#[cfg(test)]
mod tests;
