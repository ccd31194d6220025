//! An agent on a simulated machine, paced to real time: something for `quell status`, `quell top` and `quell why` to look at
//! without touching this machine. `cargo run -p quell-agent --example simulated_agent -- SOCKET POLICY [SECONDS [RECORD]]`

use std::time::{Duration, Instant};

use quell_agent::api::{About, ApiConfig};
use quell_agent::observers::{ObserverConfig, Observers};
use quell_agent::stack::{self, Layer, Witness};
use quell_model::{CpuCount, CpuSet, Host, HostDomain, Nanos, Policy, Sample, Slo, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_sim::contention::ProfileName;
use quell_sim::workload::Arrivals;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("which socket?")?;
    let policy = arguments.next().ok_or("which policy?")?;
    let seconds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let record = arguments.next().map(Into::into);

    let lc = |name: &str, cpus, bound| {
        let slo = Some(Slo { quantile: 0.99, bound: Nanos::from_micros(bound) });
        WorkloadSpec { slo, ..WorkloadSpec::lc(name, CpuCount::whole(cpus)) }
    };
    let any = AnyPolicy::named(&policy).ok_or_else(AnyPolicy::names)?;
    let service = Nanos::from_micros(400);
    let streaming = Some(ProfileName::Known("streaming".into()));
    let workloads = [
        lc("memcached", 4, 1000).serving(3, Arrivals::Poisson(3_300.0), service),
        lc("checkout", 2, 2000).serving(3, Arrivals::Poisson(1_100.0), service),
        WorkloadSpec { profile: streaming, ..WorkloadSpec::be("batch / video").busy(12) },
        WorkloadSpec::be("backup").using(2, 0.3),
    ];
    let grants = Policy::<HostDomain>::describe(&any).grants;
    let mut host = SimHost::new(Topology::synthetic(1, 1, 8, 2), KernelConfig::default(), &workloads, 1, grants)?;

    let layers = vec![Layer::new(any, None)];
    let about = About { mode: "run".into(), host: "sim".into(), ..About::default() };
    let mut stack = stack::over(layers, host.view(), CpuSet::first(16))?;
    let api = Some(ApiConfig { socket: socket.into(), ..ApiConfig::default() });
    let (mut observers, feed) =
        Observers::start(&ObserverConfig { api, record, ..ObserverConfig::default() }, about, &mut stack)?;
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
