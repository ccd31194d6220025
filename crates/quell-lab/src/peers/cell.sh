# One cell: servers under load, beside programs that take CPU time. Prints the reports, a line each: `hog JSON` for each of
# the programs, `load JSON` for each server, in the order in which they are given.
# From the environment: QUELL, PREPARE, WEIGHTS, LC, BE, SCHEDULER, POLICY, PARAMETERS, SEED, SECONDS_OF_LOAD;
# SERVERS, a line each: NAME PORT THREADS RATE CPUS; HOGS, a line each: NAME CLASS THREADS CPUS OPTION…
cgroups=/sys/fs/cgroup
state=/sys/kernel/sched_ext/state

fail() {
    echo "cell: $*" >&2
    exit 3
}

group() { # NAME CLASS
    [ -n "$WEIGHTS" ] || return 0
    mkdir "$cgroups/$1" || return 1
    case $2 in
    lc) echo "${WEIGHTS% *}" ;;
    be) echo "${WEIGHTS#* }" ;;
    esac >"$cgroups/$1/cpu.weight"
    [ "$EXCLUSIVE$2" != 1lc ] || { echo 0 >"$cgroups/$1/cpuset.cpus" && echo root >"$cgroups/$1/cpuset.cpus.partition"; }
}

within() { # NAME COMMAND…, in the background
    dir=$cgroups/$1
    shift
    [ -n "$WEIGHTS" ] || exec "$@"
    exec sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$dir" "$@"
}

workload() { # NAME CLASS CPUS
    echo '[[workload]]'
    echo "name = \"$1\""
    echo "class = \"$2\""
    echo "match = [{ cgroup = \"$1\" }]"
    [ "$3" = 0 ] || echo "cpus = $3"
    case $2$3 in lc0 | be*) ;; *) echo 'reservation = "strict"' ;; esac
}

configuration() {
    echo '[machine]'
    echo 'partition = true'
    echo "$MACHINE"
    echo '[agent]'
    echo "$AGENT"
    echo '[[policy]]'
    echo "name = \"$POLICY\""
    echo "parameters = $PARAMETERS"
    while read -r name _ _ _ cpus; do workload "$name" lc "$cpus"; done <<END
$SERVERS
END
    while read -r name class _ cpus _; do [ -z "$name" ] || workload "$name" "$class" "$cpus"; done <<END
$HOGS
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
    caladan | shenango)
        case $MACHINE in *kernel*) ;; *) [ "$(cat $state)" = enabled ] || return 1 ;; esac
        [ -S /run/quell/api.sock ]
        ;;
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
    # shellcheck disable=SC2086 # its options are words
    "$SCHEDULER" ${OPTIONS:-} >/run/control.log 2>&1 &
    await "$SCHEDULER" /run/control.log in_force
fi
while read -r name _ class _; do
    [ -z "$name" ] || group "$name" "$class" || fail "cannot make the cgroup $name"
done <<END
$(echo "$SERVERS" | while read -r name rest; do echo "$name - lc"; done)
$(echo "$HOGS" | while read -r name class rest; do [ -z "$name" ] || echo "$name - $class"; done)
END
while read -r name port threads _; do
    within "$name" $LC memcached -u root -t "$threads" -U 0 -l 127.0.0.1 -p "$port" &
done <<END
$SERVERS
END
if [ -n "$POLICY" ]; then
    configuration >/run/quell.toml
    "$QUELL" run --config /run/quell.toml >/run/control.log 2>&1 &
    await "$POLICY" /run/control.log in_force
fi
sleep 1
loads=
while read -r name port _ rate _; do
    "$QUELL" load --target "127.0.0.1:$port" --rate "$rate" --warmup 2s --duration "${SECONDS_OF_LOAD}s" --keys 1000 --seed "$SEED" \
        --realtime=10 --json >"/run/load.$name" &
    loads="$loads $!"
    SEED=$((SEED + 1000))
done <<END
$SERVERS
END
# The servers have their keys by then, and the loads warm up.
sleep 1
hogs=
while read -r name class threads _ options; do
    [ -n "$name" ] || continue
    case $class in lc) prefix=$LC ;; *) prefix=$BE ;; esac
    within "$name" $prefix "$QUELL" antagonist cpu --threads "$threads" --duration $((SECONDS_OF_LOAD + 120))s $options --json \
        >"/run/hog.$name" &
    hogs="$hogs $!"
done <<END
$HOGS
END
for load in $loads; do wait "$load" || fail 'a load failed'; done
in_force || fail "$SCHEDULER$POLICY gave up: $(tail -n 5 /run/control.log)"
sleep 0.2
for hog in $hogs; do kill "$hog" && wait "$hog" || fail 'an antagonist failed'; done
echo "$HOGS" | while read -r name _; do [ -z "$name" ] || echo "hog $(cat "/run/hog.$name")"; done
echo "$SERVERS" | while read -r name _; do echo "load $(cat "/run/load.$name")"; done
