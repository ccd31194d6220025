#!/bin/bash
# A service selected by its command line that gets another one (it executes another program, or writes its title): it remains managed, or what was set on it is put back within some seconds; what spins is demoted. Root.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D/run; mkdir -p "$D/run"; KIDS=
trap 'kill -9 $KIDS 2>/dev/null; wait 2>/dev/null; rm -rf "$D"' EXIT
bash -c ': service-'$$'; sleep 6; exec sh -c "sleep 8; while :; do :; done"' & P=$!; KIDS=$P
cat >"$D/q.toml" <<T
[[policy]]
name = "guard"
[[workload]]
name = "web"
class = "lc"
cpus = 1
match = [{ command = "service-$$", user = "root" }]
T
"$Q" run --config "$D/q.toml" >"$D/log" 2>&1 & A=$!; KIDS="$KIDS $A"; sleep 3; chrt -p $P | grep -q FIFO || { echo "not here: it is $(chrt -p $P | head -1)"; exit 77; }
sleep 15; C=$(chrt -p $P | head -1 | sed 's/.*: //'); S=$("$Q" status 2>&1 | grep "^ web" | cut -c1-45); kill -INT $A; wait $A 2>/dev/null
case $C in *FIFO*) echo "wrong: the process, which spins, is still $C; status:$S" ; exit 1 ;; esac
