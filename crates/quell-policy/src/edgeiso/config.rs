//! The parameters of `edgeiso`. The ranges of what it turns are the machine's ([`quell_model::Controls`]).

use std::collections::BTreeMap;

use quell_model::Nanos;

use crate::parameter::parameters;

parameters! {
    /// The parameters of `edgeiso`.
    pub struct EdgeIsoConfig {
        /// How often the scheduler looks (snu2020 Algorithm 4.1, line 24; §4.3.3: 200 ms).
        interval: Nanos = Nanos::from_millis(200), in Nanos::from_millis(1)..=Nanos::from_secs(10);
        /// A search ends at a difference of this part or less, or when a step moved it by no more (§4.3.2: "below 0.5%").
        stop: f64 = 0.005, in 0.0..=1.0;
        /// Another isolator is taken after this number of looks in a row at which another resource is the most contended
        /// (§4.3.2: three).
        mismatches: u32 = 3, in 1..=1000, unit "times";
        /// More active threads than this many a core are contention for the CPU (§4.3.1: twice the allocated cores).
        threads_per_core: f64 = 2.0, in 0.1..=1000.0, unit "threads";
        /// How long each task is profiled alone (§4.3.3: two seconds).
        solo: Nanos = Nanos::from_secs(2), in Nanos::from_millis(10)..=Nanos::from_secs(60);
        /// Several tasks are profiled in turn, this long at a time (§4.3: "fine-grained time slice"; the authors' code: 0.4 s).
        slice: Nanos = Nanos::from_millis(400), in Nanos::from_millis(10)..=Nanos::from_secs(60);
        /// How often it looks for another phase (§4.3.1: "every one second").
        phase_interval: Nanos = Nanos::from_secs(1), in Nanos::from_millis(10)..=Nanos::from_secs(60);
        /// A resource whose use differs from the solo run by more than this part of it may be in another phase (§4.3.1: 1).
        phase_change: f64 = 1.0, in 0.01..=100.0;
        /// This many times in a row it is another phase (§4.3.1: three times).
        phase_strikes: u32 = 3, in 1..=1000, unit "times";
        /// A step of the cycle quota, as part of the CPUs of the most contentious task, and the least that it keeps (the
        /// authors' code: 10 % each).
        quota_step: f64 = 0.1, in 0.01..=0.5;
        /// Is each search a trial: judged by what the victim has of it, and undone if that is nothing? (Ours: the text has none.)
        verify: bool = true;
        /// What the single latency-critical tasks are like, by workload name.
        tasks: BTreeMap<String, TaskConfig> = BTreeMap::new();
    }
    check(config) {
        let EdgeIsoConfig { solo, slice, interval, .. } = config;
        if slice > solo {
            return Err(format!("a slice of {slice} is longer than the solo run ({solo}): give a shorter slice"));
        }
        if slice < interval {
            return Err(format!("a slice of {slice} has no look within ({interval}): give a longer slice"));
        }
        Ok(())
    }
}

parameters! {
    /// One task, where it differs.
    #[derive(Copy)]
    pub struct TaskConfig {
        /// Does it run on the GPU, too? Then the GPU's frequency is no means against what it suffers.
        gpu: bool = false;
        /// The part of its speed that it may lose before it is a victim as much as others (the authors' code; not in the text).
        slack: f64 = 0.0, in 0.0..=1.0;
    }
    check(task) { Ok(()) }
}

impl EdgeIsoConfig {
    /// What a task is like.
    pub(super) fn task(&self, name: &str) -> TaskConfig {
        self.tasks.get(name).copied().unwrap_or_default()
    }
}
