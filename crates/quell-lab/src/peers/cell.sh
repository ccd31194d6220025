# One cell: memcached under load, beside an antagonist. Prints the antagonist's report and the load's, a line of JSON each.
# From the environment: QUELL, PREPARE, SERVER, ANTAGONIST, SCHEDULER, POLICY, PARAMETERS, SEED, RATE,
# SECONDS_OF_LOAD.
cgroups=/sys/fs/cgroup
state=/sys/kernel/sched_ext/state

fail() {
    echo "cell: $*" >&2
    exit 3
}

cgroup() { # NAME WEIGHT
    mkdir "$cgroups/$1" && echo "$2" >"$cgroups/$1/cpu.weight"
}

within() { # CGROUP COMMAND…, in the background
    dir=$cgroups/$1
    shift
    exec sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$dir" "$@"
}

configuration() {
    cat <<END
[machine]
partition = true

[[policy]]
name = "$POLICY"
parameters = $PARAMETERS

[[workload]]
name = "server"
class = "lc"
cpus = 1
reservation = "strict"
match = [{ cgroup = "server" }]

[[workload]]
name = "antagonist"
class = "be"
match = [{ cgroup = "antagonist" }]
END
}

in_force() { # does what the policy decided stand in the kernel?
    case $POLICY in
    guard)
        for thread in $(cat $cgroups/server/cgroup.threads); do
            chrt -p "$thread" | grep -q SCHED_FIFO || return 1
        done
        [ "$(cat $cgroups/antagonist/cpu.idle)" = 1 ]
        ;;
    rkube)
        own=$(cat $cgroups/server/cpuset.cpus) others=$(cat $cgroups/antagonist/cpuset.cpus.effective)
        [ -n "$own" ] && [ "$own" != "$others" ] || return 1
        case $PARAMETERS in *partition*) [ "$(cat $cgroups/server/cpuset.cpus.partition)" = root ] ;; esac
        ;;
    caladan | shenango) [ "$(cat $state)" = enabled ] && [ -S /run/quell/api.sock ] ;;
    *) [ -z "$SCHEDULER" ] || [ "$(cat $state)" = enabled ] ;;
    esac
}

await() { # WHOSE LOG COMMAND…
    whose=$1 log=$2
    shift 2
    for _ in $(seq 600); do
        ! "$@" || return 0
        sleep 0.1
    done
    fail "$whose did not start: $(tail -n 5 "$log")"
}

eval "$PREPARE" || fail "cannot prepare: $PREPARE"
if [ -n "$SCHEDULER" ]; then
    "$SCHEDULER" >/run/control.log 2>&1 &
    await "$SCHEDULER" /run/control.log in_force
fi
$SERVER memcached -u root -t 1 -U 0 -l 127.0.0.1 &
if [ -n "$POLICY" ]; then
    configuration >/run/quell.toml
    "$QUELL" run --config /run/quell.toml >/run/control.log 2>&1 &
    await "$POLICY" /run/control.log in_force
fi
sleep 1
if [ "$ANTAGONIST" != none ]; then
    $ANTAGONIST "$QUELL" antagonist cpu --threads $((2 * $(nproc))) --duration $((SECONDS_OF_LOAD + 60))s --json >/run/antagonist.json &
    antagonist=$!
    sleep 0.5
fi
"$QUELL" load --rate "$RATE" --warmup 1s --duration "${SECONDS_OF_LOAD}s" --keys 1000 --seed "$SEED" --realtime=10 --json \
    >/run/load.json || fail 'the load failed'
in_force || fail "$SCHEDULER$POLICY gave up: $(tail -n 5 /run/control.log)"
if [ -n "$antagonist" ]; then
    sleep 0.2
    kill "$antagonist" && wait "$antagonist" || fail 'the antagonist failed'
    cat /run/antagonist.json
fi
cat /run/load.json
