//! `vas`, `dasec` and `caladan` in one `quell run` with Quell's scheduler: each works for its own workloads, on what those
//! before it leave.

use std::time::Duration;

use quell_guest::Machine;
use quell_guest::testing::{Said, Script};

const EXPERIMENT: &str = r#"
cgroups=/sys/fs/cgroup
all='ticker shop search server batch'

await() { # WHAT COMMAND…
    what=$1
    shift
    for _ in $(seq 1200); do
        ! "$@" || { echo "$what"; return 0; }
        sleep 0.5
    done
    echo "in vain: $what"
    cat /run/quell.log
    exit 1
}
is() { [ "$(cat /sys/kernel/sched_ext/state)" = "$1" ]; }
spin() { # CGROUP THREADS
    for _ in $(seq $2); do
        sh -c "echo \$\$ > $cgroups/$1/cgroup.procs; while :; do :; done" &
    done
}
used() { sed -n 's/usage_usec //p' $cgroups/$1/cpu.stat; }
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
measure() { # percents of a CPU over five seconds, into $ticker, $shop, …
    began=$(now)
    for name in $all; do eval "before_$name=$(used $name)"; done
    sleep 5
    span=$(($(now) - began))
    for name in $all; do eval "$name=\$((($(used $name) - before_$name) / span / 100))"; done
    echo "percent of a CPU: ticker $ticker, shop $shop, search $search, server $server, batch $batch" >&2
}
share() { # each has what its policy is to give it
    measure
    [ $ticker -ge 15 ] && [ $ticker -le 60 ] && [ $shop -ge 60 ] && [ $search -ge 60 ] && [ $server -ge 10 ] && [ $batch -ge 1 ]
}

for name in $all; do mkdir $cgroups/$name; done
cat > /run/three.toml <<END
machine.scheduler = "quell"
# The guest may have a fraction of a CPU: what is tested here is no hang.
agent.watchdog_timeout = "2m"
policy = [
    { name = "vas", workloads = ["ticker"] },
    { name = "dasec", workloads = ["shop", "search"] },
    { name = "caladan", workloads = ["server", "batch"] },
]
workload = [
    { name = "ticker", class = "lc", demand = { budget = "30 ms", period = "100 ms" }, match = [{ cgroup = "ticker" }] },
    { name = "shop", class = "lc", cpus = 1, match = [{ cgroup = "shop" }] },
    { name = "search", class = "lc", cpus = 1, match = [{ cgroup = "search" }] },
    { name = "server", class = "lc", cpus = 1, match = [{ cgroup = "server" }] },
    { name = "batch", class = "be", match = [{ cgroup = "batch" }] },
]
END
"$QUELL" check /run/three.toml 2> /run/check.log || cat /run/check.log
"$QUELL" run --config /run/three.toml > /run/quell.log 2>&1 &
guardian=$!
status() { "$QUELL" status --socket /run/quell/api.sock 2> /run/status.log | tr -s ' \n' ' '; }
says() { status | grep -q "$1"; }
await 'it says what it does' says "loading Quell's scheduler: the kernel verifies it .*[0-9] s so far"
await 'it took over' is enabled
spin ticker 1
spin shop 3
spin search 2
spin batch 4
sh -c "echo \$\$ > $cgroups/server/cgroup.procs; while :; do sleep 0.01; done" &
await 'each has its share' share
await 'the status has the policies' says 'vas ticker .*dasec shop, search .*caladan server, batch '
grep -o 'servers=true together=true' /run/quell.log
grep -m1 -o 'needs more than its demand declares' /run/quell.log
kill -9 $guardian $(cat /proc/$guardian/task/$guardian/children)
await 'the kernel has its own again' is disabled
"$QUELL" restore > /run/restore.log 2>&1
is_free() { # CGROUP: may each of its processes use all CPUs? One that ended meanwhile may.
    for task in $(cat $cgroups/$1/cgroup.procs); do
        ! grep -q 'Cpus_allowed_list:' /proc/$task/status || grep -q 'Cpus_allowed_list:.0-3$' /proc/$task/status || return 1
    done 2> /run/ended.log
}
for name in $all; do await "$name may use all CPUs" is_free $name; done
"#;

#[test]
fn three_policies_keep_their_workloads_in_one_run() {
    let quell = env!("CARGO_BIN_EXE_quell");
    let script = Script::new(Machine { cpus: 4, ..Machine::default() }, Duration::from_secs(1800), EXPERIMENT);
    let Said { status, out, err } = script.with("QUELL", quell).packed([quell]).run();
    assert_eq!(status, 0, "{out}\n{err}");
    println!("{err}");
    for line in [
        "/run/three.toml: valid; 5 workloads under vas, then dasec, then caladan\n",
        "it says what it does\nit took over\neach has its share\nthe status has the policies\n",
        "servers=true together=true\nneeds more than its demand declares\nthe kernel has its own again\n",
        "ticker may use all CPUs\nshop may use all CPUs\nsearch may use all CPUs\nserver may use all CPUs\nbatch may use all CPUs\n",
    ] {
        assert!(out.contains(line), "'{line}' is missing in:\n{out}\n{err}");
    }
}
