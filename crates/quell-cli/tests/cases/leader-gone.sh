#!/bin/bash
# A service selected by its command line whose first thread ends while others run on (the kernel then shows a zombie without a command line): its threads remain managed, and one that spins is demoted, or all are put back. Root, python3, x86-64.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D/run; mkdir -p "$D/run"; KIDS=
trap 'kill -9 $KIDS 2>/dev/null; wait 2>/dev/null; rm -rf "$D"' EXIT
until_so() { for i in $(seq 400); do "$@" && return; sleep .05; done; return 1; } # 20 s
python3 -c 'import ctypes, os, sys, threading, time
mark = "service-'$$'"
def until(name):
    while not os.path.exists(sys.argv[1] + "/" + name): time.sleep(.05)
def work():
    until("spin"); end = time.time() + 60
    while time.time() < end: pass
threading.Thread(target=work).start(); until("leave"); ctypes.CDLL(None).syscall(60, 0)' "$D" & P=$!; KIDS=$P
other() { T=$(ls /proc/$P/task | grep -v "^$P$" | head -1); [ -n "$T" ]; }
until_so other || { echo "not here: it has one thread"; exit 77; }
cat >"$D/q.toml" <<T
[[policy]]
name = "guard"
[[workload]]
name = "web"
class = "lc"
cpus = 1
match = [{ command = "mark = \"service-$$\"", user = "root" }]
T
"$Q" run --config "$D/q.toml" >"$D/log" 2>&1 & A=$!; KIDS="$KIDS $A"
real_time() { chrt -p $T | grep -q FIFO; }
ordinary() { ! real_time; }
dead() { [ "$(cut -d' ' -f3 /proc/$P/stat)" = Z ]; }
chrt -f 1 true 2>/dev/null || { echo "not here: no right to real-time classes"; exit 77; }
until_so real_time || { echo "wrong: it is $(chrt -p $T | head -1)"; exit 1; }
touch "$D/leave"; until_so dead || { echo "not here: the first thread is $(cut -d' ' -f3 /proc/$P/stat)"; exit 77; }
touch "$D/spin"
until_so ordinary || { echo "wrong: a thread that has spun for 20 s is still $(chrt -p $T | head -1); status: $("$Q" status 2>&1 | grep "^ web" | cut -c1-45)"; exit 1; }
kill -INT $A; wait $A 2>/dev/null; exit 0
