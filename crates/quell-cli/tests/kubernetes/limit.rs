//! A pod's limit holds while its threads go before all others.

use crate::node;

/// Threads that spin go before others no more: here each process lives for a moment.
const EXPERIMENT: &str = r#"
start_node
DD='dd if=/dev/zero of=/dev/null bs=4096 count=2000 2>/dev/null'
LOOPS="for _ in 1 2 3; do while :; do $DD; done & done; while :; do $DD; done"
must run server limits=1 memory=64 -- "$LOOPS"
sleep 2
echo "ordinary $(must most server 20) thousandths of a CPU"
end_container server
must remove server
write_configuration '[[policy]]' 'name = "guard"'
start_quell
must run server limits=1 memory=64 -- "$LOOPS"
goes_first() { # does a thread of it have a real-time class?
    for pid in $(cat "$(container_cgroup server)/cgroup.procs"); do
        # Behind the name, which may have spaces.
        [ "$(sed 's/.*) //' /proc/"$pid"/stat 2>/dev/null | cut -d' ' -f39)" != 1 ] || return 0
    done
    return 1
}
await 'it goes before others' goes_first
echo 'it goes before others'
echo "most $(must most server 20) thousandths of a CPU"
goes_first && echo 'it still does'
stop_quell
must remove server
"#;

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_guaranteed_pod_of_limit_one_has_one_cpu_over_any_second_under_guard() {
    let Some(said) = node::run(4, 20, EXPERIMENT) else { return };
    let has = |line: &str| assert!(said.out.lines().any(|its| its == line), "no line: {line}");
    has("it goes before others");
    let [ordinary, most] = ["ordinary", "most"].map(|name| {
        let value = node::value(&said, name).split_whitespace().next().unwrap();
        value.parse::<u32>().unwrap()
    });
    // The kernel's own quota is one of 100 ms: a second that begins and ends with a burst has one more.
    assert!(most >= 700 && most <= 1050.max(ordinary + 30), "{most} thousandths, of an ordinary pod {ordinary}");
}
