//! A strict pod is a CPU partition: what is in no pod is off its CPUs, too.

use crate::node;

const EXPERIMENT: &str = r#"
start_node
write_configuration 'policy = false'
start_quell
must run web requests=100m -- 'sleep 1000'
must run strict requests=1 limits=1 $STRICT -- 'while :; do :; done'
strict=$(container_cgroup strict)
pod=${strict%/*}
effective() { cat $cgroups/"$1"/cpuset.cpus.effective; }
grep -o 'strict pods are kept apart from other pods alone.*' /run/quell.log
echo "partition $(cat "$pod"/cpuset.cpus.partition)"
own=$(cat "$strict"/cpuset.cpus.effective)
are_apart "$own" "$(effective system.slice)" && echo 'what is in no pod is elsewhere'
are_apart "$own" "$(cat "$(container_cgroup web)"/cpuset.cpus.effective)" && echo 'so is another pod'
must run later requests=100m -- 'grep Cpus_allowed_list /proc/self/status; sleep 1000'
printed() { output later | grep -q Cpus_allowed_list; }
await 'a later pod prints' printed
are_apart "$own" "$(output later | tr -d '\t' | cut -d: -f2)" && echo 'and one that comes later'
worker() { tr -d ' ' < /proc/$quell/task/$quell/children; }
kill -9 $quell "$(worker)"
wait $quell
"$QUELL" restore > /run/restored 2>&1 || fail "$(cat /run/restored)"
echo "restored $(cat "$pod"/cpuset.cpus.partition), $(effective system.slice), '$(cat $cgroups/kubepods/cpuset.cpus.exclusive)'"
"#;

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_strict_pod_keeps_daemons_off_its_cpus_and_is_an_ordinary_one_after_a_kill() {
    let Some(said) = node::run(3, 20, EXPERIMENT) else { return };
    let has = |line: &str| assert!(said.out.lines().any(|its| its == line), "no line: {line}");
    has("partition root");
    has("what is in no pod is elsewhere");
    has("so is another pod");
    has("and one that comes later");
    has("restored member, 0-2, ''");
}
