//! CPUs that go and come, and slices whose CPUs and quotas change, at random, under `quell run` in the lab: no CPU idles that
//! waiting work may use, nothing is refused again and again, and all is put back.

use std::time::Duration;

use quell_guest::Machine;
use quell_guest::testing::{Said, Script};

const EXPERIMENT: &str = r#"
cgroups=/sys/fs/cgroup
seed=${SEED:-1}
pick() { # below N
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    picked=$((seed / 65536 % $1))
}
centiseconds() { cut -d' ' -f1 /proc/uptime | tr -d .; }
idle() { sed -n "s/^cpu$1 [0-9]* [0-9]* [0-9]* \([0-9]*\) .*/\1/p" /proc/stat; }
spin() { for _ in $(seq $2); do sh -c "echo \$\$ > $cgroups/$1/cgroup.procs; while :; do :; done" & done; }
await() { # WHAT COMMAND…
    what=$1
    shift
    for _ in $(seq 300); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "in vain: $what; online: $(cat /sys/devices/system/cpu/online); $("$QUELL" status --json | tr -d ' \n')"
    cat /run/quell.log
    exit 1
}
# Every CPU that is online is busy for most of half a second.
all_are_busy() {
    before=
    for cpu in $(online); do before="$before $cpu:$(idle $cpu)"; done
    began=$(centiseconds)
    sleep 0.5
    took=$(($(centiseconds) - began))
    lazy=
    for entry in $before; do
        cpu=${entry%:*}
        [ $(($(idle $cpu) - ${entry#*:})) -le $((took / 2)) ] || lazy="$lazy $cpu"
    done
    [ -z "$lazy" ]
}
online() {
    for cpu in 0 1 2 3; do
        [ "$(cat /sys/devices/system/cpu/cpu$cpu/online 2> /run/null || echo 1)" = 0 ] || echo $cpu
    done
}
change() {
    pick 4
    case $picked in
    0 | 1)
        pick 3
        file=/sys/devices/system/cpu/cpu$((picked + 1))/online
        value=$((1 - $(cat $file)))
        ;;
    2)
        pick 2
        slice=$([ $picked = 0 ] && echo web.slice || echo batch.slice)
        pick 5
        file=$cgroups/$slice/cpuset.cpus
        value=$(echo 0-3 0-1 2-3 0,3 0 | cut -d' ' -f$((picked + 1)))
        ;;
    3)
        pick 3
        file=$cgroups/batch.slice/cpu.max
        value=$(echo max 50000 150000 | cut -d' ' -f$((picked + 1)))
        ;;
    esac
    # The kernel refuses a set without a CPU that is online.
    echo "$value" 2> /run/null > $file || true
}

echo "+cpu +cpuset" > $cgroups/cgroup.subtree_control
for slice in web.slice batch.slice; do
    mkdir $cgroups/$slice
    echo "+cpu +cpuset" > $cgroups/$slice/cgroup.subtree_control
done
mkdir $cgroups/web.slice/web.service $cgroups/batch.slice/batch.service $cgroups/rest.service
spin web.slice/web.service 1
spin batch.slice/batch.service 2
spin rest.service 5
longest=0
for policy in $POLICIES; do
    cat > /run/quell.toml <<END
machine.scheduler = "$SCHEDULER"
[[policy]]
name = "$policy"
[[workload]]
name = "web"
class = "lc"
cpus = 1
reservation = "strict"
demand = { budget = "3 ms", period = "10 ms" }
match = [{ cgroup = "web.slice/web.service" }]
[[workload]]
name = "batch"
class = "be"
match = [{ cgroup = "batch.slice/batch.service" }]
[[workload]]
name = "rest"
class = "be"
match = [{ cgroup = "rest.service" }]
END
    echo 0 > /sys/devices/system/cpu/cpu2/online
    "$QUELL" run --config /run/quell.toml > /run/quell.log 2>&1 &
    guardian=$!
    await "$policy works" "$QUELL" status > /run/null 2>&1
    echo 1 > /sys/devices/system/cpu/cpu2/online
    for _ in $(seq $CHANGES); do
        since=$(centiseconds)
        await "$policy: $(online | tr '\n' ' ') are busy" all_are_busy
        waited=$((since > 0 ? $(centiseconds) - since : 0))
        [ $waited -le $longest ] || longest=$waited
        change
    done
    for cpu in 1 2 3; do echo 1 > /sys/devices/system/cpu/cpu$cpu/online; done
    pool() { "$QUELL" status --json | tr -d ' \n' | grep -q '"pool":"0-3"'; }
    await "$policy: all CPUs in the pool" pool
    kill $guardian
    wait $guardian
    for group in web.slice/web.service batch.slice/batch.service rest.service; do
        case "$(cat $cgroups/$group/cpuset.cpus)" in "" | 0-3) ;; *) echo "left on $group: $(cat $cgroups/$group/cpuset.cpus)" ;; esac
    done
    repeated=$(sed -n 's/.*the host refused: //p' /run/quell.log | sort | uniq -d)
    [ -z "$repeated" ] || echo "repeated: $repeated"
    echo "$policy: right"
done
echo "the longest time until all were busy: $longest centiseconds" >&2
"#;

fn in_the_lab(policies: &str, scheduler: &str, changes: u32, seed: u32) {
    let quell = env!("CARGO_BIN_EXE_quell");
    let script = Script::new(Machine { cpus: 4, ..Machine::default() }, Duration::from_secs(1200), EXPERIMENT);
    let script = script.with("QUELL", quell).with("POLICIES", policies).with("SCHEDULER", scheduler);
    let script = script.with("CHANGES", changes.to_string()).with("SEED", seed.to_string());
    let Said { status, out, err } = script.packed([quell]).run();
    assert_eq!(status, 0, "{out}\n{err}");
    for policy in policies.split(' ') {
        assert!(out.contains(&format!("{policy}: right")), "{policy}:\n{out}\n{err}");
    }
    assert!(!out.contains("left on") && !out.contains("repeated"), "{out}\n{err}");
    println!("{}", err.lines().filter(|line| line.contains("centiseconds")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn no_cpu_idles_while_cpus_and_slices_change() {
    in_the_lab("rkube vas", "kernel", 4, 1);
}

#[test]
#[ignore = "minutes: `make soak` runs it"]
fn no_cpu_idles_under_each_policy_while_cpus_and_slices_change() {
    for (seed, scheduler) in [(1, "kernel"), (2, "auto")] {
        in_the_lab("rkube guard caladan vas", scheduler, 30, seed);
    }
}
