//! What a service made of its own threads stands under a policy that gives them a class: real processes.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, Event, Host, Knob, KnobSetting, Plan, SchedClass, Selector, Target, Verdict, View, Workload,
    WorkloadId,
};

const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };
const OWN: SchedClass = SchedClass::Fifo { priority: 50 };

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        let mut command = Command::new("sleep");
        Sleeper(command.arg("60").stdin(Stdio::null()).spawn().expect("sleep is here"))
    }

    fn tid(&self) -> i32 {
        self.0.id() as i32
    }

    fn class(&self) -> ThreadClass {
        Kernel::new().unwrap().class(self.tid()).unwrap()
    }

    fn set(&self, class: SchedClass) -> std::io::Result<()> {
        Kernel::new().unwrap().set_class(self.tid(), &ThreadClass { class, reset_on_fork: false })
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn apply(host: &mut LinuxHost, id: WorkloadId, class: SchedClass) -> Verdict {
    let knobs = vec![KnobSetting { target: Target::Workload(id), knob: Knob::Class(class) }];
    let mut events = Vec::new();
    host.apply(&Plan { number: 1, knobs, ..Plan::default() }, &mut events).unwrap();
    let verdict = |event| if let Event::Outcome(outcome) = event { Some(outcome.verdict) } else { None };
    events.into_iter().find_map(verdict).expect("an outcome")
}

#[test]
fn own_real_time_and_background_threads_keep_their_classes() {
    let [plain, high, background, later] = std::array::from_fn(|_| Sleeper::start());
    background.set(SchedClass::Idle).unwrap();
    let before = plain.class().class;
    if let Err(refusal) = high.set(OWN) {
        assert_eq!(refusal.kind(), std::io::ErrorKind::PermissionDenied, "{refusal}");
        eprintln!("not tested here: no right to real-time classes");
        return;
    }
    let all = [&plain, &high, &background, &later];
    let mut workload = Workload::new("service", Class::LatencyCritical, CpuCount::whole(1));
    workload.selectors.extend(all.map(|sleeper| Selector::Pid(sleeper.tid())));
    let options = HostOptions { threads_only: true, ..HostOptions::default() };
    let mut host = LinuxHost::new(Roots::default(), options).unwrap();
    let id = host.attach(workload).unwrap();
    let (start, mut view) = (Instant::now(), View::new(host.topology()));
    while host.thread_count(id) < 4 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} threads", host.thread_count(id));
        host.observe(quell_model::SignalSet::of(&[quell_model::Signal::Threads]), &mut view, &mut Vec::new()).unwrap();
    }
    let own = ThreadClass { class: OWN, reset_on_fork: false };
    let classes = || all.map(|sleeper| sleeper.class().class);

    assert!(matches!(apply(&mut host, id, FIFO), Verdict::Applied(_)));
    assert_eq!(classes(), [FIFO, OWN, SchedClass::Idle, FIFO]);
    assert_eq!(high.class(), own, "not touched at all");
    // One that its service makes real-time meanwhile.
    later.set(OWN).unwrap();
    assert!(matches!(apply(&mut host, id, SchedClass::NORMAL), Verdict::Applied(_)));
    assert_eq!(classes(), [SchedClass::NORMAL, OWN, SchedClass::Idle, OWN]);
    // A priority above theirs leaves none behind those that it preempted before.
    let above = SchedClass::Fifo { priority: 60 };
    assert!(matches!(apply(&mut host, id, above), Verdict::Applied(_)));
    assert_eq!(classes()[..3], [above, above, SchedClass::Idle]);
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(classes()[..3], [before, OWN, SchedClass::Idle]);
    assert_eq!(high.class(), own);
}
