//! `quell run` while the kernel refuses some of its system calls: once it has set anything it goes on; a start that is refused ends
//! with an error that names operation and place; in the end nothing of it is left. In the lab, by strace; `make soak` runs it.

use std::time::Duration;

use quell_guest::Machine;
use quell_guest::testing::{Said, Script};

const EXPERIMENT: &str = r#"
cgroups=/sys/fs/cgroup
mkdir -p $cgroups/server $cgroups/batch /run/quell
mount | grep -q '/sys/kernel/tracing' || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
echo '+cpu +cpuset' > $cgroups/cgroup.subtree_control
# Sets of CPUs: an empty one cannot be emptied again (docs/operate/security.md).
echo 0-1 | tee $cgroups/server/cpuset.cpus > $cgroups/batch/cpuset.cpus
for _ in 1 2; do
    sh -c 'echo $$ > /sys/fs/cgroup/batch/cgroup.procs; while :; do sleep 0.02; done' &
    sh -c 'echo $$ > /sys/fs/cgroup/server/cgroup.procs; while :; do sleep 0.02; done' &
done
sleep 1
# configure FILE POLICY SCHEDULER SELECTOR-OF-THE-SERVER: a server of one CPU that is its own, and a batch.
configure() {
    cat > /run/$1.toml <<END
machine.scheduler = "$3"
[[policy]]
name = "$2"
[[workload]]
name = "server"
class = "lc"
cpus = 1
reservation = "strict"
match = [$4]
[[workload]]
name = "batch"
class = "be"
match = [{ cgroup = "batch" }]
END
}
configure guard guard kernel '{ cgroup = "server" }'
configure rkube rkube kernel '{ cgroup = "server" }'
configure edgeiso edgeiso kernel '{ cgroup = "server" }'
configure caladan caladan quell '{ cgroup = "server" }'
# By processes: settings go to single threads.
configure threads rkube kernel "{ pid = $(head -n 1 $cgroups/server/cgroup.procs) }"

# All that Quell may leave: values of cgroups, classes and CPUs of the threads, the scheduler, its own files.
state() {
    for group in server batch; do
        for file in cpu.weight cpu.idle cpu.max cpuset.cpus cpuset.cpus.partition cgroup.freeze; do
            echo "$group/$file: $(cat $cgroups/$group/$file 2>&1)"
        done
        for pid in $(cat $cgroups/$group/cgroup.procs | head -n 9); do
            [ "$(cat /proc/$pid/comm 2>/dev/null)" = sh ] || continue
            echo "$group's $pid: $(cut -d' ' -f19,40,41 /proc/$pid/stat) $(grep Cpus_allowed_list /proc/$pid/status)"
        done
    done
    echo "scheduler: $(cat /sys/kernel/sched_ext/state)"
    echo "groups: $(ls -d $cgroups/*/ | tr '\n' ' ')"
    echo "files: $(ls /run/quell | grep -v '^agent.lock$' | tr '\n' ' ')"
}
# The first look at a shell that has just started may show its child.
sleep 0.5
state > /run/before

# Has it given anything a class or CPUs, or loaded its scheduler?
acts() {
    [ "$(cat $cgroups/batch/cpu.idle)" = 1 ] || [ "$(cat $cgroups/batch/cpuset.cpus)" != 0-1 ] || grep -q enabled /sys/kernel/sched_ext/state
}

# inject FILE CALL ERROR WHEN [WHERE]: from its start on; where WHERE is `running`, from when it has changed something; or of the
# calls on this file of a cgroup alone.
inject() {
    options="-f -qq -o /run/trace -e trace=$2 -e inject=$2:error=$3:when=$4"
    case $5 in
    running) "$QUELL" run --config /run/$1.toml > /run/quell.log 2>&1 & ;;
    */*) strace $options -P $cgroups/$5 "$QUELL" run --config /run/$1.toml > /run/quell.log 2>&1 & ;;
    *) strace --seccomp-bpf $options "$QUELL" run --config /run/$1.toml > /run/quell.log 2>&1 & ;;
    esac
    started=$!
    # Until it has changed something, or ended; then a while on.
    acted=idle
    for _ in $(seq 300); do
        kill -0 $started 2>/dev/null || break
        if acts; then acted=acted; break; fi
        sleep 0.2
    done
    if [ "$5" = running ]; then
        strace $options $(pgrep -x quell | sed 's/^/-p /') 2>/run/strace.log &
        tracer=$!
    fi
    sleep 2
    guardian=$(pgrep -o -x quell)
    if kill -0 $started 2>/dev/null && [ -n "$guardian" ]; then
        kill -TERM $guardian
        how=went-on
    else
        how=ended
    fi
    for _ in $(seq 100); do kill -0 $started 2>/dev/null || break; sleep 0.1; done
    if kill -0 $started 2>/dev/null; then echo "$* HANGS"; pkill -KILL -x quell; kill -KILL $started; fi
    wait $started
    status=$?
    [ "$5" != running ] || wait $tracer
    hits=$(grep -c INJECTED /run/trace)
    sleep 0.3
    state > /run/after
    if cmp -s /run/before /run/after; then left=nothing; else left=SOMETHING; fi
    echo "$*: injected $hits, $acted, $how, status $status, left $left"
    [ $left = nothing ] || diff /run/before /run/after
    [ "$how" = went-on ] && [ $status = 0 ] || grep '(os error ' /run/quell.log | tail -n 1
}
# A call that the agent did not make in that time was not refused: then once more, on a busy machine.
while read case; do
    for _ in 1 2 3; do
        inject $case < /dev/null > /run/line
        grep -q 'injected 0,.*status 0, left nothing$' /run/line || break
        case $case in *getpid*) break ;; esac
    done
    cat /run/line
done <<END
guard getpid EIO 60000
guard openat EMFILE 200..260
guard write ENOSPC 10+10
guard pread64 EIO 10+30
guard sched_setattr EPERM 1..3
guard sched_setattr EBUSY 2+2
guard mkdir EACCES 1..9
guard ioctl EIO 1..9
guard ppoll EINTR 3+2
guard epoll_wait EINTR 5+2
guard mmap ENOMEM 1+2 running
rkube write EINVAL 1..3 batch/cpuset.cpus
rkube write EBUSY 2 server/cpuset.cpus
edgeiso write EIO 2..3 batch/cgroup.freeze
threads sched_setaffinity EPERM 1..2
threads sched_setaffinity EINVAL 2+2
caladan bpf ENOMEM 60..80
caladan bpf EPERM 1+1
caladan mmap ENOMEM 40..60
caladan bpf EINVAL 1..30 running
END
echo "all were tried"
"#;

/// A case's line: what was tried, and what came of it.
struct Case<'a> {
    line: &'a str,
    /// What follows it, up to the next one: the error of an agent that ended.
    said: Vec<&'a str>,
}

fn cases(out: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in out.lines() {
        if line.contains(": injected ") {
            cases.push(Case { line, said: Vec::new() });
        } else if let Some(case) = cases.last_mut() {
            case.said.push(line);
        }
    }
    cases
}

#[test]
#[ignore = "minutes: `make soak` runs it"]
fn it_goes_on_or_names_what_failed_and_leaves_nothing() {
    let quell = env!("CARGO_BIN_EXE_quell");
    let script = Script::new(Machine { cpus: 2, ..Machine::default() }, Duration::from_secs(3000), EXPERIMENT);
    let Said { status, out, err } = script.with("QUELL", quell).run();
    println!("{out}");
    assert!(status == 0 && out.contains("all were tried"), "{out}\n{err}");
    let cases = cases(&out);
    assert_eq!(cases.len(), 20, "{out}");
    assert!(cases[0].line.contains("injected 0, acted, went-on, status 0"), "{}", cases[0].line);
    for (at, Case { line, said }) in cases.iter().enumerate() {
        assert!(at == 0 || !line.contains("injected 0,"), "nothing was refused: {line}");
        assert!(line.ends_with("left nothing"), "{line}\n{said:?}");
        let is_named = |said: &&&str| {
            said.contains("(os error ") && ["cannot ", "refused ", " failed: "].iter().any(|word| said.contains(word))
        };
        let named = said.iter().find(is_named);
        assert!(line.contains("went-on, status 0") || named.is_some(), "{line}\n{said:?}");
        // A refusal ends a look, and at worst the worker; the guardian starts it again.
        assert!(!line.contains(", acted, ended,"), "{line}\n{said:?}");
    }
    assert!(!out.contains("HANGS"), "{out}");
}
