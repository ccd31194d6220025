//! A service's latency from its own Prometheus histogram: read once a second, and the buckets of two readings subtracted. And the
//! other way, a body for a collector.

mod counts;
mod fetch;
mod listener;
pub mod push;
mod text;
mod unit;

use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use quell_linux::Roots;
use quell_model::{Nanos, Selector};
use thiserror::Error;

pub use counts::Counts;
pub use unit::Unit;

use text::Fault;

/// Time between two readings.
pub const EVERY: Duration = Duration::from_secs(1);
/// The users of a workload's processes are looked up once in this time, while the same sockets listen.
const TRUSTED_FOR: Duration = Duration::from_secs(60);

/// A service's histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The workload's name.
    pub workload: String,
    /// Its processes: the listener is to be of a user of theirs.
    pub selectors: Vec<Selector>,
    /// Address of the service's metrics.
    pub address: SocketAddr,
    /// The page.
    pub path: String,
    /// The histogram's name, without `_bucket`.
    pub metric: String,
    /// The unit of its bounds.
    pub unit: Unit,
}

/// The requests between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The workload's name.
    pub workload: String,
    /// Time between the readings.
    pub window: Nanos,
    /// The second reading, on CLOCK_MONOTONIC.
    pub ended: Nanos,
    /// The requests up to each bound.
    pub counts: Counts,
}

/// A latency cannot be read now.
#[derive(Clone, Debug, Error)]
pub enum Trouble {
    /// The page.
    #[error("{0}")]
    Page(String),
    /// The socket is another user's.
    #[error("{0}")]
    Listener(String),
    /// No such histogram.
    #[error("the page has no histogram {0}")]
    Missing(String),
    /// No sum can be made.
    #[error(
        "the label sets of {metric} have unlike bounds and cannot be added: {one} bounds, {other}; let the service use the \
         same bounds for all, or name a histogram of one label set"
    )]
    Unlike {
        /// The histogram.
        metric: String,
        /// A label set, and how many bounds it has.
        one: String,
        /// Another one.
        other: String,
    },
}

/// Reads one service's histogram again and again.
#[derive(Debug)]
pub struct Scraper {
    source: Source,
    last: Option<(Nanos, Counts)>,
    /// Kinds of trouble that were logged since it was last read.
    said: Vec<Discriminant<Trouble>>,
    /// Was it said that the address is another machine's?
    is_remote: bool,
    /// The sockets that were believed last, and when that was looked up.
    trusted: Option<(BTreeSet<listener::Listener>, Instant)>,
}

impl Scraper {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(source: Source) -> Scraper {
        Scraper { source, last: None, said: Vec::new(), is_remote: false, trusted: None }
    }

    /// Reads it; returns the requests since the last reading, if there were some. `clock` is CLOCK_MONOTONIC. A trouble is
    /// logged when it begins and when it ends.
    pub async fn read(&mut self, clock: impl Fn() -> Nanos) -> Option<Reading> {
        let at = clock();
        let read = self.counts().await;
        let Source { workload, address, path, .. } = &self.source;
        match read {
            Ok(counts) => {
                if !std::mem::take(&mut self.said).is_empty() {
                    tracing::info!(%workload, "its latency is read again at http://{address}{path}");
                }
                self.since(at, counts)
            }
            Err(trouble) => {
                let kind = discriminant(&trouble);
                if !self.said.contains(&kind) {
                    self.said.push(kind);
                    tracing::warn!(%workload, "its latency cannot be read at http://{address}{path}: {trouble}");
                }
                None
            }
        }
    }

    /// All requests that the page counts now.
    ///
    /// # Errors
    /// If there is no such page or histogram, or what listens there is not believed.
    pub async fn counts(&mut self) -> Result<Counts, Trouble> {
        let before = self.believed().await?;
        let page = fetch::page(self.source.address, &self.source.path).await.map_err(Trouble::Page)?;
        // The answer is of a socket that was there before and after.
        if self.believed().await? != before {
            return Err(Trouble::Listener("another socket listens there since it was asked".to_owned()));
        }
        let metric = self.source.metric.clone();
        text::buckets(&page, &metric, self.source.unit).map_err(|fault| match fault {
            Fault::Missing => Trouble::Missing(metric),
            Fault::Unlike(one, other) => Trouble::Unlike { metric, one, other },
        })
    }

    /// The sockets that answer, if they may be believed; none where the address is another machine's.
    async fn believed(&mut self) -> Result<BTreeSet<listener::Listener>, Trouble> {
        let Source { workload, address, selectors, .. } = &self.source;
        let cannot = |error| Trouble::Listener(format!("the user that listens there is not known: {error}"));
        // Asked each time: an address may become this machine's later.
        if !listener::is_local(*address).map_err(cannot)? {
            if !std::mem::replace(&mut self.is_remote, true) {
                tracing::info!(
                    %workload,
                    "its latency is read at {address}, which is not of this machine: the user that answers is not checked"
                );
            }
            return Ok(BTreeSet::new());
        }
        let trusted = self.trusted.as_ref().filter(|(_, at)| at.elapsed() < TRUSTED_FOR);
        let trusted = trusted.map(|(sockets, _)| sockets.clone());
        let (address, selectors) = (*address, selectors.clone());
        let look = move || {
            let found = listener::at(address, Path::new("/proc/self/net")).map_err(cannot)?;
            if trusted.is_some_and(|trusted| trusted == found) {
                return Ok((found, false));
            }
            let users = || {
                let mut users = quell_linux::users_of(&Roots::default(), &selectors).unwrap_or_default();
                users.insert(rustix::process::geteuid().as_raw());
                users
            };
            match listener::objection(&found, users) {
                Some(why) => Err(Trouble::Listener(why)),
                None => Ok((found, true)),
            }
        };
        let looked = tokio::task::spawn_blocking(look).await;
        let (found, is_new) = looked.unwrap_or_else(|error| Err(Trouble::Listener(error.to_string())))?;
        if is_new {
            self.trusted = Some((found.clone(), Instant::now()));
        }
        Ok(found)
    }

    fn since(&mut self, at: Nanos, counts: Counts) -> Option<Reading> {
        let before = self.last.replace((at, counts));
        let (then, before) = before?;
        let counts = self.last.as_ref()?.1.since(&before)?;
        let workload = self.source.workload.clone();
        (counts.requests() > 0).then_some(Reading { workload, window: at - then, ended: at, counts })
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
            // It goes on listening.
            std::mem::forget(listener);
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
        let (selectors, unit) = (Vec::new(), Unit::Seconds);
        Source { workload: "db".into(), selectors, address, path: "/metrics".into(), metric: "x".into(), unit }
    }

    #[test]
    fn readings_become_histograms_and_a_restart_none() {
        let address = service([[5, 5, 5], [9, 9, 9], [9, 9, 9], [1, 1, 1], [1, 2, 2]].iter().map(page).collect());
        let mut scraper = Scraper::new(source(address));
        let readings = run(async {
            let mut readings = Vec::new();
            for at in 1..=5 {
                readings.push(scraper.read(|| Nanos::from_secs(at)).await);
            }
            readings
        });
        let counts: Vec<u64> = readings.iter().map(|one| one.as_ref().map_or(0, |one| one.counts.requests())).collect();
        assert_eq!(counts, [0, 4, 0, 0, 1]);
        let last = readings[4].as_ref().unwrap();
        assert_eq!((last.window, last.ended), (Nanos::from_secs(1), Nanos::from_secs(5)));
        assert_eq!(last.counts.quantile(0.99), Some(Nanos(1_990_000)));
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
