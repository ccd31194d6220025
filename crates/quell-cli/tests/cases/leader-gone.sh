#!/bin/bash
# A service selected by its command line whose first thread ends while others run on (the kernel then shows a zombie without a command line): its threads remain managed, and one that spins is demoted, or all are put back. Root, python3, x86-64.
set -u; Q=${QUELL:?path of the program}; D=$(mktemp -d); export QUELL_RUN_DIR=$D/run; mkdir -p "$D/run"; KIDS=
trap 'kill -9 $KIDS 2>/dev/null; wait 2>/dev/null; rm -rf "$D"' EXIT
python3 -c 'import ctypes, threading, time
mark = "service-'$$'"
def work():
    time.sleep(10); end = time.time() + 60
    while time.time() < end: pass
threading.Thread(target=work).start(); time.sleep(6); ctypes.CDLL(None).syscall(60, 0)' & P=$!; KIDS=$P
sleep 1
cat >"$D/q.toml" <<T
[[policy]]
name = "guard"
[[workload]]
name = "web"
class = "lc"
cpus = 1
match = [{ command = "mark = \"service-$$\"", user = "root" }]
T
"$Q" run --config "$D/q.toml" >"$D/log" 2>&1 & A=$!; KIDS="$KIDS $A"; sleep 14
L=$(cut -d' ' -f3 /proc/$P/stat); T=$(ls /proc/$P/task | grep -v "^$P$" | head -1); C=$(chrt -p $T | head -1 | sed 's/.*: //'); S=$("$Q" status 2>&1 | grep "^ web" | cut -c1-45); kill -INT $A; wait $A 2>/dev/null
[ "$L" = Z ] || { echo "not here: the first thread is $L"; exit 77; }
case $C in *FIFO*) echo "wrong: a thread that has spun for 3 s is still $C; status:$S"; exit 1 ;; esac
