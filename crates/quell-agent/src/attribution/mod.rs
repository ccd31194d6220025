//! What takes whose time, beside the loop: a thread of its own traces now and then (`quell_gap::attribution`) and keeps each
//! workload's account. The loop hands it what it reads anyway and takes numbers back, both through buffers without a lock; the
//! API takes what it shows.

mod accounts;
mod exchange;
mod shown;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use quell_linux::LinuxHost;
use quell_model::{Nanos, Quality, Sample, View, WorkloadId};

pub use shown::Shown;

use self::exchange::{Look, Numbers};
use crate::AgentError;

/// The loop hands over what it saw at most this often.
const EVERY: Nanos = Nanos::from_millis(150);

/// The loop's end. The thread ends with it.
pub struct Attribution {
    looks: triple_buffer::Input<Look>,
    numbers: triple_buffer::Output<Numbers>,
    wants_threads: Arc<AtomicBool>,
    handed: Nanos,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attribution {
    /// Begins, for at most this part of one CPU; what is found out is shown there.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(cost: f64, shown: Shown) -> Result<Attribution, AgentError> {
        let (looks, looked) = triple_buffer::triple_buffer(&Look::default());
        let (counted, numbers) = triple_buffer::triple_buffer(&Numbers::default());
        let (stop, wants_threads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let ends = worker::Ends {
            looks: looked,
            numbers: counted,
            wants_threads: Arc::clone(&wants_threads),
            stop: Arc::clone(&stop),
            shown,
        };
        let thread = std::thread::Builder::new()
            .name("quell-attrib".into())
            .spawn(move || worker::run(cost, ends))
            .map_err(|source| AgentError::System { operation: "start the thread of attribution", source })?;
        Ok(Attribution { looks, numbers, wants_threads, handed: Nanos::ZERO, stop, thread: Some(thread) })
    }

    /// After a turn: hands over what was read, and takes the numbers.
    pub fn turned(&mut self, view: &View, host: &mut LinuxHost) {
        let measured = view.workloads.run_delay.len() == view.workloads.spec.len();
        let wants = self.wants_threads.load(Ordering::Acquire);
        if measured && (wants || view.now >= self.handed + EVERY) {
            self.handed = view.now;
            self.wants_threads.store(false, Ordering::Release);
            self.looks.input_buffer_mut().take(view, wants.then(|| host.threads()));
            self.looks.publish();
        }
        if self.numbers.update() {
            let numbers = self.numbers.output_buffer();
            let sample = |value| Sample { quality: Quality::Estimated, ..Sample::exact(value, numbers.at) };
            host.feed_attribution_cost(sample(numbers.cost));
            for (slot, (spec, for_others)) in numbers.waited.iter().enumerate() {
                let known = view.workloads.spec.get(slot).and_then(Option::as_ref);
                if let (Some(known), Some(spec)) = (known, spec)
                    && Arc::ptr_eq(known, spec)
                {
                    // It may have been detached since.
                    let _ = host.feed_waited(WorkloadId(slot as u32), sample(*for_others));
                }
            }
        }
    }
}

impl Drop for Attribution {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
