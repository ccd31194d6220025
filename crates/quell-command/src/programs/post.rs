//! Posting the latencies of a load to a running agent, once a second, as a service would.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use quell_agent::api::Client;
use quell_agent::api::wire::{Accepted, Histogram, Status};
use quell_bench::load::Live;
use quell_thread::clock;

/// A histogram is posted this often.
const EVERY: Duration = Duration::from_secs(1);
/// Interval of checks for the end of the load.
const NAP: Duration = Duration::from_millis(20);

/// Posts one workload's latency.
pub struct Poster {
    client: Client,
    workload: String,
}

impl Poster {
    /// Asks the agent if it has the workload.
    ///
    /// # Errors
    /// If no agent answers, or it has no such workload.
    pub fn new(client: Client, workload: &str) -> Result<Poster> {
        let status: Status = client.get("/v1/status")?;
        if !status.workloads.iter().any(|known| known.name == workload) {
            let known: Vec<&str> = status.workloads.iter().map(|workload| workload.name.as_str()).collect();
            match known[..] {
                [] => bail!("--post {workload}: the agent has no workload yet; wait until it has found one"),
                _ => bail!("--post {workload}: the agent has no such workload; it has: {}", known.join(", ")),
            }
        }
        Ok(Poster { client, workload: workload.to_owned() })
    }

    /// Posts the content of `live`, once a second and at the end, until `ended`. Returns a line with the result.
    pub fn post_until(&self, live: &Live, ended: &AtomicBool) -> String {
        let (mut posted, mut failed, mut why) = (0, 0, None);
        let mut since = Instant::now();
        loop {
            let is_last = ended.load(Relaxed);
            let window = since.elapsed();
            if window >= EVERY || is_last {
                since = Instant::now();
                let buckets = live.take();
                if !buckets.is_empty() {
                    match self.post(buckets, window) {
                        Ok(()) => posted += 1,
                        Err(error) => {
                            failed += 1;
                            why = Some(error);
                        }
                    }
                }
            }
            if is_last {
                break;
            }
            thread::sleep(NAP);
        }
        let trouble = why.map_or(String::new(), |why| format!("; {failed} were not taken: {why:#}"));
        format!("posted {posted} histograms of {}'s latency to the agent{trouble}", self.workload)
    }

    fn post(&self, buckets: Vec<(u64, u64)>, window: Duration) -> Result<()> {
        let histogram = Histogram {
            workload: self.workload.clone(),
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            ended_ns: Some(clock::now().0),
            buckets,
        };
        let _: Accepted = self.client.post("/v1/histogram", &histogram)?;
        Ok(())
    }
}
