//! A loaded container that is resized in place again and again, beside one that is not.

use std::path::PathBuf;

use crate::node;

/// The servers run in the containers' cgroups: their image has none.
const EXPERIMENT: &str = r#"
start_node
write_configuration 'policy = false'
start_quell
must run steady requests=1 limits=1 memory=64 $STRICT -- 'sleep 100000'
must run moved requests=2 limits=2 memory=64 $STRICT -- 'sleep 100000'
SPIN='while :; do :; done'
must run neighbour requests=500m -- "for _ in 1 2 3; do $SPIN & done; $SPIN"
steady=$(container_cgroup steady) moved=$(container_cgroup moved)
own() { cat "$moved/cpuset.cpus"; }
has() { # COUNT: CPUs of its own
    [ "$(cpus_of "$(own)" | wc -l)" = "$1" ] && are_apart "$(own)" "$(cat "$(container_cgroup neighbour)/cpuset.cpus.effective")"
}
await 'it has two CPUs' has 2
serve() { # GROUP PORT
    within "${1#"$cgroups"}" memcached -u root -t 1 -l 127.0.0.1 -p "$2" &
}
serve "$steady" 11221
serve "$moved" 11222
main=$(sed -n 1p "$moved/cgroup.procs")
load() { # PORT
    "$QUELL" load --target 127.0.0.1:"$1" --rate 300 --duration 40s --keys 100 --connections 4 --realtime --json
}
load 11221 > /run/steady &
first=$!
load 11222 > /run/moved &
second=$!
sleep 2
resized=0 kept=0
resize() { # COUNT
    before=$(own)
    must resize moved requests="$1" limits="$1" memory=64
    await "it has $1 CPUs" has "$1"
    resized=$((resized + 1))
    # The smaller set is a part of the other one.
    (cpus_of "$before"; cpus_of "$(own)") | sort | uniq -d > /run/both
    [ "$(wc -l < /run/both)" = "$2" ] && kept=$((kept + 1))
}
for _ in 1 2 3 4 5 6 7 8 9 10; do
    resize 3 2
    resize 1 1
    resize 2 1
done
[ -e /proc/$second ] && echo 'resized under load'
wait $first
wait $second
echo "resized $resized times, CPUs kept $kept times, partition $(cat "${moved%/*}/cpuset.cpus.partition")"
[ "$(sed -n 1p "$moved/cgroup.procs")" = "$main" ] && echo 'without a restart'
echo "steady $(tr -d '\n' < /run/steady)"
echo "moved $(tr -d '\n' < /run/moved)"
"$QUELL" status --pods >&2
stop_quell
for pod in steady moved neighbour; do must remove $pod; done
"#;

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_loaded_container_is_resized_thirty_times_without_a_restart() {
    let memcached = PathBuf::from("/usr/bin/memcached");
    let Some(said) = node::run_with(5, 30, node::TIME, EXPERIMENT, &[memcached]) else { return };
    let has = |line: &str| assert!(said.out.lines().any(|its| its == line), "no line: {line}");
    has("resized under load");
    has("resized 30 times, CPUs kept 30 times, partition root");
    has("without a restart");
    let p99 = |name| {
        let report: serde_json::Value = serde_json::from_str(node::value(&said, name)).unwrap();
        assert_eq!(report["counts"]["answered"], report["counts"]["due"], "{name}: {}", report["counts"]);
        let quantiles = report["latency"]["quantiles"].as_array().unwrap();
        let of = |q: f64| quantiles.iter().find(|it| it["q"] == q).and_then(|it| it["ns"].as_u64()).unwrap();
        println!("{name}: p50 {} ns, p99 {} ns, largest {} ns", of(0.5), of(0.99), report["latency"]["max_ns"]);
        of(0.99)
    };
    let (steady, moved) = (p99("steady"), p99("moved"));
    assert!(moved <= 2 * steady + 1_000_000, "p99 {moved} ns, of one that is not resized {steady} ns");
}
