//! Soft interrupts of a process that packets wake, and of one that a pipe wakes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Class, CpuCount, Host, Nanos, Selector, Signal, SignalSet, Support, View, Workload};

const WANTED: SignalSet = SignalSet::of(&[Signal::SoftInterrupts]);
/// Wake-ups of each.
const COUNT: u32 = 200;
const TEXT: &[u8] = b"text\n";

/// A shell that is woken for each text, and says it.
struct Reader(Child);

impl Reader {
    fn of(input: impl Into<Stdio>) -> Reader {
        Reader(
            Command::new("sh")
                .args(["-c", "while read line; do echo $line; done"])
                .stdin(input)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    fn says_it(&mut self) {
        let mut said = [0; TEXT.len()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Soft interrupts of the process while it gets all texts; None: there is no tracing here.
fn counted(shell: &mut Reader, mut send: impl FnMut(&mut Reader)) -> Option<f64> {
    let options = HostOptions { threads_only: true, scan_interval: Nanos::from_millis(1), ..HostOptions::default() };
    let mut host = LinuxHost::new(Roots::default(), options).unwrap();
    if let Support::No { why, .. } = &host.capabilities().signals[&Signal::SoftInterrupts] {
        eprintln!("not tested here: {why}");
        return None;
    }
    let mut workload = Workload::new("shell", Class::BestEffort, CpuCount::ZERO);
    workload.selectors.push(Selector::Pid(shell.0.id() as i32));
    host.attach(workload).unwrap();
    let begun = Instant::now();
    let mut window_after = |before: Nanos| loop {
        let mut view = View::new(host.topology());
        host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
        let sample = view.workloads.soft_interrupt_rate[0];
        if sample.usable().is_some() && sample.at > before {
            return sample;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no window ended");
        thread::sleep(Duration::from_millis(5));
    };
    let before = window_after(Nanos::ZERO);
    for _ in 0..COUNT {
        // It sleeps again before the next one, mostly.
        thread::sleep(Duration::from_millis(1));
        send(shell);
        shell.says_it();
    }
    let with = window_after(before.at);
    Some(with.value * with.window.as_secs_f64())
}

/// Packets wake out of soft interrupts and count; a pipe's writer wakes by itself and does not.
pub fn packets_count_and_pipes_do_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    from.set_nodelay(true).unwrap();
    let mut reader = Reader::of(OwnedFd::from(listener.accept().unwrap().0));
    let Some(of_packets) = counted(&mut reader, |_| from.write_all(TEXT).unwrap()) else { return };
    let mut reader = Reader::of(Stdio::piped());
    let write = |shell: &mut Reader| shell.0.stdin.as_mut().unwrap().write_all(TEXT).unwrap();
    let of_pipes = counted(&mut reader, write).expect("as before");
    println!("{COUNT} packets: {of_packets:.0} soft interrupts; {COUNT} writes to a pipe: {of_pipes:.0}");
    // Timers of the kernel may wake a thread now and then; one that does not wait yet needs no waking.
    assert!(of_packets > 0.5 * f64::from(COUNT), "{of_packets}");
    assert!(of_pipes < 0.2 * f64::from(COUNT), "{of_pipes}");
}
