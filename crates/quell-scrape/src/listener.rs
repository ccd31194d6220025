//! The owner of the socket that answers at an address of this machine.
//!
//! While a service is down any user may listen on its port, and its latency steers policies. So the listening socket has to be
//! root's or of a user of the workload's processes; /proc/net/tcp and tcp6 name each socket's user.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// Bytes of a table of sockets that are read at most. Those that listen come first in it.
const LONGEST: u64 = 4 * 1024 * 1024;
/// State of a socket that listens (TCP_LISTEN).
const LISTENS: &str = "0A";

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// Its user.
    pub uid: u32,
    /// Its number; another socket has another one while this one is there.
    pub inode: u64,
}

/// Is this an address of this machine? The kernel reaches one from itself; one that it cannot reach is none.
///
/// # Errors
/// If there is no socket to ask with.
pub fn is_local(address: SocketAddr) -> io::Result<bool> {
    let any: SocketAddr = match address.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    if address.ip().is_loopback() {
        return Ok(true);
    }
    let socket = UdpSocket::bind(any)?;
    // Sends nothing.
    if socket.connect(address).is_err() {
        return Ok(false);
    }
    Ok(socket.local_addr()?.ip() == address.ip())
}

/// The sockets that take connections to this address of this machine, from the tables in this directory.
///
/// # Errors
/// If a table cannot be read; a machine without IPv6 has one table.
pub fn at(address: SocketAddr, net: &Path) -> io::Result<BTreeSet<Listener>> {
    let mut found = BTreeSet::new();
    for (name, must_be) in [("tcp", true), ("tcp6", false)] {
        let table = match File::open(net.join(name)) {
            Ok(table) => table,
            Err(error) if !must_be && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(table.take(LONGEST)).lines().skip(1) {
            let Some((local, listener)) = listening(&line?) else { break };
            if local.port() == address.port() && takes(local.ip(), address.ip()) {
                found.insert(listener);
            }
        }
    }
    Ok(found)
}

/// Does a socket bound to the first take connections to the second? One of all IPv6 addresses mostly takes those to IPv4 too.
fn takes(bound: IpAddr, to: IpAddr) -> bool {
    let bound = bound.to_canonical();
    bound == to.to_canonical() || bound.is_unspecified() && (bound.is_ipv6() || to.is_ipv4())
}

/// A line of a table of sockets, if its socket listens.
fn listening(line: &str) -> Option<(SocketAddr, Listener)> {
    let mut fields = line.split_ascii_whitespace();
    let (ip, port) = fields.nth(1)?.split_once(':')?;
    let state = fields.nth(1)?;
    let uid = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    let address = SocketAddr::new(ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
    (state == LISTENS).then_some((address, Listener { uid, inode }))
}

/// An address as the tables have it: words of 32 bits in the machine's order, each as a hexadecimal number.
fn ip_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            Some(IpAddr::from(bytes))
        }
        _ => None,
    }
}

/// The reason why what such sockets answer is not believed; None: it is. `users`: those of the workload's processes, asked for
/// where a socket is not root's.
pub fn objection(found: &BTreeSet<Listener>, users: impl FnOnce() -> BTreeSet<u32>) -> Option<String> {
    if found.is_empty() {
        return Some("no process of this machine listens there".to_owned());
    }
    let mut strangers = found.iter().map(|listener| listener.uid).filter(|uid| *uid != 0).peekable();
    strangers.peek()?;
    let users = users();
    let stranger = strangers.find(|uid| !users.contains(uid))?;
    Some(format!(
        "the user {} listens there, and no process of the workload is that user's; its answer is not believed",
        quell_linux::user_name(stranger)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_sockets_that_listen_at_an_address_are_found_with_their_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let net = Path::new("/proc/self/net");
        let found = at(address, net).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(found.iter().map(|listener| listener.uid).collect::<Vec<_>>(), [own]);
        drop(listener);
        assert!(at(address, net).unwrap().is_empty());
        let all = TcpListener::bind("0.0.0.0:0").unwrap();
        let through = SocketAddr::new(address.ip(), all.local_addr().unwrap().port());
        assert_eq!(at(through, net).unwrap().len(), 1);
    }

    #[test]
    fn tables_are_read_up_to_the_last_socket_that_listens() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let line = |local: &str, state: &str, uid: u32, inode: u64| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:>5}        0 {inode} 1 0\n"
            )
        };
        let directory = tempfile::tempdir().unwrap();
        let ip = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (own, other) = (format!("{}:2390", ip([127, 0, 0, 1])), format!("{}:2390", ip([127, 0, 0, 2])));
        let tcp = [
            head.into(),
            line(&other, "0A", 7, 1),
            line(&own, "0A", 33, 2),
            line(&own, "01", 0, 3),
            line(&own, "0A", 9, 4),
        ];
        std::fs::write(directory.path().join("tcp"), tcp.concat()).unwrap();
        let address: SocketAddr = "127.0.0.1:9104".parse().unwrap();
        assert_eq!(at(address, directory.path()).unwrap(), [Listener { uid: 33, inode: 2 }].into());
        let any = format!("{}:2390", "0".repeat(32));
        std::fs::write(directory.path().join("tcp6"), [head.into(), line(&any, "0A", 65534, 5)].concat()).unwrap();
        assert_eq!(at(address, directory.path()).unwrap().len(), 2, "it takes IPv4, too");
        let six: SocketAddr = "[::1]:9104".parse().unwrap();
        assert_eq!(at(six, directory.path()).unwrap(), [Listener { uid: 65534, inode: 5 }].into());
    }

    #[test]
    fn only_root_and_the_workloads_user_are_believed() {
        let listeners = |uids: &[u32]| uids.iter().map(|&uid| Listener { uid, inode: u64::from(uid) }).collect();
        let users = || BTreeSet::from([33]);
        assert_eq!(objection(&listeners(&[0]), || panic!("it is not asked for")), None);
        assert_eq!(objection(&listeners(&[33]), users), None);
        assert!(objection(&listeners(&[33, 4_000_000]), users).unwrap().contains("the user 4000000 listens"));
        assert!(objection(&listeners(&[]), users).unwrap().contains("no process"));
    }

    #[test]
    fn an_address_of_this_machine_is_local() {
        for (address, local) in
            [("127.0.0.1:1", true), ("127.8.9.1:1", true), ("[::1]:1", true), ("192.0.2.1:1", false)]
        {
            assert_eq!(is_local(address.parse().unwrap()).unwrap(), local, "{address}");
        }
    }
}
