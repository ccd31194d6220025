//! `quell run` with Quell's scheduler, on a kernel that can load it: it takes over, it survives its worker's death, and
//! when all of Quell is killed Linux's scheduler runs everything on. And, in the same guest, a limit is kept.

use std::process::Command;

const EXPERIMENT: &str = r#"
cgroups=/sys/fs/cgroup
scheduler=/sys/kernel/sched_ext

await() { # WHAT COMMAND…
    what=$1
    shift
    for _ in $(seq 600); do
        ! "$@" || { echo "$what"; return 0; }
        sleep 0.1
    done
    echo "in vain: $what"
    cat /run/quell.log
    exit 1
}
is() { [ "$(cat $scheduler/state)" = "$1" ]; }
works() { # does the batch work go on?
    before=$(sed -n 's/usage_usec //p' $cgroups/batch/cpu.stat)
    sleep 0.5
    [ "$(sed -n 's/usage_usec //p' $cgroups/batch/cpu.stat)" -gt $((before + 100000)) ]
}

mkdir $cgroups/server $cgroups/batch
for _ in 1 2 3; do
    sh -c 'echo $$ > /sys/fs/cgroup/batch/cgroup.procs; while :; do :; done' &
done
sh -c 'echo $$ > /sys/fs/cgroup/server/cgroup.procs; while :; do sleep 0.01; done' &
cat > /run/quell.toml <<END
[[policy]]
name = "caladan"
[[workload]]
name = "server"
class = "lc"
cpus = 1
match = [{ cgroup = "server" }]
[[workload]]
name = "batch"
class = "be"
match = [{ cgroup = "batch" }]
END
"$QUELL" run --config /run/quell.toml > /run/quell.log 2>&1 &
guardian=$!
await 'it took over' is enabled
cat $scheduler/root/ops
await 'batch work goes on' works
"$QUELL" status --socket /run/quell/api.sock | head -n 1
worker=$(cat /proc/$guardian/task/$guardian/children)
kill -9 $worker
await 'another worker came' sh -c "worker=\$(cat /proc/$guardian/task/$guardian/children); [ -n \"\$worker\" ] && [ \"\$worker\" != \"$worker\" ]"
await 'it took over again' is enabled
await 'batch work still goes on' works
kill -9 $guardian $(cat /proc/$guardian/task/$guardian/children)
await 'the kernel has its own again' is disabled
await 'batch work goes on without Quell' works
sed -e '1i agent.poll = "dedicated"' -e '/caladan/a parameters = { sockets = true }' /run/quell.toml > /run/polls.toml
"$QUELL" run --config /run/polls.toml > /run/quell.log 2>&1 &
guardian=$!
await 'it took over with a loop that polls' is enabled
worker=$(tr -d ' ' < /proc/$guardian/task/$guardian/children)
await 'the loop has a CPU of its own' grep -q 'Cpus_allowed_list:.1$' /proc/$worker/status
for thread in /proc/$worker/task/*; do echo "$(cat $thread/comm) may use $(sed -n 's/Cpus_allowed_list:.//p' $thread/status)"; done
sees_sockets() { "$QUELL" status --json --socket /run/quell/api.sock | tr -d ' \n' | grep -q '"unread_delay_ns":{'; }
await 'sockets are looked at' sees_sockets
kill -9 $guardian $worker
await 'the kernel has its own once more' is disabled

# Servers: the first one of a reloaded configuration has the scheduler loaded anew, and a runaway is held to its budget.
sh -c 'echo $$ > /sys/fs/cgroup/server/cgroup.procs; while :; do :; done' &
cat > /run/vas.toml <<END
[[policy]]
name = "vas"
[[workload]]
name = "batch"
class = "be"
match = [{ cgroup = "batch" }]
[[workload]]
name = "server"
class = "lc"
match = [{ cgroup = "server" }]
END
"$QUELL" run --config /run/vas.toml > /run/quell.log 2>&1 &
guardian=$!
await 'it took over for vas' is enabled
echo 'demand = { budget = "30 ms", period = "100 ms" }' >> /run/vas.toml
kill -HUP $guardian
await 'it was loaded anew' grep -q 'runs after=.* servers=true' /run/quell.log
used_by() { sed -n 's/usage_usec //p' $cgroups/$1/cpu.stat; }
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
is_served() { # of a CPU: some 30 %, where it would take much more
    before=$(used_by server) began=$(now)
    sleep 3
    percent=$((($(used_by server) - before) / ($(now) - began) / 100))
    echo "the server has $percent % of a CPU"
    [ $percent -gt 20 ] && [ $percent -lt 40 ]
}
await 'the server is held to its budget' is_served
await 'others have the rest' works
"$QUELL" why server --socket /run/quell/api.sock | grep -m1 -o 'asks for more than its demand'
"$QUELL" status --socket /run/quell/api.sock | head -n 1
kill -9 $guardian $(cat /proc/$guardian/task/$guardian/children)
await 'without Quell there are no servers' is disabled

# A limit is kept whatever the policy: by the kernel's own scheduler, under a policy that sets none.
cat > /run/limited.toml <<END
machine.enable_controllers = true
[[policy]]
name = "guard"
[[workload]]
name = "batch"
class = "be"
limit = 0.5
match = [{ cgroup = "batch" }]
END
given=$(cat $cgroups/cgroup.subtree_control)
"$QUELL" check /run/limited.toml 2>&1 | grep -q 'limit = ' || echo 'a limit that is kept is no warning'
"$QUELL" run --config /run/limited.toml > /run/quell.log 2>&1 &
guardian=$!
has_max() { grep -q "^$1 " $cgroups/batch/cpu.max; }
used() { sed -n 's/usage_usec //p' $cgroups/batch/cpu.stat; }
centiseconds() { cut -d' ' -f1 /proc/uptime | tr -d .; }
gets_half() { # of a CPU: a quarter to three quarters, where it would take two
    before=$(used) began=$(centiseconds)
    sleep 2
    percent=$((($(used) - before) / ($(centiseconds) - began) / 100))
    [ $percent -gt 25 ] && [ $percent -lt 75 ]
}
await 'the limit stands under guard' has_max 50000
await 'it gets half a CPU' gets_half
kill -9 $guardian $(cat /proc/$guardian/task/$guardian/children)
"$QUELL" restore > /run/restore.log
has_max max && [ "$(cat $cgroups/cgroup.subtree_control)" = "$given" ] && echo 'there is no limit any more'
sed 's/cgroup = "batch"/command = "sh"/' /run/quell.toml > /run/by-command.toml
"$QUELL" check /run/by-command.toml
echo "check: $?"
"#;

#[test]
fn it_takes_over_and_leaves_nothing_behind_when_it_is_killed() {
    let quell = env!("CARGO_BIN_EXE_quell");
    let mut command = Command::new(quell);
    command.args(["lab", "run", "--cpus", "2", "--timeout", "600", "--env"]).arg(format!("QUELL={quell}"));
    let output = command.args(["--pack", quell, "--", "sh", "-c", EXPERIMENT]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for line in [
        "it took over\nquell_grant",
        "batch work goes on\nQuell ",
        "on the scx host",
        "it took over again",
        "the kernel has its own again",
        "batch work goes on without Quell",
        "the loop has a CPU of its own",
        "quell-api may use 0-1",
        "sockets are looked at",
        "the kernel has its own once more",
        "it took over for vas\nit was loaded anew\n",
        "the server is held to its budget\nothers have the rest\nasks for more than its demand\n",
        "without Quell there are no servers",
        "a limit that is kept is no warning\nthe limit stands under guard\nit gets half a CPU\nthere is no limit any more",
        "check: 1",
    ] {
        assert!(out.contains(line), "'{line}' is missing in:\n{out}\n{err}");
    }
    assert!(err.contains("systemd-run --scope"), "the mend for a workload without a cgroup: {err}");
}
