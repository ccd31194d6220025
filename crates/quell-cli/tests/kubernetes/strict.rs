//! A pod with CPUs of its own: from its first instruction, through resizes and the deaths of all that keep them.

use crate::node;

const EXPERIMENT: &str = r#"
start_node
write_configuration 'policy = false'
files() { # what of CPUs is set in pods' cgroups; an empty list is all CPUs, and a populated cgroup's cannot be emptied again
    find $cgroups/kubepods \( -name cpuset.cpus -o -name cpu.max -o -name cpuset.cpus.exclusive -o -name cpuset.cpus.partition \) |
    sort | while read -r file; do
        text=$(cat "$file")
        echo "${file#$cgroups} ${text:-0-2}"
    done
}
# Of the neighbour are the names `neighbour` and `dd`; of no one else.
DD='dd if=/dev/zero of=/dev/null bs=4096 count=3000 2>/dev/null'
NEIGHBOUR="for _ in 1 2 3; do while :; do $DD; done & done; while :; do sleep 0.01; done"
must run neighbour requests=500m -- "echo neighbour > /proc/self/comm; grep Cpus_allowed_list /proc/self/status; $NEIGHBOUR"
printed() { output "$1" | grep -q Cpus_allowed_list; }
await 'the neighbour runs' printed neighbour
start_quell

must run strict requests=1 limits=1 $STRICT -- 'grep Cpus_allowed_list /proc/self/status; while :; do :; done'
strict=$(container_cgroup strict)
own() { cat "$strict/cpuset.cpus"; }
theirs() { cat "$(container_cgroup "$1")/cpuset.cpus.effective"; }
await 'the strict container prints' printed strict
echo "first line $(output strict | tr -d '\t' | cut -d: -f2)"
echo "reserved $(own)"
echo "quota $(cat "$strict/cpu.max"), the pod's $(cat "${strict%/*}/cpu.max")"
apart() { are_apart "$(own)" "$(theirs neighbour)"; }
apart && echo 'the neighbour is elsewhere when the container runs'
are_apart "$(own)" "$(cat $cgroups/system.slice/cpuset.cpus.effective)" && echo 'so is what is in no pod'
echo "partition $(cat "${strict%/*}/cpuset.cpus.partition")"
main=$(sed -n 1p "$strict/cgroup.procs")

# Who ran there in 3 s.
tracing=/sys/kernel/tracing
echo 4096 > $tracing/buffer_size_kb
echo 1 > $tracing/events/sched/sched_switch/enable
sleep 3
echo 0 > $tracing/tracing_on
ran() { grep -cE 'next_comm=(neighbour|dd) ' $tracing/per_cpu/cpu"$1"/trace; }
echo "the neighbour ran $(ran "$(own)") times on the reserved CPU"
for cpu in $(theirs neighbour | tr , ' '); do cpus_of "$cpu"; done | while read -r cpu; do
    [ "$(ran "$cpu")" = 0 ] || echo 'the neighbour ran on the others'
done | sort -u
echo 0 > $tracing/events/sched/sched_switch/enable
echo 1 > $tracing/tracing_on

# More than is left.
! pod run greedy requests=2 $STRICT -- 'sleep 1000' > /run/answer || fail 'two CPUs of one'
echo "refused $(cat /run/answer)"
must remove greedy

# Resized in place, without a restart.
before=$(own)
must resize strict requests=2 limits=2
grown() { [ "$(cpus_of "$(own)" | wc -l)" = 2 ] && apart && [ "$(cat "$strict/cpu.max")" = 'max 100000' ]; }
await 'it has grown' grown
cpus_of "$(own)" | grep -qx "$before" && echo 'grown, and its first CPU kept'
! pod resize strict requests=3 limits=3 > /run/answer || fail 'three CPUs of three'
echo "refused to resize $(cat /run/answer)"
grown || fail 'a resize that was refused changed something'
must resize strict requests=1 limits=1
shrunk() { [ "$(cpus_of "$(own)" | wc -l)" = 1 ] && apart && [ "$(cat "$strict/cpu.max")" = 'max 100000' ]; }
await 'it has shrunk' shrunk
[ "$(sed -n 1p "$strict/cgroup.procs")" = "$main" ] && echo 'without a restart'

# Deaths. Each time a pod that comes after it must be elsewhere, too.
later=0
recovers() { # WHAT
    began=$(uptime)
    until apart && is_asked; do
        [ $(($(uptime) - began)) -lt 1000 ] || break
        sleep 0.1
    done
    apart || fail "10 s after the death of $1 a strict CPU is another one's"
    echo "$1: apart after $(($(uptime) - began)) centiseconds" >&2
    await "the runtime asks after the death of $1" is_asked
    later=$((later + 1))
    must run later$later requests=100m -- 'grep Cpus_allowed_list /proc/self/status; sleep 1000'
    await 'a later pod prints' printed later$later
    are_apart "$(own)" "$(output later$later | tr -d '\t' | cut -d: -f2)" || fail "a pod after the death of $1 began on strict CPUs"
    [ "$(sed -n 1p "$strict/cgroup.procs")" = "$main" ] || fail "the death of $1 ended the container"
    echo "survived the death of $1"
    must remove later$later
}
worker() { tr -d ' ' < /proc/$quell/task/$quell/children; }
kill -9 "$(worker)"
recovers worker
kill -9 $quell "$(worker)"
wait $quell
start_quell
recovers agent
kill -9 $containerd
wait $containerd
start_containerd
recovers containerd

# In the end all is as before.
stop_quell
files > /run/after
sed 's/^/after /' /run/after >&2
grep -vE 'cpuset.cpus(.exclusive)? 0-2$|cpuset.cpus.partition member$|cpu.max max 100000$' /run/after | sed "s#/kubepods.*/pod#pod#; s#[0-9a-f]\{64\}#container#; s#pod[0-9a-f-]*#pod#; s/^/left /"
must remove strict
must remove neighbour
"#;

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_strict_pod_keeps_its_cpus_from_its_first_line_through_resizes_and_deaths() {
    let Some(said) = node::run(3, 40, EXPERIMENT) else { return };
    let has = |line: &str| assert!(said.out.lines().any(|its| its == line), "no line: {line}");
    assert_eq!(node::value(&said, "first line"), node::value(&said, "reserved"));
    has("quota max 100000, the pod's max 100000");
    has("the neighbour is elsewhere when the container runs");
    has("so is what is in no pod");
    has("partition root");
    has("the neighbour ran 0 times on the reserved CPU");
    has("the neighbour ran on the others");
    let refused = node::value(&said, "refused");
    assert!(refused.contains("asks for 2 CPUs; 1 of 3 can be reserved: "), "{refused}");
    assert!(refused.contains("1 has pod default/strict"), "{refused}");
    let refused = node::value(&said, "refused to resize");
    assert!(refused.contains("asks for 3 CPUs; 2 of 3 can be reserved: "), "{refused}");
    has("grown, and its first CPU kept");
    has("without a restart");
    for dead in ["worker", "agent", "containerd"] {
        has(&format!("survived the death of {dead}"));
    }
    // The strict pod's own quota alone, on both levels.
    let mut left: Vec<&str> = said.out.lines().filter(|line| line.starts_with("left ")).collect();
    left.sort_unstable();
    assert_eq!(left, ["left pod/container/cpu.max 100000 100000", "left pod/cpu.max 100000 100000"]);
}
