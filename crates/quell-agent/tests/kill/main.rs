//! The kill test: workloads come and go, threads are born, and the worker, the guardian or both are killed at a random
//! instant. Whatever was killed, every thread has its own CPUs and class again.
//!
//! `cargo test` runs 30 rounds; `QUELL_KILL_ROUNDS=1000 cargo test -p quell-agent --test kill` runs more, and prints how
//! long putting back took. A quarter of the rounds is played once more as in a container: in a pid namespace, whose
//! processes' session began outside and therefore has no number there. Half as many are played with control groups and
//! frequencies made of files, whose ways, throttles, limits, pauses, leases and slices of leases are turned at random: none is
//! left, and in 200 rounds and more every paused process runs again within 1.3 s. What the system refuses the guardian while it
//! puts back leaves nothing, either (`refused.rs`). The process starts itself in other roles:
//! victims, an agent, and `quell restore`.

mod agent;
mod driver;
mod hardware;
mod late;
mod refused;
mod threads;
mod victim;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let role: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match role[..] {
        ["victim", kind, token] => victim::run(kind, token, true),
        ["victim", kind, token, "plain"] => victim::run(kind, token, false),
        ["agent", directory, config] => std::process::exit(agent::run(directory, config).into()),
        ["refused", what, directory] => std::process::exit(refused::supervise(what, directory).into()),
        ["restore", directory] => std::process::exit(agent::restore(directory).into()),
        // What `cargo test` passes on.
        [.., "--list"] => {}
        ["on-files", rounds] => driver::run(rounds.parse().expect("a number of rounds"), true),
        ["container", rounds] => driver::run(rounds.parse().expect("a number of rounds"), false),
        _ => {
            let rounds = std::env::var("QUELL_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
            refused::run();
            driver::run(rounds, false);
            driver::run(rounds.div_ceil(2), true);
            driver::run_in_container(rounds.div_ceil(4));
        }
    }
}
