//! The plug-in beside a runtime that a test plays, on a tree of files.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nri::{
    Container, FakeConnection, FakeRuntime, LinuxContainer, LinuxCpu, LinuxPodSandbox, LinuxResources, PodSandbox,
};
use quell_linux::Roots;
use quell_linux::testkit::FakeTree;
use quell_model::Topology;
use quell_pods::Mode;
use tempfile::TempDir;

use super::*;
use crate::guardian::{Site as MachineSite, put_back_journal};
use crate::journal::FileJournal;

/// Four CPUs, a runtime, and the agent's part.
struct Scene {
    tree: FakeTree,
    directory: TempDir,
    runtime: FakeRuntime,
    shown: ShownPods,
    settings: Kubernetes,
}

const LIMIT: Duration = Duration::from_secs(60);

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Scene {
    fn new(mode: Mode) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nri.sock");
        let runtime = FakeRuntime::listen(&socket).unwrap();
        let settings = Kubernetes { mode, socket, ..Kubernetes::default() };
        Scene {
            tree: FakeTree::new(&Topology::synthetic(1, 1, 4, 1)),
            directory,
            runtime,
            shown: ShownPods::default(),
            settings,
        }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.directory.path().join("agent.journal.pods")
    }

    fn start(&self) -> Pods {
        let roots: Roots = self.tree.roots();
        let site = Site {
            topology: Topology::synthetic(1, 1, 4, 1),
            online: "0-3".parse().unwrap(),
            not_managed: CpuSet::EMPTY,
            journal: Box::new(FileJournal::create(&self.journal(), &roots).unwrap()),
            only_looks: false,
            roots,
        };
        Pods::start(&self.settings, site, self.shown.clone()).unwrap()
    }

    fn connect(&self, pods: &[PodSandbox], containers: &[Container]) -> FakeConnection {
        let connection = self.runtime.accept(pods, containers).unwrap();
        until("it is shown as connected", || self.shown.get().filter(|shown| shown.runtime.is_some()));
        connection
    }

    /// As the runtime makes a container's cgroup, with these CPUs.
    fn make_cgroup(&self, container: &Container, cpus: &str, quota: &str) {
        let folder = self.folder(container);
        self.tree.write(folder.join("cpuset.cpus"), cpus);
        self.tree.write(folder.join("cpu.max"), quota);
    }

    fn folder(&self, container: &Container) -> PathBuf {
        let path = &container.linux.as_ref().unwrap().cgroups_path;
        self.tree.roots().cgroup.join(path.trim_start_matches('/'))
    }

    fn cpus(&self, container: &Container) -> String {
        self.tree.read(self.folder(container).join("cpuset.cpus")).trim().to_owned()
    }

    fn quota(&self, container: &Container) -> String {
        self.tree.read(self.folder(container).join("cpu.max")).trim().to_owned()
    }

    /// A container as the runtime creates and starts it, on what the plug-in answers.
    fn run(&self, runtime: &mut FakeConnection, pod: &PodSandbox, container: &Container) -> Result<String, String> {
        let created = runtime.create(pod, container)?;
        let cpus = created.adjust.linux.and_then(|linux| linux.resources?.cpu).map(|cpu| cpu.cpus).unwrap_or_default();
        let quota = container.linux.as_ref().unwrap().resources.as_ref().unwrap().cpu.as_ref().unwrap().quota;
        self.make_cgroup(container, &cpus, &quota.map_or("max 100000".into(), |quota| format!("{quota} 100000")));
        runtime.event("StartContainer", pod, Some(container))?;
        Ok(cpus)
    }
}

fn pod(name: &str, qos: &str, labels: &[(&str, &str)]) -> PodSandbox {
    let uid = format!("uid-{name}");
    let parent = if qos.is_empty() { format!("/kubepods/pod{uid}") } else { format!("/kubepods/{qos}/pod{uid}") };
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.into(),
        uid,
        namespace: "shop".into(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        linux: Some(LinuxPodSandbox { cgroup_parent: parent, ..LinuxPodSandbox::default() }),
        ..PodSandbox::default()
    }
}

fn container(of: &PodSandbox, name: &str, millis: u64, is_limited: bool) -> Container {
    let id = format!("{name}-of-{}", of.name);
    let cpu = LinuxCpu {
        shares: Some((millis * 1024 / 1000).max(2)),
        quota: is_limited.then_some((millis * 100) as i64),
        period: Some(100_000),
        ..LinuxCpu::default()
    };
    let parent = of.linux.as_ref().unwrap().cgroup_parent.clone();
    let resources = Some(LinuxResources { cpu: Some(cpu), ..LinuxResources::default() });
    let linux = LinuxContainer { cgroups_path: format!("{parent}/{id}"), resources, ..LinuxContainer::default() };
    Container { id, pod_sandbox_id: of.id.clone(), name: name.into(), linux: Some(linux), ..Container::default() }
}

const STRICT: (&str, &str) = ("quell.dev/reservation", "strict");

#[test]
fn a_strict_container_has_its_cpus_before_it_starts_and_everything_comes_back() {
    let scene = Scene::new(Mode::Enforce);
    let agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (batch, db) = (pod("batch", "besteffort", &[]), pod("db", "", &[STRICT]));
    let (work, main) = (container(&batch, "work", 0, false), container(&db, "main", 2000, true));
    assert_eq!(scene.run(&mut runtime, &batch, &work).unwrap(), "", "nothing is strict yet");
    assert_eq!(scene.cpus(&work), "");
    let created = runtime.create(&db, &main).unwrap();
    let own = created.adjust.linux.unwrap().resources.unwrap().cpu.unwrap().cpus;
    assert_eq!(own.parse::<CpuSet>().unwrap().len(), 2);
    // Cleared when the answer is there, and not later.
    let shared = "0-3".parse::<CpuSet>().unwrap().difference(&own.parse().unwrap());
    assert_eq!(scene.cpus(&work), shared.to_string());
    scene.make_cgroup(&main, &own, "200000 100000");
    runtime.event("StartContainer", &db, Some(&main)).unwrap();
    assert_eq!((scene.cpus(&main), scene.quota(&main).as_str()), (own, "max 100000"), "its quota is lifted");
    runtime.event("StopContainer", &db, Some(&main)).unwrap();
    runtime.event("StopPodSandbox", &db, None).unwrap();
    assert_eq!(scene.cpus(&work), "", "with the sandbox goes the reservation");
    drop(agent);
}

#[test]
fn what_was_written_is_put_back_when_the_agent_ends_and_when_it_is_killed() {
    for is_killed in [false, true] {
        let scene = Scene::new(Mode::Enforce);
        let agent = scene.start();
        let mut runtime = scene.connect(&[], &[]);
        let (web, db) = (pod("web", "burstable", &[]), pod("db", "", &[STRICT]));
        let (work, main) = (container(&web, "work", 500, false), container(&db, "main", 1000, true));
        scene.run(&mut runtime, &web, &work).unwrap();
        scene.run(&mut runtime, &db, &main).unwrap();
        assert_ne!(scene.cpus(&work), "");
        if is_killed {
            // Its threads go on in this process: they are asked to write nothing more, as a dead one's do.
            agent.stop.is_asked.store(true, Ordering::Release);
            let site = MachineSite { roots: scene.tree.roots(), ..MachineSite::default() };
            let journal = scene.directory.path().join("agent.journal");
            let report = put_back_journal(&journal, &site, &mut || {}).unwrap();
            assert!(report.restored.len() >= 3, "{report:?}");
        }
        drop(agent);
        assert_eq!(
            (scene.cpus(&work), scene.cpus(&main), scene.quota(&main)),
            (String::new(), String::new(), "100000 100000".into()),
            "killed: {is_killed}"
        );
    }
}

#[test]
fn a_refusal_says_the_numbers_and_changes_nothing() {
    let scene = Scene::new(Mode::Enforce);
    let _agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (web, big) = (pod("web", "burstable", &[]), pod("big", "", &[STRICT]));
    let (work, main) = (container(&web, "work", 500, false), container(&big, "main", 4000, true));
    scene.run(&mut runtime, &web, &work).unwrap();
    let why = runtime.create(&big, &main).unwrap_err();
    assert!(why.contains("quell: ") && why.contains('4') && why.contains("; "), "{why}");
    assert_eq!(scene.cpus(&work), "");
}

#[test]
fn a_resize_keeps_what_it_can_and_the_quota_that_comes_back_is_the_new_one() {
    let scene = Scene::new(Mode::Enforce);
    let agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let db = pod("db", "", &[STRICT]);
    let main = container(&db, "main", 1000, true);
    let own: CpuSet = scene.run(&mut runtime, &db, &main).unwrap().parse().unwrap();
    let resources = |millis: u64| LinuxResources {
        cpu: Some(LinuxCpu {
            shares: Some(millis * 1024 / 1000),
            quota: Some((millis * 100) as i64),
            period: Some(100_000),
            ..LinuxCpu::default()
        }),
        ..LinuxResources::default()
    };
    runtime.update(&db, &main, resources(2000)).unwrap();
    // The runtime writes the quota of the new size itself.
    scene.tree.write(scene.folder(&main).join("cpu.max"), "200000 100000");
    runtime.event("PostUpdateContainer", &db, Some(&main)).unwrap();
    let grown: CpuSet = scene.cpus(&main).parse().unwrap();
    assert!(own.is_subset(&grown) && grown.len() == 2, "{own} {grown}");
    assert_eq!(scene.quota(&main), "max 100000");
    let why = runtime.update(&db, &main, resources(9000)).unwrap_err();
    assert!(why.contains('9'), "{why}");
    assert_eq!(scene.cpus(&main), grown.to_string());
    drop(agent);
    assert_eq!(scene.quota(&main), "200000 100000");
}

#[test]
fn what_another_program_changes_is_set_again_and_counted() {
    let scene = Scene::new(Mode::Enforce);
    let _agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (web, db) = (pod("web", "burstable", &[]), pod("db", "", &[STRICT]));
    let (work, main) = (container(&web, "work", 500, false), container(&db, "main", 1000, true));
    scene.run(&mut runtime, &web, &work).unwrap();
    scene.run(&mut runtime, &db, &main).unwrap();
    let shared = scene.cpus(&work);
    // As systemd's daemon-reload does.
    scene.tree.write(scene.folder(&work).join("cpuset.cpus"), "");
    until("it is set again", || (scene.cpus(&work) == shared).then_some(()));
    until("it is counted", || (scene.shown.get()?.set_again > 0).then_some(()));
}

#[test]
fn all_that_runs_is_found_at_a_connection_and_at_the_next_one() {
    let scene = Scene::new(Mode::Enforce);
    let _agent = scene.start();
    let (web, db) = (pod("web", "burstable", &[]), pod("db", "", &[STRICT]));
    let running = |mut container: Container| {
        container.state = nri::ContainerState::Running as i32;
        container
    };
    let (work, main) = (running(container(&web, "work", 500, false)), running(container(&db, "main", 2000, true)));
    scene.make_cgroup(&work, "", "max 100000");
    scene.make_cgroup(&main, "", "200000 100000");
    let (pods, containers) = ([web, db], [work.clone(), main.clone()]);
    let runtime = scene.connect(&pods, &containers);
    let own = until("it has CPUs", || scene.cpus(&main).parse::<CpuSet>().ok().filter(|cpus| cpus.len() == 2));
    drop(runtime);
    until("the loss is shown", || scene.shown.get()?.not_connected);
    assert_eq!(scene.cpus(&main), own.to_string(), "containers go on without a runtime");
    scene.connect(&pods, &containers);
    assert_eq!(scene.cpus(&main), own.to_string(), "and keep what they have");
    assert!(scene.cpus(&work).parse::<CpuSet>().unwrap().intersection(&own).is_empty());
}

#[test]
fn observing_writes_nothing_and_shows_everything() {
    let scene = Scene::new(Mode::Observe);
    let agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (web, db) = (pod("web", "burstable", &[]), pod("db", "", &[STRICT]));
    let (work, main) = (container(&web, "work", 500, false), container(&db, "main", 2000, true));
    assert_eq!(scene.run(&mut runtime, &web, &work).unwrap(), "");
    assert_eq!(scene.run(&mut runtime, &db, &main).unwrap(), "");
    assert_eq!((scene.cpus(&work), scene.quota(&main).as_str()), (String::new(), "200000 100000"));
    let shown = scene.shown.get().unwrap();
    assert_eq!((shown.mode.as_str(), shown.pods.len()), ("observe", 2));
    let news = until("the loop has them", || agent.news());
    let names: Vec<&str> = news.iter().map(|pod| pod.workload.name.as_str()).collect();
    assert!(names.contains(&"shop/web") && news.iter().all(|pod| !pod.is_managed), "{names:?}");
    assert!(Path::new(&scene.journal()).exists());
}

#[test]
fn between_its_creation_and_its_start_a_containers_way_back_is_known() {
    for is_killed in [false, true] {
        let scene = Scene::new(Mode::Enforce);
        let agent = scene.start();
        let mut runtime = scene.connect(&[], &[]);
        let db = pod("db", "", &[STRICT]);
        let main = container(&db, "main", 1000, true);
        let created = runtime.create(&db, &main).unwrap();
        let own = created.adjust.linux.unwrap().resources.unwrap().cpu.unwrap().cpus;
        scene.make_cgroup(&main, &own, "100000 100000");
        if is_killed {
            agent.stop.is_asked.store(true, Ordering::Release);
            let site = MachineSite { roots: scene.tree.roots(), ..MachineSite::default() };
            put_back_journal(&scene.directory.path().join("agent.journal"), &site, &mut || {}).unwrap();
        }
        drop(agent);
        assert_eq!(scene.cpus(&main), "", "killed: {is_killed}");
    }
}

#[test]
fn switched_off_it_puts_everything_back_and_sets_nothing() {
    let scene = Scene::new(Mode::Enforce);
    let agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (db, cache) = (pod("db", "", &[STRICT]), pod("cache", "", &[STRICT]));
    let (main, other) = (container(&db, "main", 1000, true), container(&cache, "main", 1000, true));
    let own = scene.run(&mut runtime, &db, &main).unwrap();
    agent.suspend(true);
    assert_eq!((scene.cpus(&main).as_str(), scene.quota(&main).as_str()), ("", "100000 100000"));
    assert_eq!(scene.run(&mut runtime, &cache, &other).unwrap(), "");
    agent.suspend(false);
    assert_eq!((scene.cpus(&main), scene.quota(&main).as_str()), (own.clone(), "max 100000"));
    let theirs: CpuSet = scene.cpus(&other).parse().unwrap();
    assert!(theirs.intersection(&own.parse().unwrap()).is_empty() && theirs.len() == 1);
}

#[test]
fn where_neighbours_cannot_be_moved_away_nothing_is_reserved() {
    let scene = Scene::new(Mode::Enforce);
    let _agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (web, db) = (pod("web", "burstable", &[]), pod("db", "", &[STRICT]));
    let (work, main) = (container(&web, "work", 500, false), container(&db, "main", 1000, true));
    scene.run(&mut runtime, &web, &work).unwrap();
    // What cannot be read or written as a file.
    let file = scene.folder(&work).join("cpuset.cpus");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", &file).unwrap();
    let created = runtime.create(&db, &main);
    std::fs::remove_file(&file).unwrap();
    let why = created.unwrap_err();
    assert!(why.contains("could not be cleared"), "{why}");
    assert_eq!(scene.shown.get().unwrap().strict_cpus, "");
}

#[test]
fn guard_takes_no_limit_of_a_strict_pod_whose_quota_is_lifted() {
    let scene = Scene::new(Mode::Enforce);
    let agent = scene.start();
    let mut runtime = scene.connect(&[], &[]);
    let (web, db) = (pod("web", "", &[]), pod("db", "", &[STRICT]));
    scene.run(&mut runtime, &web, &container(&web, "main", 500, true)).unwrap();
    scene.run(&mut runtime, &db, &container(&db, "main", 1000, true)).unwrap();
    let news = until("the loop has both", || agent.news().filter(|news| news.len() == 2));
    let limit = |name: &str| news.iter().find(|pod| pod.workload.name == name).unwrap().workload.limit;
    assert_eq!(limit("shop/db"), None);
    assert!(limit("shop/web").is_some());
    assert!(news.iter().all(|pod| pod.is_managed));
}

#[test]
fn where_the_kernel_has_partitions_a_strict_pod_is_one_and_others_are_not_touched() {
    for (is_killed, file) in [(false, ""), (true, ""), (false, "cpuset.cpus.exclusive")] {
        let scene = Scene::new(Mode::Enforce);
        let agent = scene.start();
        let mut runtime = scene.connect(&[], &[]);
        let (web, db) = (pod("web", "burstable", &[]), pod("db", "burstable", &[STRICT]));
        let root = scene.tree.roots().cgroup;
        let folders = ["kubepods", "kubepods/burstable", "kubepods/burstable/poduid-db"];
        for folder in folders {
            scene.tree.write(root.join(folder).join("cpuset.cpus.exclusive"), "");
            scene.tree.write(root.join(folder).join("cpuset.cpus.partition"), "member");
        }
        if !file.is_empty() {
            std::fs::remove_file(root.join("kubepods").join(file)).unwrap();
        }
        let (work, main) = (container(&web, "work", 500, false), container(&db, "main", 1000, false));
        scene.run(&mut runtime, &web, &work).unwrap();
        let own = scene.run(&mut runtime, &db, &main).unwrap();
        let read = |folder: &str, name: &str| scene.tree.read(root.join(folder).join(name)).trim().to_owned();
        if file.is_empty() {
            assert_eq!(scene.cpus(&work), "", "it is the kernel that keeps it off");
            assert!(folders.iter().all(|folder| read(folder, "cpuset.cpus.exclusive") == own));
            let partitions = folders.map(|folder| read(folder, "cpuset.cpus.partition"));
            assert_eq!(partitions, ["member", "member", "root"], "the pod's alone");
        } else {
            assert_eq!(read(folders[2], "cpuset.cpus.partition"), "member", "older kernels have no such partitions");
            assert_ne!(scene.cpus(&work), "");
        }
        if is_killed {
            agent.stop.is_asked.store(true, Ordering::Release);
            let site = MachineSite { roots: scene.tree.roots(), ..MachineSite::default() };
            put_back_journal(&scene.directory.path().join("agent.journal"), &site, &mut || {}).unwrap();
        }
        drop(agent);
        assert_eq!(read(folders[2], "cpuset.cpus.partition"), "member");
        assert!(!file.is_empty() || folders.iter().all(|folder| read(folder, "cpuset.cpus.exclusive").is_empty()));
        assert_eq!((scene.cpus(&work), scene.cpus(&main)), (String::new(), String::new()), "killed: {is_killed}");
    }
}

/// A node's most: 250 containers, each in a pod of its own, and strict ones that come and go. Wide bounds: this is a debug build beside
/// other tests; what it prints is in notebook/.
#[test]
fn beside_250_containers_a_creation_is_answered_soon_and_its_cpus_are_taken_from_all() {
    for has_partitions in [true, false] {
        let scene = Scene::new(Mode::Enforce);
        let root = scene.tree.roots().cgroup;
        let may_be_a_partition = |group: &str| {
            if has_partitions {
                scene.tree.write(root.join(group).join("cpuset.cpus.exclusive"), "");
                scene.tree.write(root.join(group).join("cpuset.cpus.partition"), "member");
            }
        };
        let _agent = scene.start();
        let mut runtime = scene.connect(&[], &[]);
        let web: Vec<PodSandbox> = (0..250).map(|number| pod(&format!("web{number}"), "burstable", &[])).collect();
        for pod in &web {
            scene.run(&mut runtime, pod, &container(pod, "work", 10, false)).unwrap();
        }
        may_be_a_partition("kubepods");
        let (mut took, mut writes) = (Vec::new(), 0);
        for number in 0..20 {
            let name = format!("db{number}");
            may_be_a_partition(&format!("kubepods/poduid-{name}"));
            let db = pod(&name, "", &[STRICT]);
            let main = container(&db, "main", 1000, true);
            let records = || std::fs::read_to_string(scene.journal()).unwrap().lines().count();
            let (begun, before) = (Instant::now(), records());
            let created = runtime.create(&db, &main).unwrap();
            took.push(begun.elapsed());
            let own = created.adjust.linux.unwrap().resources.unwrap().cpu.unwrap().cpus;
            scene.make_cgroup(&main, &own, "100000 100000");
            runtime.event("StartContainer", &db, Some(&main)).unwrap();
            // A journal that was written anew is shorter.
            writes = writes.max(records().saturating_sub(before));
            let own: CpuSet = own.parse().unwrap();
            let shared = if has_partitions {
                String::new()
            } else {
                "0-3".parse::<CpuSet>().unwrap().difference(&own).to_string()
            };
            let others = web.iter().map(|pod| scene.cpus(&container(pod, "work", 10, false)));
            assert!(own.len() == 1 && others.into_iter().all(|cpus| cpus == shared), "{own}");
            runtime.event("StopPodSandbox", &db, None).unwrap();
            runtime.event("RemovePodSandbox", &db, None).unwrap();
        }
        took.sort_unstable();
        let longest = took[took.len() - 1];
        let how = if has_partitions { "partitions" } else { "CPU sets" };
        println!(
            "{how}: created beside 250 containers: median {:?}, longest {longest:?}, at most {writes} writes",
            took[10]
        );
        assert!(longest < Duration::from_secs(2), "the runtime's patience: {longest:?}");
        assert!(!has_partitions || writes <= 15, "{writes} writes a strict pod");
    }
}
