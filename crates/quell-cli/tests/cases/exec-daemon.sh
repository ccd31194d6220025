#!/bin/bash
# A command that makes itself a daemon: once quell exec has ended, the daemon has ended, too, or has its original CPUs. Root, python3, two CPUs.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D/run; mkdir "$D/run"; trap 'kill $(cat "$D/pid" 2>/dev/null) 2>/dev/null; rm -rf "$D"' EXIT
B=$(taskset -pc $$ | sed 's/.*: //')
for i in 1 2 3; do
timeout 60 "$Q" exec --quiet --class lc --cpus 1 --strict --policy rkube -- python3 -c '
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
open(sys.argv[1], "w").write(str(os.getpid())); time.sleep(2)' "$D/pid"
[ $? = 124 ] && { echo "wrong: run $i: exec remains when the daemon has ended"; exit 1; }
for j in $(seq 50); do [ -s "$D/pid" ] && break; sleep .1; done; P=$(cat "$D/pid"); rm "$D/pid"
[ -d /proc/$P ] || continue # it remained with the daemon
sleep .2; N=$(taskset -pc $P | sed 's/.*: //'); kill $P
[ "$N" = "$B" ] || { echo "wrong: run $i: exec has ended, the daemon is left on CPU $N of $B"; exit 1; }
done
