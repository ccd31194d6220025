//! A memcached or redis on loopback, on a free port, ended with this process.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_bench::load::Protocol;
use quell_model::SchedClass;

use super::launch::launched;

/// Longest time until it answers; a guest is slow.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A server that can be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// memcached: any number of worker threads.
    Memcached,
    /// Redis: one thread answers, the others read and write for it. Nothing is stored on disk.
    Redis,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memcached, Self::Redis];

    /// Its name in scenes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
        }
    }

    /// Its program, and Debian's package that has it.
    pub fn program(self) -> (&'static str, &'static str) {
        match self {
            Self::Memcached => ("memcached", "memcached"),
            Self::Redis => ("redis-server", "redis-server"),
        }
    }

    /// What it speaks.
    pub fn protocol(self) -> Protocol {
        match self {
            Self::Memcached => Protocol::Memcached,
            Self::Redis => Protocol::Redis,
        }
    }

    fn arguments(self, port: u16, threads: u32) -> Vec<String> {
        let words = match self {
            Self::Memcached => format!("-l 127.0.0.1 -U 0 -m 256 -c 1024 -p {port} -t {threads}"),
            Self::Redis => format!(
                "--bind 127.0.0.1 --port {port} --appendonly no --maxmemory 256mb --loglevel warning --io-threads {threads}"
            ),
        };
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        match self {
            Self::Memcached if rustix::process::geteuid().is_root() => words.extend(["-u", "root"].map(str::to_owned)),
            Self::Memcached => {}
            Self::Redis => words.extend(["--save", ""].map(str::to_owned)),
        }
        words
    }
}

/// A running server.
pub struct Server {
    child: Child,
    kind: Kind,
    address: String,
}

impl Server {
    /// Starts one with `threads` worker threads of this class and waits until it accepts connections.
    pub fn start(kind: Kind, threads: u32, class: SchedClass) -> Result<Server> {
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        let (program, package) = kind.program();
        let mut command = Command::new(program);
        command.args(kind.arguments(port, threads));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let child = launched(&mut command, class)
            .with_context(|| format!("cannot start {program}; install it: apt-get install {package}"))?;
        let mut server = Server { child, kind, address };
        let begun = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{program} ended at once with {status}; its own message stands above");
            }
            if begun.elapsed() > START_LIMIT {
                bail!("{program} does not answer on {} after {START_LIMIT:?}", server.address);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    Ok(listener.local_addr()?.port())
}
