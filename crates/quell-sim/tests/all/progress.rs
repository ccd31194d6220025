//! Services that hold CPUs as one by progress (`dasec`): what that gains, and what guards the others.

use std::path::Path;

use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::host::Lending;
use quell_sim::scenario::{Detail, Observed, Run, Scenario, Treatment};

/// Masstree's case: `threads` a service on these CPUs, one of them its main thread.
fn services(cpus: u32, threads: u32, think: &str) -> String {
    let left_and_right = ["left", "right"].map(|name| {
        format!(
            "[[request.stage]]\nname = \"{name}\"\non = \"shop.worker\"\nafter = [\"take\"]\nsteps = [\
             {{ work = {{ lognormal = {{ mean = \"536us\", sigma = 0.5 }} }} }},\
             {{ work = {{ lognormal = {{ mean = \"94us\", sigma = 0.5 }} }}, lock = \"table\" }}]\n"
        )
    });
    let main = "steps = [{ work = { lognormal = { mean = \"270us\", sigma = 0.5 } } }]\n";
    format!(
        "duration = \"8s\"\nwarm_up = \"1s\"\nmachine = {{ cores = {cpus} }}\n\
         kernel = {{ fair = \"eevdf\", preemption = \"full\" }}\n\
         [[workload]]\nname = \"shop\"\ncopies = 2\nclass = \"lc\"\nthreads = {threads}\n\
         pool = {{ main = 1, worker = {} }}\n[[lock]]\nname = \"table\"\ncopies = 2\n\
         [[request]]\nname = \"query\"\ncopies = 2\n\
         clients = {{ number = {threads}, think = {{ exponential = \"{think}\" }} }}\n\
         [[request.stage]]\nname = \"take\"\non = \"shop.main\"\n{main}{}\
         [[request.stage]]\nname = \"answer\"\non = \"shop.main\"\nafter = [\"left\", \"right\"]\n{main}",
        threads - 1,
        left_and_right.concat()
    )
}

fn run(text: &str, policy: &str, lending: Lending) -> Observed {
    let scenario = Scenario::parse(Path::new("services"), text, &[]).unwrap();
    let policies = vec![(AnyPolicy::named(policy).unwrap(), None)];
    Run::new(&scenario, Treatment { policies, lending }, 0).unwrap().finish(Detail::Totals, |_| ())
}

/// p99 of the two services by progress, over that under EEVDF.
fn ratio(text: &str) -> f64 {
    let p99 = |seen: &Observed| seen.workloads.iter().map(|one| one.latencies.quantile(0.99).0 as f64).sum::<f64>();
    p99(&run(text, "dasec", Lending::Scheduler)) / p99(&run(text, "none", Lending::Nothing))
}

#[test]
fn contended_services_have_a_shorter_tail_than_under_eevdf() {
    for (cpus, threads, think) in [(2, 2, "2700us"), (2, 3, "4950us"), (4, 4, "2700us"), (4, 6, "4950us")] {
        let ratio = ratio(&services(cpus, threads, think));
        assert!(ratio < 0.95, "{threads} threads a service on {cpus} CPUs: {ratio:.3} of EEVDF's p99");
    }
}

#[test]
fn with_a_thread_a_cpu_the_tail_is_eevdfs() {
    let ratio = ratio(&services(4, 2, "2700us"));
    assert!((ratio - 1.0).abs() < 0.02, "{ratio:.3}");
}

#[test]
fn a_service_within_its_share_waits_a_slice_and_a_tick_at_most_for_one_that_always_runs() {
    let text = "duration = \"8s\"\nwarm_up = \"1s\"\nmachine = { cores = 2 }\n\
        [[workload]]\nname = \"web\"\nclass = \"lc\"\nthreads = 4\n\
        server = { arrivals = { poisson = 400.0 }, service = { exponential = \"500us\" } }\n\
        [[workload]]\nname = \"hog\"\nclass = \"lc\"\nthreads = 12\nbatch = {}\n";
    let seen = run(text, "dasec", Lending::Scheduler);
    let p99 = seen.workloads[0].latencies.quantile(0.99);
    assert!(
        p99 < Nanos::from_millis(12),
        "a slice of 4 ms ends at a tick, 4 ms apart, and requests wait for each other: {p99}"
    );
    let hog = seen.workloads[1].run_time as f64 / seen.measured.0 as f64;
    assert!(hog > 1.6, "the rest is the other's: {hog:.2} CPUs");
}
