//! An agent on a toy machine, paced to real time: something for `quell status`, `quell top` and `quell why` to look at
//! without touching this machine. `cargo run -p quell-agent --example toy_agent -- SOCKET POLICY [SECONDS [RECORD]]`

use std::time::{Duration, Instant};

use quell_agent::api::{About, ApiConfig};
use quell_agent::observers::{ObserverConfig, Observers};
use quell_agent::stack::{self, Layer, Witness};
use quell_model::{Class, CpuCount, CpuSet, Host, HostDomain, Nanos, Policy, Sample, Slo, Topology, Wake, Workload};
use quell_policy::AnyPolicy;
use quell_toy::{Arrivals, Machine, ToyHost, ToyWorkload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("which socket?")?;
    let policy = arguments.next().ok_or("which policy?")?;
    let seconds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let record = arguments.next().map(Into::into);

    let mut host = ToyHost::new(Topology::synthetic(1, 1, 8, 2), Machine::default());
    let lc = |name: &str, cpus, bound| {
        let slo = Some(Slo { quantile: 0.99, bound: Nanos::from_micros(bound) });
        Workload { slo, ..Workload::new(name, Class::LatencyCritical, CpuCount::whole(cpus)) }
    };
    let any = AnyPolicy::named(&policy).ok_or_else(AnyPolicy::names)?;
    // Requests run on granted CPUs, threads on shared ones.
    let grants = Policy::<HostDomain>::describe(&any).grants;
    let requests = |mean, seed| match grants {
        true => Arrivals::Poisson { mean: Nanos::from_micros(mean), seed },
        false => Arrivals::None,
    };
    let service = Nanos::from_micros(400);
    host.attach(
        ToyWorkload::new(lc("memcached", 4, 1000)).threads(&[0.7, 0.6, 0.4]).requests(requests(300, 1), service),
    );
    host.attach(
        ToyWorkload::new(lc("checkout", 2, 2000)).threads(&[0.9, 0.8, 0.9]).requests(requests(900, 2), service),
    );
    host.attach(
        ToyWorkload::be("batch / video").threads(&[1.0; 12]).requests(requests(200, 3), service).bandwidth(4e9),
    );
    host.attach(ToyWorkload::be("backup").threads(&[0.3, 0.3]));

    let layers = vec![Layer::new(any, None)];
    let about = About { mode: "run".into(), host: "toy".into(), limits: Vec::new(), warnings: Vec::new() };
    let mut stack = stack::over(layers, host.view(), CpuSet::first(16))?;
    let api = Some(ApiConfig { socket: socket.into(), ..ApiConfig::default() });
    let (mut observers, feed) = Observers::start(&ObserverConfig { api, record }, about, &mut stack)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let latencies: Vec<Sample<Nanos>> = feed.iter().flat_map(|feed| feed.drain()).map(|post| post.sample).collect();
        if let Some(latency) = latencies.last() {
            println!("a client posted {}", latency.value);
        }
        let wake = stack.turn(&mut host)?;
        observers.turned(stack.view(), stack.layers());
        host.wait(wake.sooner(Wake::At(host.now() + Nanos::from_millis(100))))?;
        std::thread::sleep(Duration::from(host.now()).saturating_sub(start.elapsed()));
    }
    Ok(())
}
