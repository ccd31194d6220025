# Second stage of the guest's first process: mounts what measuring needs, runs /.lab/command, reports its exit status.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.lab/bin

mkdir -p /dev/pts /dev/shm /run /tmp /boot
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
for link in fd: stdin:/0 stdout:/1 stderr:/2; do
    [ -e "/dev/${link%%:*}" ] || ln -s "/proc/self/fd${link#*:}" "/dev/${link%%:*}"
done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
for controller in cpu cpuset memory pids io; do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done 2>/dev/null
# khugepaged stalls an emulated guest for seconds.
echo never >/sys/kernel/mm/transparent_hugepage/enabled
hostname lab
ip link set lo up
# libbpf looks here for the kernel's configuration.
[ ! -e /.lab/config ] || cp /.lab/config "/boot/config-$(uname -r)" 2>/dev/null

# The host listens on virtio ports; a port's device is known by its name.
port() {
    for port in /sys/class/virtio-ports/*; do
        read -r its_name <"$port/name"
        [ "$its_name" != "$1" ] || echo "/dev/${port##*/}"
    done 2>/dev/null
}
# They come one after the other while the guest boots, on a busy host later than this script.
for word in $(cat /proc/cmdline); do
    case $word in lab.ports=*) ports=$(echo "${word#*=}" | tr , ' ') ;; esac
done
for name in $ports; do
    tries=0
    while [ -z "$(port "$name")" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 1200 ]; then
            echo "lab: the port '$name' did not come within 120 s" >/dev/console
            poweroff -f
        fi
        sleep 0.1
    done
done
stdout=$(port stdout)
stderr=$(port stderr)
status=$(port status)

for word in $(cat /proc/cmdline); do
    case $word in lab.settle=*) sleep "${word#*=}" ;; esac
done
stdin=$(port stdin)
if [ -n "$(port terminal)" ]; then
    # A terminal of its own, which the host's shows.
    setsid -c sh /.lab/command </dev/hvc0 >/dev/hvc0 2>&1
else
    setsid sh /.lab/command <"${stdin:-/dev/null}" >"$stdout" 2>"$stderr"
fi
code=$?
echo $code >"$status" || echo "lab: the exit status $code could not be written to '$status'" >/dev/console
echo o >/proc/sysrq-trigger
while :; do sleep 1000; done
