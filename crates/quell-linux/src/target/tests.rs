//! A machine with an nginx, two Redis servers, a container, logins and a stranger, and what words mean there.

use super::*;

const ID: &str = "4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a";
const SESSION: &str = "/user.slice/user-1000.slice/session-3.scope";
const NGINX: &str = "/system.slice/nginx.service";

/// One line of ps(1): number, parent, user, name, command line, cgroup.
fn process(pid: i32, parent: i32, uid: u32, comm: &str, command: &str, cgroup: &str) -> Process {
    let exe = (parent != 2).then(|| format!("/usr/bin/{}", command.split([' ', ':']).next().unwrap_or(comm)).into());
    let (is_kernels, is_quells) = (parent == 2 || pid == 2, comm == "quell");
    Process {
        pid,
        parent,
        session: pid,
        start: u64::try_from(pid).unwrap(),
        ticks: 0,
        comm: comm.into(),
        exe,
        command: command.into(),
        cgroup: cgroup.into(),
        uid: Some(uid),
        is_kernels,
        is_quells,
    }
}

fn machine() -> Processes {
    let container = format!("/docker/{ID}");
    [
        process(1, 0, 0, "systemd", "init", "/init.scope"),
        process(2, 0, 0, "kthreadd", "", "/"),
        process(3, 2, 0, "nginx", "", "/"),
        process(10, 1, 0, "nginx", "nginx: master process /usr/sbin/nginx", NGINX),
        process(11, 10, 33, "nginx", "nginx: worker process", NGINX),
        process(12, 10, 33, "nginx", "nginx: worker process", NGINX),
        process(20, 1, 110, "redis-server", "redis-server *:6379", "/system.slice/redis.service"),
        process(21, 1, 110, "redis-server", "redis-server *:6380", "/system.slice/redis-two.service"),
        process(30, 1, 0, "containerd-shim", "containerd-shim", "/system.slice/containerd.service"),
        process(31, 30, 999, "postgres", "postgres -D /data", &container),
        process(32, 31, 999, "postgres", "postgres: checkpointer", &container),
        process(40, 1, 0, "bash", "-bash", SESSION),
        process(41, 40, 0, "sudo", "sudo quell protect nginx", SESSION),
        process(42, 41, 0, "quell", "quell protect nginx", SESSION),
        process(43, 40, 1000, "make", "make -j8", SESSION),
        process(44, 43, 1000, "cc1", "cc1 a.c", SESSION),
        process(45, 43, 1000, "cc1", "cc1 b.c", SESSION),
        process(46, 40, 1000, "sleep", "sleep 60", SESSION),
        process(47, 40, 1000, "sleep", "sleep 70", SESSION),
        process(50, 1, 1001, "memcached", "memcached -p 1", "/user.slice/user-1001.slice/session-4.scope"),
        process(51, 1, 1001, "redis\x1b[2J", "evil", "/user.slice/user-1001.slice/session-4.scope"),
        process(52, 1, 1001, "haproxy", "haproxy", "/system.slice/cron.service"),
        process(60, 1, 0, "quell", "quell run", "/system.slice/quell.service"),
        process(61, 1, 1000, "a-very-long-nam", "a-very-long-name-indeed", SESSION),
    ]
    .into_iter()
    .collect()
}

fn asker() -> Asker {
    Asker { users: vec![0, 1000], line: vec![42, 41, 40], overflow_user: Some(65_534) }
}

/// `nginx.service: 10 11 12`, or what it may mean, or the words for none.
fn means(target: &str) -> String {
    let one = |found: &Found| {
        let pids: Vec<String> = found.processes.iter().map(|process| process.tid.to_string()).collect();
        format!("{}: {}", found.target(), pids.join(" "))
    };
    match resolve(&machine(), target, &asker()) {
        Ok(found) => one(&found),
        Err(Miss::Several(found)) => {
            format!("one of {}", found.iter().map(one).collect::<Vec<_>>().join("; "))
        }
        Err(Miss::Nothing(why)) => why,
    }
}

#[test]
fn a_word_means_one_service() {
    for (target, is) in [
        ("nginx", "nginx.service: 10 11 12"),
        ("nginx.service", "nginx.service: 10 11 12"),
        ("unit:nginx", "nginx.service: 10 11 12"),
        ("program:nginx", "nginx.service: 10 11 12"),
        ("/system.slice/nginx.service", "/system.slice/nginx.service: 10 11 12"),
        ("/sys/fs/cgroup/system.slice/nginx.service/", "/system.slice/nginx.service: 10 11 12"),
        ("redis", "redis.service: 20"),
        ("4f66", "container:4f66ad9a4f66: 31 32"),
        ("container:4f66ad9a4f66", "container:4f66ad9a4f66: 31 32"),
        ("postgres", "container:4f66ad9a4f66: 31 32"),
        ("43", "43: 43 44 45"),
        ("pid:44", "44: 44"),
        ("make", "43: 43 44 45"),
        ("/usr/bin/make", "43: 43 44 45"),
        ("a-very-long-name-indeed", "61: 61"),
        ("50", "50: 50"),
        ("session-3.scope", "session-3.scope: 43 44 45 46 47 61"),
    ] {
        assert_eq!(means(target), is, "{target}");
    }
}

#[test]
fn children_of_one_parent_are_one_match_unless_a_shell_started_them() {
    assert_eq!(means("cc1"), "44 45: 44 45");
    assert_eq!(means("sleep"), "one of 46: 46; 47: 47");
}

#[test]
fn several_are_listed_and_a_strangers_is_never_taken_by_its_name() {
    assert_eq!(means("redis-server"), "one of redis.service: 20; redis-two.service: 21");
    assert_eq!(means("memcached"), "one of 50: 50", "its user is not the one that asks");
    assert_eq!(means("haproxy"), "one of cron.service: 52", "a user's cron job is no service of the system's");
    let beside = machine().iter().cloned().chain([process(70, 1, 1001, "nginx", "nginx", SESSION)]).collect();
    let Err(Miss::Several(found)) = resolve(&beside, "nginx", &asker()) else { panic!("one was chosen") };
    assert_eq!(found.iter().map(Found::target).collect::<Vec<_>>(), ["nginx.service", "70"]);
    assert_eq!(found.iter().map(|found| found.is_strangers).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn what_only_root_starts_as_the_overflow_user_is_no_strangers() {
    let machine =
        || machine().iter().cloned().chain([process(71, 40, 65_534, "varnishd", "varnishd -a :1", SESSION)]).collect();
    assert_eq!(resolve(&machine(), "varnishd", &asker()).map(|found| found.target()), Ok("71".into()));
    let in_a_namespace = Asker { overflow_user: None, ..asker() };
    assert!(matches!(resolve(&machine(), "varnishd", &in_a_namespace), Err(Miss::Several(_))));
}

#[test]
fn what_is_no_match_says_what_to_do() {
    for (target, part) in [
        ("apache", "no unit, container or program 'apache' runs here"),
        ("quell", "no unit, container or program"),
        ("bash", "no unit, container or program"),
        ("kthreadd", "no unit, container or program"),
        ("3", "a kernel thread"),
        ("1", "process 1 is the ancestor of all others"),
        ("40", "Quell itself or one of its ancestors"),
        ("4711", "there is no process 4711"),
        ("0", "not a valid pid"),
        ("apache.service", "nothing runs in unit apache.service"),
        ("container:zz", "4 digits of its id"),
        ("container:beef", "nothing runs in a container beef"),
        ("/system.slice/no.service", "nothing runs in cgroup"),
        ("/sys/fs/cgroup/", "below the root"),
        ("/system.slice/..", "below the root"),
        ("", "empty"),
        ("unit:", "empty"),
        ("a\x1b[2Jb", "'a\\x1b[2Jb'"),
    ] {
        assert!(means(target).contains(part), "{target}: {}", means(target));
    }
}

#[test]
fn names_of_others_are_safe_to_print() {
    let found = resolve(&machine(), "51", &asker()).unwrap();
    assert_eq!(found.name, "redis\\x1b[2J");
    let text = found.in_words();
    assert!(quell_model::foreign::is_plain(&text), "{text}");
}

#[test]
fn a_group_is_selected_where_there_is_one_and_else_its_processes() {
    use quell_model::Selector;
    let found = resolve(&machine(), "nginx", &asker()).unwrap();
    assert_eq!(found.selectors(&|_| true), [Selector::Unit("nginx.service".into())]);
    assert_eq!(found.selectors(&|_| false), [Selector::Pid(10)]);
}

#[test]
fn a_loop_of_parents_ends() {
    let all: Processes = [process(5, 6, 0, "a", "a", "/"), Process { start: 5, ..process(6, 5, 0, "a", "a", "/") }]
        .into_iter()
        .collect();
    assert!(all.ancestors(5).count() <= 2);
    assert_eq!(all.with_descendants(&[5]), [5, 6]);
}

#[test]
fn this_machine_is_read() {
    let mut proc = crate::procfs::ProcFs::open("/proc".as_ref()).unwrap();
    let all = Processes::read(&mut proc).unwrap();
    let own = all.get(std::process::id().cast_signed()).unwrap();
    assert!(own.is_quells && own.exe.as_deref() == std::env::current_exe().ok().as_deref(), "{own:?}");
    assert_eq!(own.uid, Some(rustix::process::geteuid().as_raw()));
    assert!(
        own.cgroup.starts_with('/')
            && !own.comm.is_empty()
            && own.is_named(own.exe.as_ref().unwrap().file_name().unwrap().to_str().unwrap())
    );
}
