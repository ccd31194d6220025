//! Values that are not what was set.

use std::collections::HashMap;

use quell_model::WorkloadId;

use super::LinuxHost;
use crate::write::{Place, Value};

/// A place whose present value is not the wanted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The workload that the value is for.
    pub workload: Option<WorkloadId>,
    /// The place.
    pub place: Place,
    /// The value that a policy or a limit asks for.
    pub wanted: Value,
    /// The present value.
    pub found: Value,
    /// Had the place the wanted value before? False: the system refused it so far.
    pub stood: bool,
}

impl LinuxHost {
    /// Reads back every value that is set on the workloads, and returns those that are not as they should be. What a policy
    /// has let go of is left out, and so is a pause, which acts a little after it was asked for.
    pub fn differences(&mut self) -> Vec<Difference> {
        let all: Vec<WorkloadId> = self.members.workloads().map(|(id, _)| id).collect();
        let mut found = Vec::new();
        if !self.compare(&all, &mut found) {
            // One workload's cgroup is gone, say: the others are compared all the same.
            for id in &all {
                if !self.compare(&[*id], &mut found) {
                    self.compare_writes(*id, &mut found);
                }
            }
        }
        self.compare_sessions(&mut found);
        found
    }

    fn compare_sessions(&mut self, into: &mut Vec<Difference>) {
        for touched in self.writes.ledger.latest_first_of(|touched| matches!(touched.place, Place::Autogroup(_))) {
            let Ok(Some(found)) = self.writes.medium.read(&touched.place) else { continue };
            if touched.last != touched.origin && found != touched.last {
                let (workload, place, wanted) = (touched.workload, touched.place, touched.last);
                into.push(Difference { workload, place, wanted, found, stood: true });
            }
        }
    }

    /// Compares with the writes that would make these workloads' values true; false if those cannot be known.
    fn compare(&mut self, ids: &[WorkloadId], into: &mut Vec<Difference>) -> bool {
        let Ok(writes) = self.compile(ids, None, false) else { return false };
        // A CPU set may be written several times on its way.
        let mut at: HashMap<Place, usize> = HashMap::new();
        let first = into.len();
        for write in writes {
            if let Some(&known) = at.get(&write.place) {
                let known: &mut Difference = &mut into[known];
                known.wanted = write.after;
                continue;
            }
            at.insert(write.place.clone(), into.len());
            let stood = !write.workload.is_some_and(|id| self.due.workloads.contains(&id));
            let (workload, place, wanted, found) = (write.workload, write.place, write.after, write.before);
            into.push(Difference { workload, place, wanted, found, stood });
        }
        let ledger = &self.writes.ledger;
        let counts = |difference: &Difference| {
            let stands = difference.wanted.is_still(&difference.found);
            // A thread that Quell has let go of may do with itself what it likes.
            let is_let_go =
                is_of_thread(&difference.place) && ledger.origin(&difference.place) == Some(&difference.wanted);
            !(stands || is_let_go || matches!(difference.place, Place::Stopped(_)))
        };
        let kept: Vec<Difference> = into.drain(first..).filter(counts).collect();
        into.extend(kept);
        true
    }

    /// Compares with the writes so far.
    fn compare_writes(&mut self, id: WorkloadId, into: &mut Vec<Difference>) {
        for touched in self.writes.ledger.latest_first_of(|touched| touched.workload == Some(id)) {
            let is_set = touched.last != touched.origin && !matches!(touched.place, Place::Stopped(_));
            let Ok(Some(found)) = self.writes.medium.read(&touched.place) else { continue };
            if is_set && !touched.last.is_still(&found) {
                let (workload, place, wanted) = (touched.workload, touched.place, touched.last);
                into.push(Difference { workload, place, wanted, found, stood: true });
            }
        }
    }
}

fn is_of_thread(place: &Place) -> bool {
    matches!(place, Place::Affinity(_) | Place::Class(_))
}

#[cfg(test)]
mod tests {
    use quell_model::{
        Class, CpuCount, Knob, KnobSetting, Plan, SchedClass, Selector, Target, ThreadId, Topology, View, Workload,
    };
    use quell_model::{Host, SignalSet};

    use super::*;
    use crate::HostOptions;
    use crate::sched::ThreadClass;
    use crate::testkit::FakeTree;

    const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };

    fn host(tree: &FakeTree) -> (LinuxHost, WorkloadId) {
        let mut host = tree.host(HostOptions::default()).unwrap();
        let selectors = vec![Selector::Pid(10)];
        let spec = Workload { selectors, ..Workload::new("web", Class::LatencyCritical, CpuCount::whole(1)) };
        let id = host.attach(spec).unwrap();
        let (mut view, mut events) = (View::new(host.topology()), Vec::new());
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
        (host, id)
    }

    fn set(host: &mut LinuxHost, id: WorkloadId, knob: Knob) {
        let mut plan = Plan::default();
        plan.knobs.push(KnobSetting { target: Target::Workload(id), knob });
        host.apply(&plan, &mut Vec::new()).unwrap();
    }

    #[test]
    fn what_another_program_changed_is_read_back_and_what_was_let_go_of_is_not() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.process(10, 1, "work");
        let (mut host, id) = host(&tree);
        assert_eq!(host.differences(), []);
        set(&mut host, id, Knob::Class(FIFO));
        assert_eq!(host.differences(), [], "it stands");
        let thread = ThreadId { tid: 10, start: host.members.thread(10).unwrap().id.start };
        let place = Place::Class(thread);
        let other = Value::Class(ThreadClass::of(SchedClass::NORMAL));
        host.writes.medium.write(&place, &other).unwrap();
        let found = host.differences();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].place, &found[0].found, found[0].workload), (&place, &other, Some(id)));
        assert!(found[0].stood && found[0].wanted.to_string().contains("SCHED_FIFO 1"), "{found:?}");
        set(&mut host, id, Knob::Class(SchedClass::NORMAL));
        host.writes.medium.write(&place, &Value::Class(ThreadClass::of(SchedClass::Idle))).unwrap();
        assert_eq!(host.differences(), [], "its own class is its own affair");
    }

    #[test]
    fn a_value_that_stood_already_and_went_away_is_a_difference_though_it_was_never_written() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.process(10, 1, "work");
        let (mut host, id) = host(&tree);
        let thread = ThreadId { tid: 10, start: host.members.thread(10).unwrap().id.start };
        let place = Place::Class(thread);
        host.writes.medium.write(&place, &Value::Class(ThreadClass::of(FIFO))).unwrap();
        set(&mut host, id, Knob::Class(FIFO));
        assert!(host.touched().is_empty(), "nothing was to be written");
        host.writes.medium.write(&place, &Value::Class(ThreadClass::of(SchedClass::NORMAL))).unwrap();
        assert_eq!(host.differences().len(), 1);
    }
}
