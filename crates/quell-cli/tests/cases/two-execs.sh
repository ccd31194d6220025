#!/bin/bash
# Two quell exec of one script: when the first is killed, what the second has set on its command, which began later, stands. Root.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D/run; mkdir "$D/run"; KIDS=
trap 'touch "$D/end"; wait $KIDS 2>/dev/null; rm -rf "$D"' EXIT
command='echo $$ >"$2"; for i in $(seq 600); do [ -e "$1" ] && break; sleep .05; done'
managed() { "$Q" exec --quiet --class lc --cpus 1 --policy guard -- sh -c "$command" sh "$D/end" "$1" 2>/dev/null & KIDS="$KIDS $!"; }
is_real_time() { chrt -p "$(cat "$1" 2>/dev/null)" 2>/dev/null | grep -q FIFO; }
real_time() { for i in $(seq 400); do is_real_time "$1" && return; sleep .05; done; echo "wrong: $2"; exit 1; }
managed "$D/first"; real_time "$D/first" "the first command is not SCHED_FIFO"
sleep .1; managed "$D/second"; real_time "$D/second" "the second command is not SCHED_FIFO"
FIRST=$(cat "$D/first"); kill -9 "$(awk '{print $4}' /proc/$FIRST/stat)"
for i in $(seq 400); do is_real_time "$D/first" || break; sleep .05; done
is_real_time "$D/first" && { echo "wrong: the first command is SCHED_FIFO though its quell was killed"; exit 1; }
for i in $(seq 40); do is_real_time "$D/second" || { echo "wrong: the second command is not SCHED_FIFO when the first quell has been killed"; exit 1; }; sleep .05; done
