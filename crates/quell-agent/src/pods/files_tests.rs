//! Pods' files on a kernel that keeps the rules of partitions.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use proptest::prelude::*;
use quell_linux::write::{NoJournal, Written};
use quell_model::CpuId;

use super::*;

/// Its cgroup files. Exclusive CPUs of siblings are apart, or the write fails; a partition has some, and all above it have them, too, or
/// it has ended.
#[derive(Clone, Debug, Default)]
struct Kernel(Arc<Mutex<BTreeMap<PathBuf, String>>>);

impl Kernel {
    fn with(pods: &[&str]) -> Kernel {
        let kernel = Kernel::default();
        for group in ["kubepods", "kubepods/burstable"].iter().chain(pods) {
            for (file, text) in [(EXCLUSIVE, ""), (PARTITION, "member"), (CPUS, "")] {
                kernel.files().insert(Path::new("/").join(group).join(file), text.to_owned());
            }
        }
        kernel
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        self.0.lock().unwrap()
    }

    fn text(&self, file: &str) -> String {
        self.files()[&Path::new("/").join(file)].clone()
    }

    fn cpus(&self, group: &Path) -> CpuSet {
        self.files().get(&group.join(EXCLUSIVE)).map_or(CpuSet::EMPTY, |text| text.parse().unwrap())
    }

    fn is_partition(&self, group: &Path) -> bool {
        let own = self.cpus(group);
        let above = group.ancestors().skip(1).filter(|above| above.parent().is_some());
        !own.is_empty() && above.into_iter().all(|above| own.is_subset(&self.cpus(above)))
    }

    fn end_what_is_none(&self) {
        let all: Vec<PathBuf> = self.files().keys().filter(|file| file.ends_with(PARTITION)).cloned().collect();
        for file in all {
            if self.files()[&file] == "root" && !self.is_partition(file.parent().unwrap()) {
                self.files().insert(file, "root invalid (Invalid cpu list in cpuset.cpus.exclusive)".to_owned());
            }
        }
    }
}

impl Medium for Kernel {
    fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        let Place::File(path) = place else { panic!("{place}") };
        Ok(self.files().get(path).cloned().map(Value::Text))
    }

    fn write(&mut self, place: &Place, value: &Value) -> Result<Written, LinuxError> {
        let (Place::File(path), Value::Text(text)) = (place, value) else { panic!("{place}") };
        let group = path.parent().unwrap();
        let refused = |code: i32| LinuxError::Cgroup {
            path: path.clone(),
            value: text.clone(),
            source: io::Error::from_raw_os_error(code),
            fix: "",
        };
        if path.ends_with(EXCLUSIVE) {
            let next: CpuSet = text.parse().unwrap();
            let groups: Vec<PathBuf> = self.files().keys().map(|file| file.parent().unwrap().to_owned()).collect();
            let mut siblings = groups.iter().filter(|other| other.parent() == group.parent() && *other != group);
            if siblings.any(|other| !self.cpus(other).intersection(&next).is_empty()) {
                return Err(refused(22));
            }
        }
        if path.ends_with(PARTITION) && !["member", "root"].contains(&text.as_str()) {
            panic!("never written: {text}");
        }
        self.files().insert(path.clone(), text.clone());
        self.end_what_is_none();
        let now = self.files()[path].clone();
        match path.ends_with(PARTITION) && now != *text {
            true => Err(LinuxError::Partition { path: path.clone(), value: text.clone(), verdict: now, fix: "" }),
            false => Ok(Written::Done),
        }
    }
}

const PODS: [&str; 3] = ["kubepods/poda", "kubepods/burstable/podb", "kubepods/burstable/podc"];

fn files(kernel: &Kernel) -> Files {
    Files::below(PathBuf::from("/"), Box::new(kernel.clone()), Box::new(NoJournal))
}

/// As the node wants them: each CPU is of one of the pods, or of none.
fn wanted(owners: &[usize]) -> BTreeMap<String, String> {
    let (mut wanted, mut above) = (BTreeMap::new(), BTreeMap::<String, CpuSet>::new());
    for (number, pod) in PODS.iter().enumerate() {
        let own = owners.iter().enumerate().filter(|(_, owner)| **owner == number);
        let own: CpuSet = own.map(|(cpu, _)| CpuId(cpu as u32)).collect();
        if own.is_empty() {
            continue;
        }
        wanted.insert(format!("{pod}/{EXCLUSIVE}"), own.to_string());
        wanted.insert(format!("{pod}/{PARTITION}"), "root".to_owned());
        for (end, _) in pod.match_indices('/') {
            let all = above.entry(pod[..end].to_owned()).or_insert(CpuSet::EMPTY);
            *all = all.union(&own);
        }
    }
    wanted.extend(above.into_iter().map(|(group, cpus)| (format!("{group}/{EXCLUSIVE}"), cpus.to_string())));
    wanted
}

proptest! {
    #[test]
    fn partitions_grow_shrink_and_move_and_none_is_refused(steps in prop::collection::vec(prop::collection::vec(0..5_usize, 6), 1..12)) {
        let kernel = Kernel::with(&PODS);
        let mut files = files(&kernel);
        for owners in steps {
            let wanted = wanted(&owners);
            prop_assert_eq!(files.follow(&wanted, false), None);
            for (file, text) in &wanted {
                prop_assert_eq!(&kernel.text(file), text);
            }
            prop_assert_eq!(files.set_again, 0);
        }
        files.put_back();
        for (file, text) in kernel.files().iter() {
            prop_assert_eq!(text.as_str(), if file.ends_with(PARTITION) { "member" } else { "" });
        }
    }
}

#[test]
fn a_partition_that_the_kernel_has_ended_is_one_again_and_comes_back_as_it_was() {
    let kernel = Kernel::with(&PODS);
    let mut files = files(&kernel);
    let wanted = wanted(&[3, 0, 0]);
    let state = format!("{}/{PARTITION}", PODS[0]);
    for is_last in [false, true] {
        assert_eq!(files.follow(&wanted, true), None);
        kernel.files().insert(Path::new("/").join(&state), "root invalid (Parent is not a partition root)".to_owned());
        if !is_last {
            assert_eq!(files.follow(&wanted, true), None);
            assert_eq!(kernel.text(&state), "root");
        }
    }
    files.put_back();
    assert_eq!(kernel.text(&state), "member");
    // Of another program: its kind, never the kernel's reason, which cannot be written.
    kernel.files().insert(Path::new("/").join(&state), "root invalid (Parent is not a partition root)".to_owned());
    let mut files = self::files(&kernel);
    assert_eq!(files.follow(&wanted, true), None);
    files.put_back();
    assert!(kernel.text(&state).starts_with("root"), "{}", kernel.text(&state));
}

#[test]
fn a_container_that_starts_when_its_cpus_are_wanted_no_more_has_all() {
    let kernel = Kernel::with(&PODS);
    let mut files = files(&kernel);
    let (one, other) = (format!("{}/{CPUS}", PODS[1]), format!("{}/{CPUS}", PODS[2]));
    let wanted: BTreeMap<String, String> = [(other.clone(), "0,3".to_owned())].into();
    for file in [&one, &other] {
        files.is_born_with(file.clone(), "0,3", String::new());
        kernel.files().insert(Path::new("/").join(file), "0,3".to_owned());
    }
    assert_eq!(files.follow(&wanted, false), None);
    assert_eq!(kernel.text(&one), "0,3", "it may be another one's still");
    files.has_started(&one);
    files.has_started(&other);
    assert_eq!((kernel.text(&one).as_str(), kernel.text(&other).as_str()), ("", "0,3"));
}

#[test]
fn where_a_stranger_has_the_cpus_others_keep_theirs_until_there_are_cpu_sets() {
    let kernel = Kernel::with(&PODS);
    let mut files = files(&kernel);
    let neighbour = "kubepods/burstable/cpuset.cpus";
    let cpu_sets: BTreeMap<String, String> = [(neighbour.to_owned(), "0,3-5".to_owned())].into();
    files.follow(&cpu_sets, false);
    kernel.files().insert(PathBuf::from("/system.slice/cpuset.cpus.exclusive"), "1".to_owned());
    let why = files.follow(&wanted(&[3, 0, 0]), false).unwrap();
    assert!(why.contains("kubepods"), "{why}");
    assert_eq!(kernel.text(neighbour), "0,3-5", "nothing is released before something else keeps CPUs apart");
    assert_eq!(files.follow(&cpu_sets, false), None);
    assert_eq!(
        (kernel.text(neighbour).as_str(), kernel.text(&format!("{}/{PARTITION}", PODS[0])).as_str()),
        ("0,3-5", "member")
    );
}

#[test]
fn no_cpu_is_two_containers_while_sets_move() {
    let group = |name: &str| format!("kubepods/burstable/{name}/{CPUS}");
    let sets = |strict: &str, other: &str, rest: &str| -> BTreeMap<String, String> {
        [("podb", other), ("podc", strict), ("podd", rest)].map(|(name, cpus)| (group(name), cpus.to_owned())).into()
    };
    let kernel = Kernel::with(&["kubepods/burstable/podb", "kubepods/burstable/podc", "kubepods/burstable/podd"]);
    let mut files = files(&kernel);
    for step in [
        sets("0", "1-2", "3-5"),
        sets("1", "2-3", "0,4-5"),
        sets("3-4", "1-2", "0,5"),
        sets("5", "1-2", "0,3-4"),
        sets("3", "5", "0,4"),
        sets("5", "1-2", "0,4"),
    ] {
        files.medium = Box::new(Watched { kernel: kernel.clone(), apart: !kernel.text(&group("podc")).is_empty() });
        assert_eq!(files.follow(&step, false), None);
        for (file, text) in &step {
            assert_eq!(&kernel.text(file), text);
        }
    }
}

/// A kernel on which CPU sets are apart after each write, once they were.
#[derive(Debug)]
struct Watched {
    kernel: Kernel,
    apart: bool,
}

impl Medium for Watched {
    fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
        self.kernel.read(place)
    }

    fn write(&mut self, place: &Place, value: &Value) -> Result<Written, LinuxError> {
        let written = self.kernel.write(place, value);
        let files = self.kernel.files();
        let sets: Vec<CpuSet> =
            files.iter().filter(|it| it.0.ends_with(CPUS)).map(|it| it.1.parse().unwrap()).collect();
        let (sum, all) = sets.iter().fold((0, CpuSet::EMPTY), |(sum, all), set| (sum + set.len(), all.union(set)));
        assert!(!self.apart || sum == all.len(), "{files:?}");
        written
    }
}
