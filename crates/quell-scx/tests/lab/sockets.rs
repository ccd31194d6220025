//! The age of data that no one has read.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use quell_guest::lab_tests;
use quell_model::{Class, Host, Nanos, Quality, Sample, Signal, SignalSet, WorkloadId};

use crate::support::*;

/// The server's ends of three connections.
static ENDS: [AtomicI32; 3] = [AtomicI32::new(-1), AtomicI32::new(-1), AtomicI32::new(-1)];

/// What the server does by a byte of the first connection, where it answers each when it is done.
const NOTHING: u8 = 0;
const READ_SECOND: u8 = 1;
const CLOSE_SECOND: u8 = 2;

/// The client's ends. The server's are inherited by who is born next.
fn connect() -> [TcpStream; 3] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    [0, 1, 2].map(|which| {
        let client = TcpStream::connect(address).unwrap();
        ENDS[which].store(listener.accept().unwrap().0.into_raw_fd(), Relaxed);
        client.set_nodelay(true).unwrap();
        client
    })
}

/// Reads a byte of the second and of the third connection, then obeys the first.
fn serve() {
    let [first, second, third] = [0, 1, 2].map(|which| ENDS[which].load(Relaxed));
    let read = |end: i32| {
        let mut byte = [0_u8];
        // SAFETY: one byte into a local array, from a descriptor of this process.
        let got = unsafe { libc::read(end, byte.as_mut_ptr().cast(), 1) };
        (got == 1).then_some(byte[0])
    };
    read(second);
    read(third);
    while let Some(byte) = read(first) {
        match byte {
            READ_SECOND => _ = read(second),
            // SAFETY: a descriptor of this process that no one else uses.
            CLOSE_SECOND => _ = unsafe { libc::close(second) },
            _ => {}
        }
        // SAFETY: one byte from a local array, to a descriptor of this process.
        unsafe { libc::write(first, [byte].as_ptr().cast(), 1) };
    }
}

/// Sends a byte; returns when.
fn send(to: &mut TcpStream, byte: u8) -> Nanos {
    let at = monotonic();
    to.write_all(&[byte]).unwrap();
    at
}

/// Has the server do it.
fn ask(first: &mut TcpStream, what: u8) {
    send(first, what);
    first.read_exact(&mut [0]).unwrap();
}

/// It reads nothing until it is asked to go on.
fn stop(server: &Child) {
    server.signal(libc::SIGSTOP);
    // SAFETY: a child of ours, of which nothing is asked but whether it stopped.
    unsafe { libc::waitpid(server.0, std::ptr::null_mut(), libc::WUNTRACED) };
}

fn age(machine: &mut Machine, id: WorkloadId) -> Sample<Nanos> {
    machine.host.observe(SignalSet::of(&[Signal::UnreadDelay]), &mut machine.view, &mut machine.events).unwrap();
    machine.view.workloads.unread_delay[id.index()]
}

/// Is the age that of what was sent then, and of nothing that was sent in the second half of the time since?
fn is_since(sent: Nanos, age: Sample<Nanos>) -> bool {
    let waited = age.at - sent;
    age.quality == Quality::Exact && age.value <= waited && age.value > Nanos(waited.0 / 2)
}

lab_tests! {
    mod sockets {
        machine: guest(2);

        fn the_oldest_unread_data_is_told() {
            let _first = RealTime::begin();
            let (lc_group, _be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::load();
            let (lc, be) = machine.attach_pair(2);
            age(&mut machine, lc);
            let mut clients = connect();
            let server = Child::run(Some(&lc_group), Some(1), serve);
            for end in &ENDS {
                // SAFETY: a descriptor of this process that no one else uses; the server has its own.
                unsafe { libc::close(end.load(Relaxed)) };
            }
            let [first, second, third] = &mut clients;
            send(second, NOTHING);
            send(third, NOTHING);
            ask(first, NOTHING);
            assert_eq!(age(&mut machine, lc).usable(), Some(Nanos::ZERO), "everything is read");

            stop(&server);
            let older = send(first, READ_SECOND);
            pass(100);
            send(second, NOTHING);
            pass(10);
            let seen = age(&mut machine, lc);
            assert!(is_since(older, seen), "{seen:?}, the older sent at {older:?}");
            server.signal(libc::SIGCONT);
            first.read_exact(&mut [0]).unwrap();
            assert_eq!(age(&mut machine, lc).usable(), Some(Nanos::ZERO), "both are read");

            let left = send(second, NOTHING);
            pass(100);
            let seen = age(&mut machine, lc);
            assert!(is_since(left, seen), "{seen:?}, what no one reads sent at {left:?}");
            let later = send(second, NOTHING);
            ask(first, READ_SECOND);
            pass(100);
            let seen = age(&mut machine, lc);
            assert!(is_since(later, seen), "{seen:?}, what is left sent at {later:?}");
            ask(first, CLOSE_SECOND);
            assert_eq!(age(&mut machine, lc).usable(), Some(Nanos::ZERO), "a closed socket has nothing to read");

            third.shutdown(Shutdown::Write).unwrap();
            pass(50);
            assert_eq!(age(&mut machine, lc).usable(), Some(Nanos::ZERO), "the end of a stream is nothing that waits");
            assert_eq!(age(&mut machine, be).quality, Quality::Absent, "best-effort workloads are not looked at");
        }

        fn more_sockets_than_are_remembered_make_it_an_estimate() {
            let lc_group = Group::new("lc");
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            age(&mut machine, lc);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut pairs: Vec<(TcpStream, TcpStream)> = (0..70)
                .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0))
                .collect();
            // The reader is the workload: this thread is, for a moment.
            lc_group.add(std::process::id() as i32);
            for (client, server) in &mut pairs {
                send(client, NOTHING);
                server.read_exact(&mut [0]).unwrap();
            }
            for (client, _) in &mut pairs {
                send(client, NOTHING);
            }
            pass(100);
            let seen = age(&mut machine, lc);
            assert!(seen.quality == Quality::Estimated && seen.value >= Nanos::from_millis(100), "{seen:?}");
            pairs.iter_mut().for_each(|(_, server)| server.read_exact(&mut [0]).unwrap());
            assert_eq!(age(&mut machine, lc), Sample::exact(Nanos::ZERO, machine.view.now));
            std::fs::write("/sys/fs/cgroup/cgroup.procs", std::process::id().to_string()).unwrap();
        }
    }
}
