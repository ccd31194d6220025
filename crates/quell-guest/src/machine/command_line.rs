//! QEMU's and the kernel's command lines, as pure functions.

use std::path::Path;

use super::{Accelerator, Clock, Input, Machine, Root};
use crate::counts::Mark;

/// The numbers under which QEMU finds the files that it was given open.
pub mod fd {
    /// The initial file system.
    pub const INITRD: i32 = 10;
    /// Takes the command's output.
    pub const STDOUT: i32 = 11;
    /// Takes the command's error output.
    pub const STDERR: i32 = 12;
    /// Takes the command's exit status.
    pub const STATUS: i32 = 13;
    /// Takes the kernel's console.
    pub const CONSOLE: i32 = 14;
    /// Connected to virtiofsd.
    pub const FILES: i32 = 15;
    /// Gives the command's input; of a terminal, takes the output as well.
    pub const STDIN: i32 = 16;
    /// Takes the counts of the guest's instructions.
    pub const COUNTS: i32 = 17;
}

/// Inputs of the command lines beside the machine.
#[derive(Debug)]
pub struct Wiring<'a> {
    /// The kernel.
    pub vmlinux: &'a Path,
    /// Parameters that this kernel is always started with.
    pub kernel_arguments: &'a [String],
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The lock-step plugin, where time passes so.
    pub plugin: Option<&'a Path>,
    /// The plugin that fixes the emulation's breakpoints, where it is needed.
    pub breakpoints: Option<&'a Path>,
    /// The plugin that counts instructions, where they are counted.
    pub counts: Option<&'a Path>,
    /// Guest addresses of the functions that begin and end a request for a host file.
    pub file_request_addresses: Option<(u64, u64)>,
    /// Ticks of the host's time stamp counter a millisecond.
    pub host_tsc_khz: Option<u64>,
    /// The plugin prints its counters at the end.
    pub statistics: bool,
    /// Input of the command.
    pub input: Input,
}

/// The kernel's parameters.
fn kernel_arguments(machine: &Machine, wiring: &Wiring) -> String {
    let mut arguments: Vec<String> = [
        "console=ttyS0",
        "quiet",
        "panic=-1",
        "nokaslr",
        "mitigations=off",
        "random.trust_cpu=on",
        "rcupdate.rcu_expedited=1",
        "psi=1",
        "schedstats=enable",
        // Features that a guest for one command does not need take a fifth of the boot: cryptography's tests and
        // certificates.
        "cryptomgr.notests=1",
        "initcall_blacklist=jent_mod_init,init_encrypted,load_system_certificate_list",
    ]
    .map(str::to_owned)
    .to_vec();
    if machine.accelerator == Accelerator::Emulation {
        arguments.extend(["tsc=reliable", "no_timer_check"].map(str::to_owned));
    }
    if machine.clock == Clock::Free {
        // The kernel ends a BPF scheduler when a CPU makes no progress; here the host just gave it no time.
        arguments.extend(["nosoftlockup", "rcupdate.rcu_cpu_stall_suppress=1"].map(str::to_owned));
    }
    let tsc_khz = match (&machine.clock, machine.accelerator) {
        (Clock::Lockstep(_), _) => Some(1_000_000), // the plugin's counter ticks in nanoseconds
        (Clock::Free, Accelerator::Emulation) => wiring.host_tsc_khz,
        (Clock::Free, Accelerator::Kvm) => None,
    };
    arguments.extend(tsc_khz.map(|khz| format!("tsc_early_khz={khz}")));
    if machine.lockstep().is_some() {
        arguments.push("norandmaps".into());
    }
    let root = if machine.root == Root::Host { "host" } else { "packed" };
    arguments.push(format!("lab.root={root}"));
    arguments.push(format!("lab.ports={}", ports(wiring.input).join(",")));
    if machine.settle_s > 0 {
        arguments.push(format!("lab.settle={}", machine.settle_s));
    }
    arguments.extend(wiring.kernel_arguments.iter().chain(&machine.kernel_arguments).cloned());
    arguments.join(" ")
}

/// Names of the ports to the host, for which the guest waits before it starts the command.
fn ports(input: Input) -> Vec<&'static str> {
    let input = match input {
        Input::Nothing => None,
        Input::Stdin => Some("stdin"),
        Input::Terminal => Some("terminal"),
    };
    ["stdout", "stderr", "status"].into_iter().chain(input).collect()
}

/// QEMU's arguments.
pub fn qemu_arguments(machine: &Machine, wiring: &Wiring) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |option: &str, value: &str| {
        arguments.push(option.to_owned());
        if !value.is_empty() {
            arguments.push(value.to_owned());
        }
    };
    let mut board = "q35,smm=off,hpet=off".to_owned();
    if machine.root == Root::Host {
        board += ",memory-backend=memory";
        let size = wiring.memory_mib;
        add("-object", &format!("memory-backend-memfd,id=memory,size={size}M,share=on"));
        add("-chardev", &format!("socket,id=files,fd={}", fd::FILES));
        add("-device", "vhost-user-fs-pci,chardev=files,tag=labroot,queue-size=1024");
    }
    add("-machine", &board);
    add("-m", &format!("{}M", wiring.memory_mib));
    add("-smp", &cpus(machine));
    let (cpus_a_node, mib) = (machine.cpus / machine.nodes, wiring.memory_mib / u64::from(machine.nodes));
    for node in (0..machine.nodes).filter(|_| machine.nodes > 1) {
        let (first, last) = (node * cpus_a_node, (node + 1) * cpus_a_node - 1);
        add("-object", &format!("memory-backend-ram,id=node{node},size={mib}M"));
        add("-numa", &format!("node,nodeid={node},memdev=node{node},cpus={first}-{last}"));
    }
    for option in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        add(option, "");
    }
    add("-display", "none");
    match machine.accelerator {
        Accelerator::Emulation => {
            add("-cpu", "max");
            add("-accel", "tcg,thread=multi");
        }
        Accelerator::Kvm => {
            add("-cpu", "host");
            add("-accel", "kvm");
        }
    }
    if machine.lockstep().is_some() {
        add("-seed", "42");
        add("-rtc", "base=2026-01-01T00:00:00,clock=vm");
    }
    if let Some(plugin) = plugin(machine, wiring) {
        add("-plugin", &plugin);
    }
    if let Some(plugin) = wiring.breakpoints {
        add("-plugin", &format!("{},stat={}", plugin.display(), u8::from(wiring.statistics)));
    }
    if let Some(plugin) = wiring.counts {
        let [begin, end] = [Mark::Begin, Mark::End].map(Mark::number);
        add("-plugin", &format!("{},fd={},begin={begin:x},end={end:x}", plugin.display(), fd::COUNTS));
    }
    add("-kernel", &wiring.vmlinux.display().to_string());
    add("-initrd", &format!("/proc/self/fd/{}", fd::INITRD));
    // With ioeventfd a port's data would be handled by another thread, at a time of its own.
    add("-device", "virtio-serial-pci,ioeventfd=off");
    for (name, fd) in [("stdout", fd::STDOUT), ("stderr", fd::STDERR), ("status", fd::STATUS)] {
        add("-chardev", &format!("file,id={name},path=/proc/self/fd/{fd}"));
        add("-device", &format!("virtserialport,chardev={name},name={name}"));
    }
    match wiring.input {
        Input::Nothing => {}
        // Its end is the port's: the guest reads on until all that was sent has come.
        Input::Stdin => {
            add("-chardev", &format!("socket,id=stdin,fd={}", fd::STDIN));
            add("-device", "virtserialport,chardev=stdin,name=stdin");
        }
        Input::Terminal => {
            add("-chardev", &format!("socket,id=stdin,fd={}", fd::STDIN));
            add("-device", "virtconsole,chardev=stdin,name=terminal");
        }
    }
    add("-chardev", &format!("file,id=console,path=/proc/self/fd/{}", fd::CONSOLE));
    add("-serial", "chardev:console");
    add("-append", &kernel_arguments(machine, wiring));
    arguments
}

fn cpus(machine: &Machine) -> String {
    match machine.topology {
        None => machine.cpus.to_string(),
        Some(t) => format!("{},sockets={},cores={},threads={}", machine.cpus, t.sockets, t.cores, t.threads),
    }
}

fn plugin(machine: &Machine, wiring: &Wiring) -> Option<String> {
    let (lockstep, plugin) = (machine.lockstep()?, wiring.plugin?);
    let mut text = format!(
        "{},quantum={},mips={},serial={},stat={},coarse={}000000000",
        plugin.display(),
        lockstep.quantum_ns,
        lockstep.mips,
        u8::from(lockstep.serial),
        u8::from(wiring.statistics),
        // The command begins this long after the boot.
        machine.settle_s
    );
    if let Some((begin, end)) = wiring.file_request_addresses {
        text += &format!(",io={begin:#x}:{end:#x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lockstep;

    fn wiring() -> Wiring<'static> {
        Wiring {
            vmlinux: Path::new("/k/vmlinux"),
            kernel_arguments: &[],
            memory_mib: 1024,
            plugin: Some(Path::new("/c/lockstep.so")),
            breakpoints: None,
            counts: None,
            file_request_addresses: Some((0xffff_ffff_8100_0000, 0xffff_ffff_8100_1000)),
            host_tsc_khz: Some(2_100_000),
            statistics: false,
            input: Input::Nothing,
        }
    }

    fn value_of<'a>(arguments: &'a [String], option: &str) -> Vec<&'a str> {
        let pairs = arguments.iter().zip(&arguments[1..]);
        pairs.filter(|(name, _)| *name == option).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn a_free_guest_follows_the_hosts_clock() {
        let machine = Machine::default();
        let arguments = qemu_arguments(&machine, &wiring());
        assert!(value_of(&arguments, "-plugin").is_empty());
        assert_eq!(value_of(&arguments, "-smp"), ["4"]);
        let kernel = kernel_arguments(&machine, &wiring());
        assert!(kernel.contains("tsc_early_khz=2100000"));
        assert!(kernel.contains("lab.root=host"));
        assert!(!kernel.contains("lab.settle"));
    }

    #[test]
    fn the_guest_knows_which_ports_it_waits_for() {
        for (input, ports) in [
            (Input::Nothing, "lab.ports=stdout,stderr,status "),
            (Input::Stdin, "lab.ports=stdout,stderr,status,stdin "),
            (Input::Terminal, "lab.ports=stdout,stderr,status,terminal "),
        ] {
            let text = kernel_arguments(&Machine::default(), &Wiring { input, ..wiring() }) + " ";
            assert!(text.contains(ports), "{text}");
        }
    }

    #[test]
    fn the_callers_parameters_come_after_the_kernels() {
        let machine = Machine { kernel_arguments: vec!["loglevel=3".into()], ..Machine::default() };
        let its = ["loglevel=5".to_owned()];
        let text = kernel_arguments(&machine, &Wiring { kernel_arguments: &its, ..wiring() });
        assert!(text.starts_with("console=ttyS0 quiet ") && text.ends_with(" loglevel=5 loglevel=3"), "{text}");
    }

    #[test]
    fn a_pause_of_the_host_is_no_lockup_in_a_guest_with_the_hosts_clock() {
        let lockstep = Machine::measuring(2, Lockstep { serial: true, mips: 125, quantum_ns: 1000 }, Vec::new());
        for (machine, pauses) in [(Machine::default(), true), (lockstep, false)] {
            assert_eq!(kernel_arguments(&machine, &wiring()).contains(" nosoftlockup "), pauses);
        }
    }

    #[test]
    fn a_lockstep_guest_has_the_plugin_and_fixed_seeds() {
        let machine = Machine::measuring(2, Lockstep { serial: true, mips: 125, quantum_ns: 1000 }, Vec::new());
        let arguments = qemu_arguments(&machine, &Wiring { file_request_addresses: None, ..wiring() });
        assert_eq!(
            value_of(&arguments, "-plugin"),
            ["/c/lockstep.so,quantum=1000,mips=125,serial=1,stat=0,coarse=20000000000"]
        );
        assert_eq!(value_of(&arguments, "-seed"), ["42"]);
        assert!(!arguments.iter().any(|argument| argument.contains("vhost-user")), "no host files");
        let kernel = kernel_arguments(&machine, &wiring());
        assert!(kernel.contains("tsc_early_khz=1000000"));
        assert!(kernel.contains("norandmaps"));
        assert!(kernel.contains("lab.root=packed"));
        assert!(kernel.contains("lab.settle=20"));
    }

    #[test]
    fn the_breakpoints_are_fixed_beside_either_clock() {
        let fixed = Wiring { breakpoints: Some(Path::new("/c/breakpoints.so")), ..wiring() };
        assert_eq!(value_of(&qemu_arguments(&Machine::default(), &fixed), "-plugin"), ["/c/breakpoints.so,stat=0"]);
        let measuring = Machine::measuring(2, Lockstep::default(), Vec::new());
        assert_eq!(value_of(&qemu_arguments(&measuring, &fixed), "-plugin")[1], "/c/breakpoints.so,stat=0");
    }

    #[test]
    fn the_counting_plugin_knows_its_file_and_the_marks() {
        let counting = Wiring { counts: Some(Path::new("/c/counts.so")), ..wiring() };
        let arguments = qemu_arguments(&Machine::default(), &counting);
        assert_eq!(value_of(&arguments, "-plugin"), ["/c/counts.so,fd=17,begin=51554c31,end=51554c32"]);
    }

    #[test]
    fn lockstep_with_host_files_watches_the_requests() {
        let machine = Machine { root: Root::Host, ..Machine::measuring(2, Lockstep::default(), Vec::new()) };
        let arguments = qemu_arguments(&machine, &wiring());
        assert!(value_of(&arguments, "-plugin")[0].ends_with(",io=0xffffffff81000000:0xffffffff81001000"));
    }

    #[test]
    fn topology_reaches_qemu() {
        let machine = Machine { cpus: 8, topology: "2,2,2".parse().ok(), ..Machine::default() };
        assert_eq!(value_of(&qemu_arguments(&machine, &wiring()), "-smp"), ["8,sockets=2,cores=2,threads=2"]);
        let two = Machine { nodes: 2, ..Machine::packed(Vec::new()) };
        let nodes = ["node,nodeid=0,memdev=node0,cpus=0-1", "node,nodeid=1,memdev=node1,cpus=2-3"];
        assert_eq!(value_of(&qemu_arguments(&two, &wiring()), "-numa"), nodes);
    }
}
