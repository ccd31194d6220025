//! The alternatives in one table, in one boot: what a pod of one CPU gets beside one that takes each CPU with a thread of its own, under
//! Kubernetes as it is, the kubelet's static CPU manager, and Quell.
//!
//! Pods are made as a kubelet makes them, without one: `static` is done by hand, with the CPU sets that its CPU manager would write. The
//! servers run in the containers' cgroups, since their image has none; the generator is real-time, so that it measures the server alone.

use std::path::PathBuf;

use quell_guest::testing::Said;

use crate::node;

const EXPERIMENT: &str = r#"
start_node
SPIN='while :; do :; done'
BOUND="for cpu in 0 1 2 3; do (taskset -c \$cpu sh -c \"$SPIN\" || $SPIN) & done; wait"
GUARANTEED='requests=1 limits=1 memory=64'
used() { sed -n 's/^usage_usec //p' $cgroups"$(must cgroup "$1")"/cpu.stat; }
mkdir $cgroups/system.slice/daemon.service
within /system.slice/daemon.service sh -c "$SPIN" &
daemon=$!
on_cpu() { sed 's/.*) //' /proc/$daemon/stat | cut -d' ' -f37; }
# Per cent of the samples in which the daemon was on one of these CPUs.
daemons_share() { # LIST
    [ -n "$1" ] || { echo -; return; }
    there=0
    for _ in $(seq 50); do
        ! cpus_of "$1" | grep -qx "$(on_cpu)" || there=$((there + 1))
        sleep 0.05
    done
    echo $((there * 2))
}
# The CPU sets of the kubelet's static CPU manager. It refuses a resize.
by_hand() { # POD CPUS OTHERS
    echo "$2" > "$(container_cgroup "$1")"/cpuset.cpus
    echo "$3" > "$(container_cgroup n)"/cpuset.cpus
}
static() { [ "$alternative" != static ] || by_hand "$@"; }
over() { # SECONDS POD: thousandths of a CPU
    since=$(uptime) before=$(used "$2")
    sleep "$1"
    echo $((($(used "$2") - before) / 10 / ($(uptime) - since)))
}
row() { # ALTERNATIVE LABELS-OF-THE-POD LABELS-OF-ITS-NEIGHBOUR
    alternative=$1
    must run n requests=3 $3 -- "$BOUND" > /run/null
    must run t $GUARANTEED $2 -- "$SPIN" > /run/null
    must cgroup t > /run/cgroup.t; must cgroup n > /run/cgroup.n
    static t 1 0,2-3
    sleep 2
    got=$(over 6 t)
    own=
    case $alternative in static | rkube) own=$(cat "$(container_cgroup t)"/cpuset.cpus.effective) ;; esac
    daemons=$(daemons_share "$own")
    end_container t
    must remove t > /run/null
    must run m $GUARANTEED $2 -- 'sleep 100000' > /run/null
    must cgroup m > /run/cgroup.m
    static m 1 0,2-3
    within "$(must cgroup m)/$(must id m)" memcached -u root -t 1 -l 127.0.0.1 -p 11221 &
    sleep 2
    since=$(uptime) before=$(used n)
    "$QUELL" load --target 127.0.0.1:11221 --rate 300 --duration 6s --keys 100 --connections 4 --realtime --json > /run/load 2> /run/load.err ||
        fail "load: $(cat /run/load.err)"
    work=$((($(used n) - before) / 10 / ($(uptime) - since)))
    resize=refused
    [ "$alternative" = static ] || ! pod resize m requests=2 limits=2 memory=64 > /run/answer || resize=done
    end_container m
    must remove m > /run/null
    half=refused
    if pod run h requests=1500m limits=1500m memory=64 $2 -- "$SPIN & $SPIN" > /run/answer; then
        must cgroup h > /run/cgroup.h
        sleep 2
        half=$(over 5 h)
        end_container h
        must remove h > /run/null
    else
        echo "$alternative, 1.5 CPUs: $(cat /run/answer)" >&2
        # Its sandbox is there.
        must remove h > /run/null
    fi
    end_container n
    must remove n > /run/null
    echo "$alternative got $got, work $work, daemons $daemons, resize $resize, half $half"
    echo "$alternative latency $(tr -d '\n' < /run/load)"
}
as_quell() { # CONFIGURATION…
    write_configuration "$@"
    start_quell
}
BE=labels=quell.dev/class=be
row none
row static
as_quell 'policy = false'
row rkube $STRICT
stop_quell
as_quell
row guard '' $BE
stop_quell
# CPUs are given away by `caladan` on hosts whose pods Quell does not reserve CPUs for: as cgroups, whose names are those of before.
workload() { # POD CLASS CPUS
    printf '%s\n' '[[workload]]' "name = \"$1\"" "class = \"$2\"" "cpus = $3" "match = [{ cgroup = \"$(cat /run/cgroup."$1")\" }]"
}
{
    printf '%s\n' '[machine]' 'scheduler = "quell"' '[[policy]]' 'name = "caladan"'
    workload t lc 1
    workload m lc 1
    workload h lc 1.5
    workload n be 0
} > /run/quell.toml
"$QUELL" run --config /run/quell.toml >> /run/quell.log 2>&1 &
quell=$!
is_scheduling() {
    kill -0 $quell 2>/run/null || fail 'Quell has ended'
    grep -q enabled /sys/kernel/sched_ext/state
}
await "Quell's scheduler runs" is_scheduling
row caladan '' ''
stop_quell
"#;

/// A row: in thousandths what its pod got and the neighbour's work, and p99 in ns.
fn row(said: &Said, name: &str) -> (u32, u32, u64) {
    let text = node::value(said, &format!("{name} got"));
    let number = |text: &str| text.trim().parse().unwrap();
    let (got, rest) = text.split_once(", work ").unwrap();
    let work = rest.split(',').next().unwrap();
    let report: serde_json::Value = serde_json::from_str(node::value(said, &format!("{name} latency"))).unwrap();
    let quantiles = report["latency"]["quantiles"].as_array().unwrap();
    let p99 = quantiles.iter().find(|it| it["q"] == 0.99).and_then(|it| it["ns"].as_u64()).unwrap();
    println!("{name}: {text}, p99 {} µs", p99 / 1000);
    (number(got), number(work), p99)
}

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn each_alternative_has_its_row() {
    let Some(said) = node::run_with(4, 60, node::COARSE, EXPERIMENT, &[PathBuf::from("/usr/bin/memcached")]) else {
        return;
    };
    let [none, by_hand, rkube, guard, caladan] =
        ["none", "static", "rkube", "guard", "caladan"].map(|name| row(&said, name));
    assert!(none.0 < 850, "as it is, it lacks a part of its request: {none:?}");
    // Daemons go on on its CPU.
    assert!((750..=1060).contains(&by_hand.0), "static: {by_hand:?}");
    assert!((900..=1060).contains(&rkube.0), "rkube: {rkube:?}");
    // `guard` demotes a thread that never sleeps: it shares its CPU as without Quell.
    assert!((none.0 - 50..=1060).contains(&guard.0), "guard: {guard:?}");
    assert!((900..=1060).contains(&caladan.0), "caladan: {caladan:?}");
    for (name, row) in [("rkube", rkube), ("guard", guard), ("caladan", caladan)] {
        assert!(row.2 * 2 < none.2, "{name}: p99 {} ns, as it is {} ns", row.2, none.2);
        assert!(row.1 * 10 > none.1 * 6, "{name}: the neighbour's work {row:?}, as it is {none:?}");
    }
}
