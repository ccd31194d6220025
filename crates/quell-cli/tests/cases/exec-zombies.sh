#!/bin/bash
# Orphans of a command under quell exec, which takes them as their parent: when they end they are reaped, and not kept as zombies until exec ends. Root.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D; trap 'rm -rf "$D"' EXIT
N=$("$Q" exec --quiet --class lc --cpus 1 -- sh -c 'for i in $(seq 50); do (sleep .1 &); done; sleep 3; ps -eo ppid,stat,comm | awk "\$2 ~ /^Z/ && \$3 == \"sleep\" {print \$1}" | while read p; do case "$(cat /proc/$p/comm)" in quell*) echo x ;; esac; done | wc -l')
[ "$N" -le 2 ] || { echo "wrong: 50 orphans ended, $N are zombies of quell"; exit 1; }
