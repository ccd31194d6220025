//! A memcached on loopback, on a free port, ended with this process.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_model::SchedClass;

use super::launch::launched;

/// Longest time until memcached answers; a guest is slow.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running memcached.
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts memcached with `threads` worker threads of this class and waits until it accepts connections.
    pub fn start(threads: u32, class: SchedClass) -> Result<Server> {
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-U", "0", "-m", "256", "-c", "1024"]);
        command.args(["-p", &port.to_string(), "-t", &threads.to_string()]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let child = launched(&mut command, class)
            .context("cannot start memcached; install it (apt-get install memcached) or run `make demo`, which does")?;
        let mut server = Server { child, address };
        let begun = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("memcached ended at once with {status}; its own message stands above");
            }
            if begun.elapsed() > START_LIMIT {
                bail!("memcached does not answer on {} after {START_LIMIT:?}", server.address);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
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
