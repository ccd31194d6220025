//! The workloads of EdgeIso's evaluation. What the text does not say of them is an assumption of
//! `papers/edgeiso/assumptions.toml`; none was chosen by what workloads do to each other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quell_model::{BytesPerSecond, CpuCount, CpuId, CpuSet, Nanos, Slo};

use super::CORES;
use crate::WorkloadSpec;
use crate::contention::profile::{LINE, MissCurve};
use crate::contention::{Profile, ProfileName, library};
use crate::experiment::assumed::assumed;
use crate::workload::graph::{Clients, RequestSpec, StageSpec, Step};
use crate::workload::{Arrivals, CpuList, Dispatch, ServerSpec, Service};

/// Images come from a camera at this distance (assumed).
pub const FRAME: Nanos = Nanos::from_millis(250);

/// The images (§4.4.2), by the number of objects in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// One object.
    Small,
    /// Nine or ten.
    Medium,
    /// 25 to 42.
    Large,
    /// "Made by combining three datasets": one after the other.
    Dynamic,
}

/// The data processing benchmarks (§4.4.1).
pub const DATA: [&str; 4] = ["CPU-DSLR", "CPU-GPULR", "GPU-KMB", "GPU-KM"];

/// The services of Tailbench and their requests a second (§4.4.2).
pub const TAILBENCH: [(&str, f64); 3] = [("img-dnn", 300.0), ("sphinx", 1.0), ("xapian", 1000.0)];

/// The cores of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// All, or what a policy gives.
    Any,
    /// These alone, from and to.
    Own(u32, u32),
    /// The time of this many of them, on any.
    Time(u32),
}

impl Cores {
    fn set(self, spec: &mut WorkloadSpec) {
        match self {
            Cores::Any => {}
            Cores::Own(from, to) => spec.cpuset = Some(CpuList((from..to).map(CpuId).collect::<CpuSet>())),
            Cores::Time(cpus) => spec.quota = Some(CpuCount::whole(cpus)),
        }
    }
}

fn millis(name: &str) -> Nanos {
    Nanos((assumed(name) * 1e6).round() as u64)
}

fn known(name: &str) -> Option<ProfileName> {
    Some(ProfileName::Known(name.to_owned()))
}

/// What the CPU side of a deep learning framework asks of caches and memory (assumed: images and tensors of a few MB,
/// copied and converted).
fn framework() -> Option<ProfileName> {
    let misses = MissCurve(Cow::Borrowed(&[(0.0, 0.9), (0.5, 0.5), (2.0, 0.25), (16.0, 0.1)]));
    let profile = Profile {
        cpi: 0.8,
        llc_references: 10.0,
        misses,
        shared: true,
        parallelism: 3.0,
        bytes_per_miss: 1.5 * LINE,
        pressure: 0.8,
        sensitivity: 0.8,
    };
    Some(ProfileName::Own(profile))
}

/// What training on CPUs asks of them (assumed: blocked products of matrices larger than the cache, weights written back).
fn training() -> Option<ProfileName> {
    let misses = MissCurve(Cow::Borrowed(&[(0.0, 1.0), (1.0, 0.7), (8.0, 0.5), (64.0, 0.3)]));
    let profile = Profile {
        cpi: 0.6,
        llc_references: 20.0,
        misses,
        shared: true,
        parallelism: 6.0,
        bytes_per_miss: 1.5 * LINE,
        pressure: 0.8,
        sensitivity: 0.8,
    };
    Some(ProfileName::Own(profile))
}

fn stage(name: String, on: &str, after: Vec<String>, steps: Vec<Step>) -> StageSpec {
    StageSpec { name, on: on.to_owned(), after, profile: None, steps }
}

fn work(time: Nanos) -> Step {
    Step::Work(Service::Constant(time.max(Nanos(1))))
}

/// Times at which frames of a dataset's kind come within a run: those of the dynamic dataset one kind after the other, of
/// the warm-up the first.
fn frames(kind: usize, dataset: Dataset, warm_up: Nanos, measured: Nanos) -> Vec<Nanos> {
    let of = |at: Nanos| match dataset {
        Dataset::Small => 0,
        Dataset::Medium => 1,
        Dataset::Large => 2,
        Dataset::Dynamic => (at.since(warm_up).0 * 3 / measured.0.max(1)).min(2) as usize,
    };
    let all = (1..).map(|number: u64| Nanos(FRAME.0 * number)).take_while(|at| *at < warm_up + measured);
    all.filter(|at| of(*at) == kind).collect()
}

/// Object detection (SSD): image loading by this many threads, then the network on the GPU, then the objects one by one.
#[must_use]
pub fn detection(
    dataset: Dataset,
    loaders: u32,
    cores: Cores,
    (warm_up, measured): (Nanos, Nanos),
) -> (WorkloadSpec, Vec<RequestSpec>) {
    let roles = BTreeMap::from([("main".to_owned(), 2), ("loader".to_owned(), loaders)]);
    let mut spec = WorkloadSpec {
        threads: 2 + loaders,
        pool: Some(roles),
        profile: framework(),
        slo: Some(Slo { quantile: 0.95, bound: millis("edgeiso.detection-slo") }),
        ..WorkloadSpec::lc("detection", CpuCount::whole(CORES / 2))
    };
    cores.set(&mut spec);
    let objects = [(1, 1), (9, 10), (25, 42)];
    let kinds = ["small", "medium", "large"].iter().zip(objects).enumerate();
    let requests = kinds.filter_map(|(kind, (name, (fewest, most)))| {
        let mut times = frames(kind, dataset, warm_up, measured);
        if times.is_empty() {
            return None;
        }
        // Recorded times begin again after the last: not within this run.
        times.push(Nanos(2 * (warm_up + measured).0 + FRAME.0));
        let load = Nanos(millis("edgeiso.detection-load").0 / u64::from(loaders));
        let each = millis("edgeiso.detection-object");
        let after = Service::Uniform { from: Nanos(each.0 * fewest), to: Nanos(each.0 * most + 1) };
        let gpu = Step::Gpu(
            Service::Constant(millis("edgeiso.detection-gpu")),
            BytesPerSecond(1e9 * assumed("edgeiso.detection-moves")),
        );
        let loads = (0..loaders)
            .map(|n| stage(format!("load-{n}"), "detection.loader", vec!["begin".into()], vec![work(load)]))
            .collect::<Vec<_>>();
        let names = loads.iter().map(|load| load.name.clone()).collect();
        let submit = work(millis("edgeiso.detection-submit"));
        let mut stages = vec![stage("begin".into(), "detection.main", Vec::new(), vec![work(Nanos::from_micros(200))])];
        stages.extend(loads);
        stages.push(stage("detect".into(), "detection.main", names, vec![submit, gpu, Step::Work(after)]));
        let name = format!("detection-{name}");
        let arrivals = Some(Arrivals::Recorded(times));
        Some(RequestSpec { name, copies: 1, arrivals, clients: None, at_most: None, stages })
    });
    let requests = requests.collect();
    (spec, requests)
}

/// STREAM on one thread.
#[must_use]
pub fn stream(number: u32, core: u32) -> (WorkloadSpec, Vec<RequestSpec>) {
    let mut spec = WorkloadSpec { profile: known("streaming"), ..WorkloadSpec::be(format!("stream{number}")).busy(1) };
    Cores::Own(core, core + 1).set(&mut spec);
    (spec, Vec::new())
}

/// Retraining of the detection's network, on CPUs.
#[must_use]
pub fn retraining(threads: u32, cores: Cores) -> (WorkloadSpec, Vec<RequestSpec>) {
    let mut spec = WorkloadSpec { profile: training(), ..WorkloadSpec::be("retraining").busy(threads) };
    cores.set(&mut spec);
    (spec, Vec::new())
}

/// Does this data processing benchmark run on the GPU?
#[must_use]
pub fn is_on_gpu(name: &str) -> bool {
    name.starts_with("GPU")
}

/// A data processing benchmark: best-effort, or a foreground. What runs on the GPU prepares a block on the CPU, and then
/// waits for the GPU.
#[must_use]
pub fn data_processing(name: &str, threads: u32, foreground: bool, cores: Cores) -> (WorkloadSpec, Vec<RequestSpec>) {
    let own = if foreground { format!("{name}-fg") } else { name.to_owned() };
    let base = match foreground {
        true => WorkloadSpec::lc(&own, CpuCount::whole(CORES / 2)),
        false => WorkloadSpec::be(&own),
    };
    // Regression streams through its points as k-means does, with less arithmetic.
    let profile = if name.ends_with("LR") { known("cfd") } else { known("kmeans") };
    let mut spec = WorkloadSpec { threads, profile, ..base };
    cores.set(&mut spec);
    if !is_on_gpu(name) {
        return (WorkloadSpec { batch: Some(Default::default()), ..spec }, Vec::new());
    }
    spec.pool = Some(BTreeMap::new());
    let gpu =
        Step::Gpu(Service::Constant(millis("edgeiso.data-gpu")), BytesPerSecond(1e9 * assumed("edgeiso.data-moves")));
    let steps = vec![work(millis("edgeiso.data-cpu")), gpu];
    let clients = Some(Clients { number: threads, think: Service::Constant(Nanos(1)) });
    let stages = vec![stage("block".into(), &own, Vec::new(), steps)];
    (spec, vec![RequestSpec { name: own.clone(), copies: 1, arrivals: None, clients, at_most: None, stages }])
}

/// What runs elsewhere: the same alone on the device, all of whose other half is idle.
#[must_use]
pub fn offloaded((mut spec, requests): (WorkloadSpec, Vec<RequestSpec>)) -> (WorkloadSpec, Vec<RequestSpec>) {
    Cores::Own(0, CORES / 2).set(&mut spec);
    (spec, requests)
}

/// A service of Tailbench on the CPUs, with four threads.
#[must_use]
pub fn tailbench(name: &str, rate: f64, cores: Cores) -> (WorkloadSpec, Vec<RequestSpec>) {
    let usual = library::service(name).unwrap_or(Nanos::from_millis(1));
    let mean = if name == "xapian" { millis("edgeiso.xapian-service") } else { usual };
    let service = Service::Lognormal { mean, sigma: assumed("edgeiso.tailbench-spread") };
    let server = ServerSpec { arrivals: Arrivals::Poisson(rate), service, dispatch: Dispatch::Pool };
    let mut spec = WorkloadSpec {
        threads: CORES,
        server: Some(server),
        profile: known(name),
        ..WorkloadSpec::lc(name, CpuCount::whole(CORES / 2))
    };
    cores.set(&mut spec);
    (spec, Vec::new())
}
