//! A service's latency from its own Prometheus histogram: read once a second, and the buckets of two readings subtracted.

mod counts;
mod fetch;
mod text;

use std::net::SocketAddr;
use std::time::Duration;

use quell_model::Nanos;

use crate::wire::Histogram;
use counts::Counts;

/// Time between two readings.
pub const EVERY: Duration = Duration::from_secs(1);

/// A service's histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The workload's name.
    pub workload: String,
    /// Address of the service's metrics.
    pub address: SocketAddr,
    /// The page.
    pub path: String,
    /// The histogram's name, without `_bucket`.
    pub metric: String,
}

/// Reads one service's histogram again and again.
#[derive(Debug)]
pub struct Scraper {
    source: Source,
    last: Option<(Nanos, Counts)>,
    fails: bool,
}

impl Scraper {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(source: Source) -> Scraper {
        Scraper { source, last: None, fails: false }
    }

    /// Reads it; returns the requests since the last reading, if there were some. `clock` is CLOCK_MONOTONIC. A trouble is
    /// logged when it begins and when it ends.
    pub async fn read(&mut self, clock: impl Fn() -> Nanos) -> Option<Histogram> {
        let at = clock();
        let read = match fetch::page(self.source.address, &self.source.path).await {
            Ok(page) => text::buckets(&page, &self.source.metric)
                .ok_or_else(|| format!("the page has no histogram {}", self.source.metric)),
            Err(why) => Err(why),
        };
        let Source { workload, address, path, .. } = &self.source;
        match read {
            Ok(counts) => {
                if std::mem::take(&mut self.fails) {
                    tracing::info!(%workload, "its latency is read again at http://{address}{path}");
                }
                self.since(at, counts)
            }
            Err(why) => {
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::warn!(%workload, "its latency cannot be read at http://{address}{path}: {why}");
                }
                None
            }
        }
    }

    fn since(&mut self, at: Nanos, counts: Counts) -> Option<Histogram> {
        let before = self.last.replace((at, counts));
        let (then, before) = before?;
        let buckets = self.last.as_ref()?.1.since(&before)?;
        let window_ns = (at - then).0;
        let workload = self.source.workload.clone();
        (!buckets.is_empty()).then_some(Histogram { workload, window_ns, ended_ns: Some(at.0), buckets })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection after the other with these texts.
    fn service(answers: Vec<Vec<u8>>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(&answer);
            }
        });
        address
    }

    fn page(buckets: &[u64; 3]) -> Vec<u8> {
        let [low, high, all] = buckets;
        let text =
            format!("x_bucket{{le=\"0.001\"}} {low}\nx_bucket{{le=\"0.002\"}} {high}\nx_bucket{{le=\"+Inf\"}} {all}\n");
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes()
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn source(address: SocketAddr) -> Source {
        Source { workload: "db".into(), address, path: "/metrics".into(), metric: "x".into() }
    }

    #[test]
    fn readings_become_histograms_and_a_restart_none() {
        let address = service([[5, 5, 5], [9, 9, 9], [9, 9, 9], [1, 1, 1], [1, 2, 2]].iter().map(page).collect());
        let mut scraper = Scraper::new(source(address));
        let told = run(async {
            let mut told = Vec::new();
            for at in 1..=5 {
                told.push(scraper.read(|| Nanos::from_secs(at)).await);
            }
            told
        });
        let counts: Vec<u64> =
            told.iter().map(|one| one.iter().flat_map(|one| &one.buckets).map(|bucket| bucket.1).sum()).collect();
        assert_eq!(counts, [0, 4, 0, 0, 1]);
        let last = told[4].as_ref().unwrap();
        assert_eq!((last.window_ns, last.ended_ns), (1_000_000_000, Some(5_000_000_000)));
        assert_eq!(last.buckets, [(2_000_000, 1)]);
    }

    #[test]
    fn a_service_that_answers_too_late_too_much_or_badly_says_nothing() {
        let endless = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'#'; fetch::LONGEST + 1]].concat();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let bad = [b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_vec(), b"hello".to_vec(), Vec::new(), endless];
        let address = service(bad.to_vec());
        run(async {
            for _ in 0..bad.len() {
                assert!(fetch::page(address, "/").await.is_err());
            }
            let late = fetch::page(silent.local_addr().unwrap(), "/").await.unwrap_err();
            assert!(late.contains("within 1 s"), "{late}");
            let mut scraper = Scraper::new(source(silent.local_addr().unwrap()));
            assert_eq!(scraper.read(|| Nanos(1)).await, None);
        });
    }
}
