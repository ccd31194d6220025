# One cell: memcached under load, beside an antagonist. Prints the antagonist's report and the load's, a line of JSON each.
# From the environment: QUELL, PREPARE, SERVER, ANTAGONIST, SCHEDULER, SEED, RATE.
fail() {
    echo "cell: $*" >&2
    exit 3
}

group() { # NAME WEIGHT COMMAND…
    dir=/sys/fs/cgroup/$1
    mkdir "$dir" && echo "$2" >"$dir/cpu.weight" || fail "no cgroup $1"
    shift 2
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$dir" "$@"
}

managed() { # POLICY [OPTION…] -- COMMAND…
    policy=$1
    shift
    "$QUELL" exec --class lc --cpus 1 --policy "$policy" "$@"
}

state=/sys/kernel/sched_ext/state
if [ -n "$SCHEDULER" ]; then
    "$SCHEDULER" >/run/scheduler.log 2>&1 &
    for _ in $(seq 600); do
        [ "$(cat $state)" != enabled ] || break
        sleep 0.1
    done
    [ "$(cat $state)" = enabled ] || fail "$SCHEDULER did not start: $(tail -n 5 /run/scheduler.log)"
fi
eval "$PREPARE" || fail "cannot prepare: $PREPARE"

$SERVER memcached -u root -t 1 -U 0 -l 127.0.0.1 &
sleep 1
if [ "$ANTAGONIST" != none ]; then
    $ANTAGONIST "$QUELL" antagonist cpu --threads $((2 * $(nproc))) --duration 8s --json >/run/antagonist.json &
    antagonist=$!
    sleep 0.5
fi
"$QUELL" load --rate "$RATE" --warmup 1s --duration 4s --keys 1000 --seed "$SEED" --realtime=10 --json \
    >/run/load.json || fail 'the load failed'
[ -z "$antagonist" ] || wait "$antagonist" || fail 'the antagonist failed'
[ -z "$SCHEDULER" ] || [ "$(cat $state)" = enabled ] || fail "$SCHEDULER gave up: $(tail -n 5 /run/scheduler.log)"
[ -z "$antagonist" ] || cat /run/antagonist.json
cat /run/load.json
