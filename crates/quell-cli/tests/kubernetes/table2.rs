//! rKube's Table 2 with Figure 3's neighbours: a container that requests a CPU for a thread, and one that requests two for three
//! threads, on three CPUs. What the first got of its request, with Kubernetes as it is, and with its CPU reserved.
//!
//! In Figure 3 each of the neighbour's threads has a CPU, and the first container shares one of them. Threads that choose their CPUs
//! (as OMP_PROC_BIND makes them) are placed so; those that leave it to Linux are placed best by its load balancer, row `free`.

use quell_guest::testing::Said;

use crate::node;

const EXPERIMENT: &str = r#"
start_node
used() { sed -n 's/^usage_usec //p' $cgroups"$1"/cpu.stat; }
SPIN='while :; do :; done'
FREE="for _ in 1 2; do $SPIN & done; $SPIN"
# Where a CPU is another container's, its thread takes what there is.
BOUND="for cpu in 0 1 2; do (taskset -c \$cpu sh -c \"$SPIN\" || $SPIN) & done; wait"
measure() { # NAME OPTIONS-OF-T OPTIONS-OF-N [COMMAND-OF-N]
    must run t $2 -- "$SPIN" > /run/null
    must run n $3 -- "${4:-$BOUND}" > /run/null
    t=$(must cgroup t) n=$(must cgroup n)
    sleep 2 # the load's averages have settled
    since=$(uptime) t0=$(used "$t") n0=$(used "$n")
    sleep 8
    span=$(($(uptime) - since))
    echo "$1 got $((($(used "$t") - t0) / 10 / span)) thousandths, its neighbour $((($(used "$n") - n0) / 20 / span))"
    end_container n
    end_container t
    must remove t > /run/null
    must remove n > /run/null
}
"#;

const AS_IT_IS: &str = r#"
measure burstable requests=1 requests=2
measure capped requests=1 'requests=2 limits=2'
measure guaranteed 'requests=1 limits=1 memory=64' requests=2
measure free requests=1 requests=2 "$FREE"
"#;

const STRICT: &str = r#"
write_configuration 'policy = false'
start_quell
# Its first pod has the agent load what it traces with, which takes a twentieth of this node's slow CPUs: in a row of its own.
measure first "requests=1 $STRICT" requests=2
measure strict-burstable "requests=1 $STRICT" requests=2
measure strict-capped "requests=1 $STRICT" 'requests=2 limits=2'
measure strict-free "requests=1 $STRICT" requests=2 "$FREE"
stop_quell
"#;

/// Thousandths of its request that the first container got in a row.
fn got(said: &Said, row: &str) -> u32 {
    let line = node::value(said, &format!("{row} got"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn on_a_node(rows: &str) -> Option<Said> {
    node::run(3, 40, &[EXPERIMENT, rows].concat())
}

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_container_does_not_get_its_request_from_kubernetes_as_it_is() {
    let Some(said) = on_a_node(AS_IT_IS) else { return };
    for row in ["burstable", "capped", "guaranteed"] {
        let got = got(&said, row);
        assert!((500..850).contains(&got), "{row}: {got} thousandths");
    }
    assert!(got(&said, "free") >= 850, "Linux finds the best place by itself");
}

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_strict_container_gets_its_request() {
    let Some(said) = on_a_node(STRICT) else { return };
    for row in ["strict-burstable", "strict-capped", "strict-free"] {
        let got = got(&said, row);
        assert!(got >= 980, "{row}: {got} thousandths");
    }
}
