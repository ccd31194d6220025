//! Boots a machine, runs a command in it, and removes everything again.
//!
//! Nothing is written to the disk: the initial file system is anonymous memory, everything else goes through pipes and
//! sockets, and the kernel kills QEMU when this process dies, however it dies.

mod command;
mod input;
mod memory;
mod native;
mod once_more;
mod process;
mod pump;
mod verdict;

pub use native::native;

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::{LabError, Result};
use crate::image::{Image, Pack};
use crate::machine::{self, Accelerator, Input, Machine, Root, Wiring, fd};
use crate::{Busybox, Cache, Kernel, Progress, Qemu, Virtiofsd, breakpoints, counts, lockstep};
use memory::{check_memory, host_memory_mib, memory_mib};
use once_more::{Watched, once_more};
use process::{Process, connect_virtiofsd, pipe};
use pump::{Channels, Pump, Signals};

/// A command to run in the guest.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program and arguments; the program is looked up in `$PATH` here, or is one of busybox's commands.
    pub command: Vec<OsString>,
    /// Environment beside `PATH` and `HOME`.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub directory: PathBuf,
    /// Wall-clock time after which the guest is taken down.
    pub timeout: Option<Duration>,
    /// Its input.
    pub input: Input,
}

impl Job {
    /// The command in the current directory, without a time-out.
    pub fn new<S: Into<OsString>>(command: impl IntoIterator<Item = S>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            timeout: None,
            input: Input::Nothing,
        }
    }
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Its exit status, as a shell sees it: 128 + signal if it was killed.
    pub status: u8,
    /// Wall-clock time from starting QEMU to the end.
    pub wall: Duration,
}

/// A command that ended, and its output.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its end.
    pub ending: Ending,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its error output.
    pub stderr: Vec<u8>,
    /// Instructions between two marks, for [`Counts::parse`](counts::Counts::parse); empty where they are not counted.
    pub counts: String,
}

/// Runs guests.
pub struct Lab<'a> {
    /// The cache of kernel, QEMU and the rest.
    pub cache: Cache,
    /// Notified about fetching.
    pub progress: &'a dyn Progress,
    /// Show the guest's console on the error output.
    pub show_console: bool,
    /// Let the guest shut down in order and show the lock-step plugin's counters on the error output.
    pub statistics: bool,
}

impl<'a> Lab<'a> {
    /// A lab with the user's cache.
    ///
    /// # Errors
    /// When the cache cannot be created.
    pub fn new(progress: &'a dyn Progress) -> Result<Self> {
        Ok(Self { cache: Cache::of_user()?, progress, show_console: false, statistics: false })
    }

    /// Boots `machine`, runs `job` in it; its output goes to `out` and `err` as it comes. Where the emulator broke the
    /// guest's kernel before anything came or was read, it boots once more.
    ///
    /// # Errors
    /// When the command could not be run to its end; that it failed is no error, but an [`Ending`].
    pub fn run(&self, machine: &Machine, job: &Job, out: &mut dyn Write, err: &mut dyn Write) -> Result<Ending> {
        let anything = Cell::new(false);
        let (mut out, mut err) = (Watched { to: out, anything: &anything }, Watched { to: err, anything: &anything });
        let no_input = Arc::default();
        once_more(
            self.progress,
            once_more::count,
            || self.boot(machine, job, &no_input, &mut out, &mut err).map(|(ending, _)| ending),
            // Input can be read only once.
            || no_input.load(Ordering::Acquire) && !anything.get(),
        )
    }

    /// As [`Lab::run`], with the output when the command has ended. If the emulator broke the guest's kernel, it boots
    /// once more.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub fn output(&self, machine: &Machine, job: &Job) -> Result<Output> {
        let boot = || {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let ending = self.boot(machine, job, &Arc::default(), &mut stdout, &mut stderr);
            let (ending, counts) = ending.map_err(|error| verdict::with_the_last(error, &stdout))?;
            Ok(Output { ending, stdout, stderr, counts })
        };
        once_more(self.progress, once_more::count, boot, || true)
    }

    /// How the command ended, and what the counting plugin wrote.
    fn boot(
        &self,
        machine: &Machine,
        job: &Job,
        no_input: &Arc<AtomicBool>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<(Ending, String)> {
        machine.check()?;
        check_memory(machine, host_memory_mib())?;
        job.input.check(machine)?;
        self.check_accelerator(machine)?;
        let kernel = Kernel::get(&self.cache, machine.kernel.as_deref(), self.progress)?;
        let busybox = Busybox::get(&self.cache, self.progress)?;
        let qemu = Qemu::get(&self.cache, self.progress)?;
        let (initrd, image_bytes) = initrd(machine, job, &kernel, &busybox)?;
        let memory_mib = memory_mib(machine, image_bytes)?;
        let plugin = machine.lockstep().map(|_| lockstep::plugin(&self.cache, self.progress)).transpose()?;
        let breakpoints = self.breakpoints(machine, &qemu)?;
        let counts = machine.counts.then(|| counts::plugin(&self.cache, self.progress)).transpose()?;
        let wiring = Wiring {
            vmlinux: &kernel.vmlinux(),
            kernel_arguments: &kernel.arguments(),
            memory_mib,
            plugin: plugin.as_deref(),
            breakpoints: breakpoints.as_deref(),
            counts: counts.as_deref(),
            file_request_addresses: self.file_request_addresses(machine, &kernel)?,
            host_tsc_khz: host_tsc_khz(),
            statistics: self.statistics,
            input: job.input,
        };

        // Before anything is started that a signal would have to take down.
        let signals = Signals::catch()?;
        let started = Instant::now();
        let (channels, mut ends) = channels()?;
        ends.push((initrd.into(), fd::INITRD));
        let counted = anonymous("counts")?;
        ends.push((counted.try_clone().map_err(LabError::io("share", Path::new("counts")))?.into(), fd::COUNTS));
        let input = job.input.open(&mut ends, no_input)?;
        let mut virtiofsd = None;
        if machine.root == Root::Host {
            let command = Virtiofsd::get(&self.cache, self.progress)?.command();
            let (daemon, socket) = connect_virtiofsd(command)?;
            virtiofsd = Some(daemon);
            ends.push((socket, fd::FILES));
        }
        let mut command = qemu.command();
        command.args(machine::qemu_arguments(machine, &wiring)).stdin(Stdio::null()).stdout(Stdio::null());
        let process = Process::spawn(command, ends, "qemu-system-x86")?;
        let pump = Pump {
            process,
            channels,
            signals,
            deadline: job.timeout.map(|timeout| started + timeout),
            show_console: self.show_console,
            until_shutdown: self.statistics,
        };
        let finished = pump.run(out, err);
        drop((input, virtiofsd));
        let finished = finished?;
        if self.statistics {
            let is_counters = |line: &&str| line.starts_with("lockstep: virtual") || line.starts_with("breakpoints: ");
            let counters = finished.messages.lines().filter(is_counters);
            counters.for_each(|line| eprintln!("{line}"));
        }
        if verdict::killed_for_memory(&finished) {
            self.progress.step("the guest ran out of memory and killed a process; --mem gives it more");
        }
        verdict::of(&finished, memory_mib, job.timeout, &qemu.program)
            .and_then(|status| Ok((Ending { status, wall: started.elapsed() }, text_of(counted)?)))
    }

    /// The plugin that fixes the emulation's breakpoints. They need no fixing where vCPUs take turns; a QEMU of another
    /// series has it not; and without a C compiler a guest that needs no other plugin runs on without.
    fn breakpoints(&self, machine: &Machine, qemu: &Qemu) -> Result<Option<PathBuf>> {
        let serial = machine.lockstep().is_some_and(|lockstep| lockstep.serial);
        if machine.accelerator != Accelerator::Emulation || machine.cpus == 1 || serial || !qemu.is_of_the_series()? {
            return Ok(None);
        }
        let plugin = breakpoints::plugin(&self.cache, self.progress);
        if let Err(error) = &plugin {
            self.progress.step(&format!("the guest may fail with \"Oops: int3\" now and then: {error}"));
        }
        Ok(plugin.ok())
    }

    fn check_accelerator(&self, machine: &Machine) -> Result<()> {
        let refused = |option, why: &str| Err(LabError::BadOption { option, why: why.into() });
        if machine.accelerator == Accelerator::Kvm && File::options().write(true).open("/dev/kvm").is_err() {
            return refused("--kvm", "/dev/kvm cannot be opened; omit --kvm to use emulation");
        }
        if machine.root == Root::Host && !rustix::process::geteuid().is_root() {
            return refused("--pack", "serving the host's files to the guest needs root; as a user, pack the program");
        }
        Ok(())
    }

    /// Addresses in the guest's kernel at which a request for a host file begins and ends: the plugin needs them so
    /// that time does not jump ahead while the host reads. The kernel prints its addresses once, in a first guest.
    fn file_request_addresses(&self, machine: &Machine, kernel: &Kernel) -> Result<Option<(u64, u64)>> {
        if machine.lockstep().is_none() || machine.root != Root::Host {
            return Ok(None);
        }
        let path = kernel.dir.join("kallsyms");
        if !path.exists() {
            self.progress.step("asking the kernel where its virtiofs functions are (once)");
            let mut symbols = Vec::new();
            let script = "grep -w -e virtio_fs_enqueue_req -e virtio_fs_request_complete /proc/kallsyms";
            let first = Machine { root: Root::Packed(Vec::new()), cpus: 1, ..Machine::default() };
            let first = Machine { kernel: Some(kernel.version.clone()), ..first };
            self.run(&first, &Job::new(["sh", "-c", script]), &mut symbols, &mut io::sink())?;
            fs::write(&path, symbols).map_err(LabError::io("write", &path))?;
        }
        let symbols = fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
        let address = |name: &str| {
            let line = symbols.lines().find(|line| line.split_whitespace().nth(2) == Some(name));
            let address = line.and_then(|line| u64::from_str_radix(line.split_whitespace().next()?, 16).ok());
            address.filter(|address| *address != 0).ok_or_else(|| LabError::Malformed {
                path: path.clone(),
                why: format!("it does not say where {name} is"),
            })
        };
        Ok(Some((address("virtio_fs_enqueue_req")?, address("virtio_fs_request_complete")?)))
    }
}

/// The initial file system in anonymous memory, and the number of bytes in its files.
fn initrd(machine: &Machine, job: &Job, kernel: &Kernel, busybox: &Busybox) -> Result<(File, u64)> {
    let lab = Path::new("/.lab");
    let mut pack = Pack::default();
    let program = command::resolve(job, busybox)?;
    if let Root::Packed(files) = &machine.root {
        files.iter().chain(&program).try_for_each(|file| pack.add(file))?;
        let library_cache = Path::new("/etc/ld.so.cache");
        if library_cache.exists() {
            pack.add(library_cache)?;
        }
    }
    let mut image = Image::new(io::BufWriter::new(anonymous("initrd")?));
    image.copy(&lab.join("bin/busybox"), &busybox.program)?;
    for applet in &busybox.applets {
        image.link(&lab.join("bin").join(applet), Path::new("busybox"))?;
    }
    for name in ["overlay.ko.xz", "config"] {
        let file = kernel.dir.join(name);
        if file.exists() {
            image.copy(&lab.join(name), &file)?;
        }
    }
    for module in kernel.modules()? {
        let name = module.file_name().unwrap_or_default();
        image.copy(&lab.join("modules").join(name), &module)?;
    }
    image.file(Path::new("/init"), 0o755, include_bytes!("../guest/init.sh"))?;
    image.file(&lab.join("session"), 0o644, include_bytes!("../guest/session.sh"))?;
    image.file(
        &lab.join("command"),
        0o644,
        command::script(job, program.as_deref(), &machine.root).as_encoded_bytes(),
    )?;
    if machine.root != Root::Host {
        image.directory(&job.directory)?;
    }
    pack.write(&mut image)?;
    let (out, bytes) = image.finish()?;
    let written = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(|mut file| {
        file.rewind()?;
        Ok(file)
    });
    Ok((written.map_err(LabError::io("write", Path::new("initrd")))?, bytes))
}

/// A file in memory, without a place.
fn anonymous(what: &str) -> Result<File> {
    let memory = memfd_create(format!("quell-lab-{what}"), MemfdFlags::CLOEXEC);
    Ok(memory.map_err(|error| LabError::io("create", Path::new(what))(error.into()))?.into())
}

/// What was written into it.
fn text_of(mut file: File) -> Result<String> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(LabError::io("read", Path::new("counts")))?;
    Ok(text)
}

/// Pipes from QEMU: our ends, and QEMU's with the numbers that it finds them under.
fn channels() -> Result<(Channels, Vec<(OwnedFd, i32)>)> {
    let (stdout, stdout_end) = pipe()?;
    let (stderr, stderr_end) = pipe()?;
    let (status, status_end) = pipe()?;
    let (console, console_end) = pipe()?;
    let ends =
        vec![(stdout_end, fd::STDOUT), (stderr_end, fd::STDERR), (status_end, fd::STATUS), (console_end, fd::CONSOLE)];
    Ok((Channels { stdout, stderr, status, console }, ends))
}

/// The host's time stamp counter, as the kernel measured it: an emulated guest sees the same counter.
fn host_tsc_khz() -> Option<u64> {
    let mut text = String::new();
    File::open("/proc/cpuinfo").ok()?.read_to_string(&mut text).ok()?;
    tsc_khz(&text)
}

/// `bogomips` is twice the counter's megahertz.
fn tsc_khz(cpuinfo: &str) -> Option<u64> {
    let line = cpuinfo.lines().find(|line| line.starts_with("bogomips"))?;
    let bogomips: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    Some((bogomips * 500.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsc_is_half_of_bogomips() {
        assert_eq!(tsc_khz("processor\t: 0\nbogomips\t: 4200.00\n"), Some(2_100_000));
        assert_eq!(tsc_khz("processor\t: 0\n"), None);
    }
}
