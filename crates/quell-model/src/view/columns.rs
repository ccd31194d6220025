//! The columns: one for each line of the table of signals, beside those that have a form of their own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::WakeUpColumns;
use crate::signal::{Value, signal_table};
use crate::{
    BytesPerSecond, CpuId, CpuSet, Nanos, Sample, SchedClass, Signal, SignalSet, ThreadId, ThreadState, Workload,
    WorkloadId,
};

macro_rules! columns {
    (
        workload { $($(#[doc = $w_doc:literal])+ $workload:ident = $w_key:ident: $w_type:ty, $($w_rest:tt),+;)* }
        cpu { $($(#[doc = $c_doc:literal])+ $cpu:ident = $c_key:ident: $c_type:ty, $($c_rest:tt),+;)* }
        machine { $($(#[doc = $m_doc:literal])+ $machine:ident = $m_key:ident: $m_type:ty, $($m_rest:tt),+;)* }
        thread { $($(#[doc = $t_doc:literal])+ $thread:ident = $t_key:ident: $t_type:ty, $($t_rest:tt),+;)* }
        other { $($other:tt)* }
    ) => {
        /// Per-workload columns. All that are filled have the length of `spec`.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct WorkloadColumns {
            /// The workload in each slot; None: the slot is free.
            pub spec: Vec<Option<Arc<Workload>>>,
            $($(#[doc = $w_doc])+ pub $w_key: Vec<Sample<$w_type>>,)*
        }

        /// Per-CPU columns. All that are filled have the length [`crate::Topology::columns`].
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct CpuColumns {
            /// CPUs that are online.
            pub online: CpuSet,
            /// CPUs that the kernel keeps free of what does not ask for them. They are in no pool unless they are named.
            pub isolated: CpuSet,
            /// Granted CPUs on which nothing runs: their workload yielded, or no workload has them.
            pub idle: CpuSet,
            /// CPUs that a sibling ban parks.
            pub banned: CpuSet,
            /// CPUs that a thread of a higher scheduling class has: no policy hands them out until it sleeps.
            pub away: CpuSet,
            /// The workload that a CPU is granted to; None once it yielded.
            pub holder: Vec<Option<WorkloadId>>,
            $($(#[doc = $c_doc])+ pub $c_key: Vec<Sample<$c_type>>,)*
        }

        /// Measurements of the whole machine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct MachineSamples {
            $($(#[doc = $m_doc])+ pub $m_key: Sample<$m_type>,)*
        }

        /// Per-thread columns, all of one length, read at the same time.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct ThreadColumns {
            /// Time of the reading.
            pub at: Nanos,
            /// The thread.
            pub id: Vec<ThreadId>,
            /// The workload that it belongs to.
            pub workload: Vec<WorkloadId>,
            /// Its state.
            pub state: Vec<ThreadState>,
            /// The CPU that it runs on or ran on last.
            pub cpu: Vec<CpuId>,
            /// CPU time used since its creation.
            pub run_time: Vec<Nanos>,
            /// Time for which it was runnable without running, since its creation.
            pub run_delay: Vec<Nanos>,
            /// Its scheduling class at the moment.
            pub class: Vec<SchedClass>,
            $($(#[doc = $t_doc])+ #[doc = "None: it is not traced. Empty unless wanted."]
            pub $t_key: Vec<Option<$t_type>>,)*
            /// Wake-ups by waker and woken thread. Empty unless wanted.
            pub wake_ups: WakeUpColumns,
        }

        sampled!(WorkloadColumns { spec }, $($workload = $w_key,)*);
        sampled!(CpuColumns { online, isolated, idle, banned, away, holder }, $($cpu = $c_key,)*);

        impl MachineSamples {
            /// A signal as a number in its unit; absent if it is not of the machine.
            #[must_use]
            pub fn number(&self, signal: Signal) -> Sample<f64> {
                match signal {
                    $(Signal::$machine => self.$m_key.map(Value::number),)*
                    _ => Sample::default(),
                }
            }

            /// Puts a number in the signal's unit in its place; of signals that are not of the machine nothing.
            pub fn put(&mut self, signal: Signal, sample: Sample<f64>) {
                match signal {
                    $(Signal::$machine => self.$m_key = sample.map(Value::nearest),)*
                    _ => {}
                }
            }
        }

        impl ThreadColumns {
            pub(super) fn copy_from(&mut self, other: &ThreadColumns) {
                let ThreadColumns {
                    at, id, workload, state, cpu, run_time, run_delay, class, $($t_key,)* wake_ups,
                } = other;
                self.at = *at;
                self.id.clone_from(id);
                self.workload.clone_from(workload);
                self.state.clone_from(state);
                self.cpu.clone_from(cpu);
                self.run_time.clone_from(run_time);
                self.run_delay.clone_from(run_delay);
                self.class.clone_from(class);
                $(self.$t_key.clone_from($t_key);)*
                self.wake_ups.copy_from(wake_ups);
            }

            /// Empties every column and keeps its memory.
            pub fn clear(&mut self) {
                self.id.clear();
                self.workload.clear();
                self.state.clear();
                self.cpu.clear();
                self.run_time.clear();
                self.run_delay.clear();
                self.class.clear();
                $(self.$t_key.clear();)*
                self.wake_ups.clear();
            }

            /// The lengths of the columns that are filled only if wanted.
            pub fn lengths(&self) -> impl Iterator<Item = (Signal, usize)> {
                [$((Signal::$thread, self.$t_key.len()),)*].into_iter()
            }

            /// A signal of the thread in a row as a number; None if it is not of threads or not known.
            #[must_use]
            pub fn number(&self, signal: Signal, row: usize) -> Option<f64> {
                match signal {
                    $(Signal::$thread => self.$t_key.get(row).copied().flatten().map(Value::number),)*
                    _ => None,
                }
            }

            /// Appends to a signal's column.
            pub fn push(&mut self, signal: Signal, value: Option<f64>) {
                match signal {
                    $(Signal::$thread => self.$t_key.push(value.map(Value::nearest)),)*
                    _ => {}
                }
            }
        }
    };
}

/// Common operations on columns of samples.
macro_rules! sampled {
    ($columns:ident { $($fixed:ident),* }, $($signal:ident = $key:ident,)*) => {
        impl $columns {
            pub(super) fn copy_from(&mut self, other: &$columns) {
                let $columns { $($fixed,)* $($key,)* } = other;
                $(self.$fixed.clone_from($fixed);)*
                $(self.$key.clone_from($key);)*
            }

            /// Every column of a wanted signal has `rows` absent samples, every other none. Memory is kept.
            pub(super) fn blank(&mut self, wanted: SignalSet, rows: usize) {
                $(
                    self.$key.clear();
                    if wanted.contains(Signal::$signal) {
                        self.$key.resize(rows, Sample::default());
                    }
                )*
            }

            /// The lengths of the columns of signals.
            pub fn lengths(&self) -> impl Iterator<Item = (Signal, usize)> {
                [$((Signal::$signal, self.$key.len()),)*].into_iter()
            }

            /// A signal as a number in its unit; absent if it has no column here or was not asked for.
            #[must_use]
            pub fn number(&self, signal: Signal, row: usize) -> Sample<f64> {
                match signal {
                    $(Signal::$signal => super::at(&self.$key, row).map(Value::number),)*
                    _ => Sample::default(),
                }
            }

            /// Gives a signal's column these numbers in its unit; signals without a column here are left alone.
            pub fn fill(&mut self, signal: Signal, samples: impl Iterator<Item = Sample<f64>>) {
                match signal {
                    $(Signal::$signal => {
                        self.$key.clear();
                        self.$key.extend(samples.map(|sample| sample.map(Value::nearest)));
                    })*
                    _ => {}
                }
            }

            /// Puts a number in the signal's unit into an existing row; a signal without a column here is ignored.
            pub fn put(&mut self, signal: Signal, row: usize, sample: Sample<f64>) {
                match signal {
                    $(Signal::$signal => {
                        if let Some(place) = self.$key.get_mut(row) {
                            *place = sample.map(Value::nearest);
                        }
                    })*
                    _ => {}
                }
            }
        }
    };
}

signal_table!(columns);

impl ThreadColumns {
    /// Number of threads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Is there no thread?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }
}
