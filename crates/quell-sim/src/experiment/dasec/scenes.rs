//! The workloads of DASEC's evaluation. What the text does not say of them is an assumption of `papers/dasec/assumptions.toml`.
//!
//! A service is a VM of 16 vCPUs with a thread each (L245), or a container of 16 threads. Its main thread takes each request in, its workers do it in pieces and write under a lock, its main thread answers
//! (Figure 4's threads). Its clients wait for their answers.

use std::collections::BTreeMap;

use quell_model::{BytesPerSecond, Class, CpuCount, Nanos, Slo};

use super::guest;
use crate::experiment::assumed::{assumed, micros};
use crate::workload::Service;
use crate::workload::graph::{Clients, GraphSpec, LockOrder, LockSpec, RequestSpec, StageSpec, Step};
use crate::{VmSpec, WorkloadSpec};

/// Threads of a service ("each workload in the VM has 16 threads").
pub const THREADS: u32 = 16;

/// A service of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Requests a second of each instance (L121, L243).
    pub rate: u32,
    /// Its CPU time's assumption.
    service: &'static str,
}

/// The services (Table 2).
pub const KINDS: [Kind; 4] = [
    Kind { name: "masstree", rate: 1_000, service: "dasec.masstree-service" },
    Kind { name: "img-dnn", rate: 500, service: "dasec.img-dnn-service" },
    Kind { name: "memcached", rate: 10_000, service: "dasec.memcached-service" },
    Kind { name: "silo", rate: 2_000, service: "dasec.silo-service" },
];

/// The first service: the one of §6.3 and §6.5.
pub const MASSTREE: Kind = KINDS[0];

impl Kind {
    /// CPU time of a request, mean.
    #[must_use]
    pub fn service(self) -> Nanos {
        micros(self.service)
    }
}

/// What runs.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Workloads: the services first.
    pub workloads: Vec<WorkloadSpec>,
    /// VMs: one for each of the first services, or none.
    pub vms: Vec<VmSpec>,
    /// Number of services among them.
    pub services: usize,
    /// Requests and locks.
    pub graph: GraphSpec,
    /// Seconds of GPU that the machine's batches need; 0: it has no GPU.
    pub has_gpu: bool,
}

fn work(mean: f64) -> Service {
    Service::Lognormal { mean: Nanos(mean.max(1.0) as u64), sigma: assumed("dasec.spread") }
}

fn stage(name: &str, on: &str, after: &[&str], steps: Vec<Step>) -> StageSpec {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    StageSpec { name: name.into(), on: on.into(), after, profile: None, steps }
}

fn pool(name: &str, roles: &[(&str, u32)]) -> WorkloadSpec {
    let threads = roles.iter().map(|(_, threads)| threads).sum();
    let roles = roles.iter().map(|&(role, threads)| (role.to_owned(), threads)).collect::<BTreeMap<_, _>>();
    WorkloadSpec { threads, pool: Some(roles), ..WorkloadSpec::new(name, Class::LatencyCritical) }
}

impl Scene {
    /// This many instances of a service, with this many threads each, in containers.
    #[must_use]
    pub fn of(kind: Kind, instances: u32, threads: u32) -> Scene {
        let mut scene = Scene::default();
        (0..instances).for_each(|number| scene.add(kind, number, threads));
        scene
    }

    /// The same in VMs, with a vCPU for each thread.
    #[must_use]
    pub fn in_vms(kind: Kind, instances: u32, threads: u32) -> Scene {
        let mut scene = Scene::of(kind, instances, threads);
        for service in &mut scene.workloads {
            let name = format!("vm-{}", service.name);
            scene.vms.push(VmSpec { kernel: guest(), ..VmSpec::new(&name, threads) });
            service.vm = Some(name);
        }
        scene
    }

    fn add(&mut self, kind: Kind, number: u32, threads: u32) {
        let name = format!("{}{number}", kind.name);
        let spec = pool(&name, &[("main", 1), ("worker", threads - 1)]);
        self.workloads.push(spec);
        self.services += 1;
        let total = kind.service().0 as f64;
        let (main, locked) = (assumed("dasec.main-share"), assumed("dasec.lock-share"));
        let pieces = assumed("dasec.pieces").round().max(1.0);
        let of_workers = total * (1.0 - main) / pieces;
        let lock = format!("{name}.lock");
        let (main_thread, worker) = (format!("{name}.main"), format!("{name}.worker"));
        let mut stages = vec![stage("take", &main_thread, &[], vec![Step::Work(work(total * main / 2.0))])];
        let names: Vec<String> = (0..pieces as u32).map(|piece| format!("piece{piece}")).collect();
        for piece in &names {
            let steps = vec![
                Step::Work(work(of_workers * (1.0 - locked))),
                Step::Locked(work(of_workers * locked), lock.clone()),
            ];
            stages.push(stage(piece, &worker, &["take"], steps));
        }
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        stages.push(stage("answer", &main_thread, &all, vec![Step::Work(work(total * main / 2.0))]));
        // At no latency beyond the CPU time all clients together ask the service's rate.
        let clients = assumed("dasec.clients").round();
        let think = (clients / f64::from(kind.rate) * 1e9 - total).max(1.0);
        let clients = Clients { number: clients as u32, think: Service::Exponential(Nanos(think as u64)) };
        let (copies, arrivals, at_most) = (1, None, None);
        self.graph.requests.push(RequestSpec { name, copies, arrivals, clients: Some(clients), at_most, stages });
        self.graph.locks.push(LockSpec { name: lock, copies: 1, order: LockOrder::Barging });
    }

    /// An instance of AI inference: batches one after the other, prepared by eight threads for the GPU.
    #[must_use]
    pub fn with_inference(mut self) -> Scene {
        let millis = |name: &str| assumed(name) * 1e6;
        let roles = [("gpu", 1), ("main", 1), ("prepare", THREADS - 2)];
        self.workloads.push(pool("inference", &roles));
        self.services += 1;
        self.has_gpu = true;
        let each = millis("dasec.ai-cpu") / 10.0;
        let mut stages = vec![stage("load", "inference.main", &[], vec![Step::Work(work(each))])];
        let names: Vec<String> = (0..8).map(|number| format!("prepare{number}")).collect();
        names.iter().for_each(|name| {
            stages.push(stage(name, "inference.prepare", &["load"], vec![Step::Work(work(each))]));
        });
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        stages.push(stage("collect", "inference.main", &all, vec![Step::Work(work(each))]));
        let gpu = Step::Gpu(Service::Constant(Nanos(millis("dasec.ai-gpu") as u64)), BytesPerSecond(0.0));
        stages.push(stage("infer", "inference.gpu", &["collect"], vec![Step::Work(work(1e5)), gpu]));
        let clients = Some(Clients { number: 2, think: Service::Constant(Nanos(1)) });
        let (copies, arrivals, at_most) = (1, None, None);
        self.graph.requests.push(RequestSpec { name: "inference".into(), copies, arrivals, clients, at_most, stages });
        self
    }

    /// A background of matrix products: its main thread distributes pieces to the others.
    #[must_use]
    pub fn with_matrices(mut self, threads: u32) -> Scene {
        let piece = assumed("dasec.matrix-piece") * 1e6;
        self.workloads
            .push(WorkloadSpec { class: Class::BestEffort, ..pool("matrices", &[("main", 1), ("worker", threads)]) });
        let mut stages = vec![stage("deal", "matrices.main", &[], vec![Step::Work(work(piece / 20.0))])];
        for number in 0..threads {
            stages.push(stage(
                &format!("multiply{number}"),
                "matrices.worker",
                &["deal"],
                vec![Step::Work(work(piece))],
            ));
        }
        let clients = Some(Clients { number: 1, think: Service::Constant(Nanos(1)) });
        let (copies, arrivals, at_most) = (1, None, None);
        self.graph.requests.push(RequestSpec { name: "matrices".into(), copies, arrivals, clients, at_most, stages });
        self
    }

    /// With a target for policies that keep one: a p99.
    #[must_use]
    pub fn with_target(mut self, target: Nanos) -> Scene {
        for spec in &mut self.workloads[..self.services] {
            spec.slo = Some(Slo { quantile: 0.99, bound: target });
            spec.cpus = CpuCount::whole(1);
        }
        self
    }
}
