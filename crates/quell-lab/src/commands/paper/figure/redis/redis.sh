# Redis with a part of a CPU, column by column. Prints for each a line `column NAME SERVICE NEIGHBOUR LOAD SPAN`, the CPU times of the
# three and the span, ns, and a line `load JSON`.
# From the environment: QUELL, SEED, SECONDS_OF_LOAD; COLUMNS, a line each: NAME HOW PARTS, where PARTS are hundredths of a CPU.
cgroups=/sys/fs/cgroup
export MALLOC_CONF=background_thread:false

fail() {
    echo "redis: $*" >&2
    exit 3
}

ran() { # PID: CPU time of all its threads, ns
    cat /proc/"$1"/task/*/schedstat | while read -r time rest; do echo "$time"; done | paste -sd+ | xargs -I{} sh -c 'echo $(({}))'
}

now() {
    read -r up rest </proc/uptime
    echo "$up" | tr -d .
}

load() { # RATE SECONDS
    exec taskset -c 1 "$QUELL" load --target redis-hash://127.0.0.1:6379 --rate "$1" --connections 6 --arrivals fixed \
        --set-ratio 1 --no-preload --keys 1000 --value-size 100 --warmup 0s --duration "$2s" --seed "$SEED" --realtime=10 --json
}

mkdir $cgroups/service $cgroups/neighbour || fail 'cannot make cgroups'
(
    echo 0 >$cgroups/service/cgroup.procs
    exec redis-server --port 6379 --bind 127.0.0.1 --save '' --appendonly no --daemonize no --activerehashing no --hz 1 >/run/redis.log 2>&1
) &
redis=$!
for _ in $(seq 600); do
    redis-cli ping 2>/dev/null | grep -q PONG && break
    sleep 0.1
done
redis-cli ping | grep -q PONG || fail "it did not start: $(tail -n 5 /run/redis.log)"

# What a request costs, at a rate at which it waits for each.
before=$(ran $redis)
(load 200 2) >/dev/null || fail 'the load failed'
cost=$((($(ran $redis) - before) / 400))
# Six clients whose requests take 72 hundredths of a CPU together (§6.2).
period=$((cost * 600 / 72))
rate=$((6000000000 / period))
echo "cost $cost period $period rate $rate" >&2

echo "$COLUMNS" | while read -r name how parts; do
    budget=$((period * parts / 100))
    agent=
    case $how in
    vas)
        cat >/run/quell.toml <<END
[machine]
scheduler = "quell"
[[policy]]
name = "vas"
[[workload]]
name = "service"
class = "lc"
match = [{ cgroup = "/service" }]
demand = { budget = "${budget}ns", period = "${period}ns" }
[[workload]]
name = "neighbour"
class = "be"
match = [{ cgroup = "/neighbour" }]
END
        "$QUELL" run --quiet --config /run/quell.toml --socket /run/api.sock >/run/agent.log 2>&1 &
        agent=$!
        for _ in $(seq 600); do
            "$QUELL" status --socket /run/api.sock --json 2>/dev/null | grep -q neighbour && break
            sleep 0.1
        done
        [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || fail "no scheduler: $(tail -n 5 /run/agent.log)"
        ;;
    deadline)
        chrt -d -T "$budget" -D "$period" -P "$period" -p 0 $redis || fail 'it cannot be a deadline thread'
        ;;
    esac
    (
        echo 0 >$cgroups/neighbour/cgroup.procs
        exec "$QUELL" antagonist cpu --threads 4 --duration $((SECONDS_OF_LOAD + 600))s --json >/dev/null
    ) &
    neighbour=$!
    sleep 1
    (load $rate "$SECONDS_OF_LOAD") >/run/load.json &
    load=$!
    # The middle of the load.
    sleep 1
    began=$(now) service=$(ran $redis) others=$(ran $neighbour) own=$(ran $load)
    sleep $((SECONDS_OF_LOAD - 2))
    service=$(($(ran $redis) - service)) others=$(($(ran $neighbour) - others)) own=$(($(ran $load) - own))
    span=$((($(now) - began) * 10000000))
    wait $load || fail 'the load failed'
    kill $neighbour
    wait $neighbour
    if [ -n "$agent" ]; then
        kill $agent
        wait $agent
        grep -c 'was used up' /run/agent.log | sed "s/^/$name: budgets used up: /" >&2
    fi
    [ $how != deadline ] || chrt -o -p 0 $redis
    echo "column $name $service $others $own $span"
    echo "load $(tr -d '\n' </run/load.json)"
done
status=$?
kill $redis
exit $status
