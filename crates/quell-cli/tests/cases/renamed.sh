#!/bin/bash
# A service selected by its command line that gets another one (it executes another program, or writes its title): it remains managed, or what was set on it is put back within some seconds; what spins is demoted. Root.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D/run D; mkdir -p "$D/run"; KIDS=
trap 'kill -9 $KIDS 2>/dev/null; wait 2>/dev/null; rm -rf "$D"' EXIT
until_so() { for i in $(seq 400); do "$@" && return; sleep .05; done; return 1; } # 20 s
bash -c ': service-'$$'; until [ -e "$D/rename" ]; do sleep .05; done; exec sh -c "until [ -e \$D/spin ]; do sleep .05; done; while :; do :; done"' & P=$!; KIDS=$P
cat >"$D/q.toml" <<T
[[policy]]
name = "guard"
[[workload]]
name = "web"
class = "lc"
cpus = 1
match = [{ command = "service-$$", user = "root" }]
T
"$Q" run --config "$D/q.toml" >"$D/log" 2>&1 & A=$!; KIDS="$KIDS $A"
real_time() { chrt -p $P | grep -q FIFO; }
ordinary() { ! real_time; }
renamed() { grep -q ^sh /proc/$P/cmdline; }
chrt -f 1 true 2>/dev/null || { echo "not here: no right to real-time classes"; exit 77; }
until_so real_time || { echo "wrong: it is $(chrt -p $P | head -1)"; exit 1; }
touch "$D/rename"; until_so renamed || { echo "not here: it has not executed another program"; exit 77; }
touch "$D/spin"
until_so ordinary || { echo "wrong: the process, which has spun for 20 s, is still $(chrt -p $P | head -1); status: $("$Q" status 2>&1 | grep "^ web" | cut -c1-45)"; exit 1; }
kill -INT $A; wait $A 2>/dev/null; exit 0
