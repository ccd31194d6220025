//! Tables of processes, and the services that they are.

use super::*;

const ID: &str = "4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a";

/// Number, parent, session, name, cgroup.
type Line<'a> = (i32, i32, i32, &'a str, &'a str);

fn machine(lines: &[Line<'_>]) -> Processes {
    let process = |&(pid, parent, session, comm, cgroup): &Line<'_>| Process {
        pid,
        parent,
        session,
        start: u64::try_from(pid).unwrap(),
        comm: comm.into(),
        cgroup: cgroup.into(),
        uid: Some(1000),
        is_kernels: pid == 2 || parent == 2,
        is_quells: comm == "quell",
        ..Process::default()
    };
    lines.iter().map(process).collect()
}

/// `name: pids`, a service each, sorted by the first process.
fn grouped(lines: &[Line<'_>]) -> Vec<String> {
    let mut all = services(&machine(lines));
    let count: usize = all.iter().map(|service| service.pids.len()).sum();
    assert_eq!(count, lines.len(), "each process is in one service");
    all.sort_by_key(|service| service.pids[0]);
    let one = |service: &Service| {
        let pids: Vec<String> = service.pids.iter().map(ToString::to_string).collect();
        format!("{}: {}", service.name, pids.join(" "))
    };
    all.iter().map(one).collect()
}

#[test]
fn with_systemd_a_unit_or_a_container_is_one_service_whatever_its_processes() {
    let (web, container) = ("/system.slice/web.service", format!("/system.slice/docker-{ID}.scope"));
    let v1 = format!("/docker/{ID}");
    let session = "/user.slice/user-1000.slice/session-3.scope";
    let lines = [
        (1, 0, 1, "systemd", "/init.scope"),
        (2, 0, 0, "kthreadd", "/"),
        (3, 2, 0, "kworker/0:1", "/"),
        (10, 1, 10, "nginx", web),
        (11, 10, 10, "nginx", "/system.slice/web.service/worker"),
        (20, 1, 20, "containerd-shim", "/system.slice/containerd.service"),
        (21, 20, 21, "postgres", container.as_str()),
        (22, 21, 22, "postgres", container.as_str()),
        (30, 1, 30, "sshd", "/system.slice/ssh.service"),
        (31, 30, 31, "bash", session),
        (32, 31, 31, "make", session),
        (33, 32, 31, "cc1", session),
        (40, 1, 40, "quell", "/system.slice/quell.service"),
        (50, 20, 50, "java", v1.as_str()),
    ];
    let is = [
        "systemd: 1",
        "the kernel: 2 3",
        "web: 10 11",
        "containerd: 20",
        // The same id in either hierarchy's spelling is one container.
        "postgres@4f66ad9a4f66: 21 22 50",
        "ssh: 30",
        "bash: 31",
        "make: 32 33",
        "quell: 40",
    ];
    assert_eq!(grouped(&lines), is);
}

#[test]
fn without_systemd_a_command_and_what_it_started_are_one_service() {
    let lines = [
        (1, 0, 1, "init", "/"),
        (2, 0, 0, "kthreadd", "/"),
        (10, 1, 10, "nginx", "/"),
        (11, 10, 10, "nginx", "/"),
        // Its parts have sessions of their own, and are one server still.
        (20, 1, 20, "postgres", "/"),
        (21, 20, 21, "postgres", "/"),
        (22, 20, 22, "postgres", "/"),
        // A login: each of its commands is one.
        (30, 1, 30, "bash", "/"),
        (31, 30, 30, "make", "/"),
        (32, 31, 30, "sh", "/"),
        (33, 32, 30, "cc1", "/"),
        (34, 30, 30, "stress-ng", "/"),
        (35, 34, 30, "stress-ng-cpu", "/"),
        // A daemon that a script started.
        (36, 31, 36, "redis-server", "/"),
        // Each command of a shell is one, a script's, too; what starts another is called after that.
        (37, 1, 37, "sh", "/"),
        (38, 37, 37, "timeout", "/"),
        (39, 38, 37, "cargo", "/"),
        (41, 39, 37, "rustc", "/"),
        // Its parent has ended.
        (40, 1, 30, "sleep", "/"),
        (50, 99, 50, "", "/"),
    ];
    let is = [
        "init: 1",
        "the kernel: 2",
        "nginx: 10 11",
        "postgres: 20 21 22",
        "bash: 30",
        "make: 31 32 33",
        "stress-ng: 34 35",
        "redis-server: 36",
        "sh: 37",
        "cargo: 38 39 41",
        "sleep: 40",
        "process 50: 50",
    ];
    assert_eq!(grouped(&lines), is);
}

#[test]
fn a_script_is_called_after_what_runs_in_it() {
    let lines = [(10, 1, 5, "sh", "/"), (11, 10, 5, "tail", "/"), (12, 10, 5, "cargo", "/"), (13, 12, 5, "rustc", "/")];
    assert_eq!(grouped(&lines), ["tail: 10 11 12 13"], "none has run: the oldest");
    let with = |ticks: [u64; 4]| -> Processes {
        let all: Vec<Process> = machine(&lines).iter().cloned().collect();
        all.into_iter().zip(ticks).map(|(process, ticks)| Process { ticks, ..process }).collect()
    };
    let name = |ticks| services(&with(ticks))[0].name.clone();
    assert_eq!(name([900, 0, 20, 300]), "rustc", "and not the shell");
    assert_eq!(name([0, 0, 20, 3]), "cargo");
}

#[test]
fn names_of_strangers_are_safe_to_print_and_fool_nothing() {
    let unit_of_a_user = "/user.slice/user-1000.slice/user@1000.service/nginx.service";
    let lines = [(10, 1, 10, "a\x1b[2Jb", "/"), (11, 1, 11, "evil", unit_of_a_user), (12, 1, 12, "the kernel", "/")];
    let all = services(&machine(&lines));
    assert_eq!(grouped(&lines), ["a\\x1b[2Jb: 10", "evil: 11", "the kernel: 12"]);
    assert!(all.iter().all(|service| matches!(service.kind, Kind::Command(_)) && service.is_users()));
}

#[test]
fn a_circle_of_parents_ends_and_eight_thousand_processes_take_no_time() {
    let mut circle: Vec<Process> = machine(&[(5, 6, 0, "a", "/"), (6, 5, 0, "a", "/")]).iter().cloned().collect();
    circle.iter_mut().for_each(|process| process.start = 1);
    let circle: Processes = circle.into_iter().collect();
    assert_eq!(services(&circle).iter().map(|service| service.pids.len()).sum::<usize>(), 2);
    // Each is the child of the one before.
    let chain: Vec<Line<'_>> = (10..8010).map(|pid| (pid, pid - 1, 10, "a", "/")).collect();
    assert_eq!(services(&machine(&chain)).len(), 1);
}

#[test]
fn work_that_quell_starts_is_a_command_like_others_and_has_its_name() {
    let quells = |pid: i32, command: &str| Process {
        pid,
        parent: 1,
        session: pid,
        start: 1,
        comm: "quell".into(),
        command: command.into(),
        cgroup: "/".into(),
        is_quells: true,
        ..Process::default()
    };
    let all =
        [quells(70, "/usr/bin/quell antagonist cpu"), quells(71, "quell load"), quells(72, "quell run antagonist")];
    let found = services(&all.into_iter().collect());
    let names: Vec<_> = found.iter().map(|service| (service.name.as_str(), service.is_users())).collect();
    assert_eq!(names, [("antagonist", true), ("load", true), ("quell", false)]);
}
