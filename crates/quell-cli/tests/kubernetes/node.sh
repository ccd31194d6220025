# A node: cgroups as on one, containerd, and what a kubelet does (`pod …`: cri/main.go). NODE is the folder of the programs.
cgroups=/sys/fs/cgroup
export PATH=$NODE:$PATH

fail() {
    echo "in vain: $*"
    for log in /run/quell.log /run/kubelet.log /run/containerd.log /run/cri.log; do
        [ ! -e $log ] || { echo "== $log"; tail -n 60 $log; }
    done >&2
    exit 1
}
await() { # WHAT COMMAND…
    what=$1
    shift
    for _ in $(seq 1200); do
        ! "$@" || return 0
        sleep 0.1
    done
    fail "$what"
}
uptime() { cut -d' ' -f1 /proc/uptime | tr -d .; } # centiseconds
within() { # CGROUP COMMAND…: a process in it
    sh -c 'echo $$ > /sys/fs/cgroup"$0"/cgroup.procs; exec "$@"' "$@"
}

# An image of busybox, which serves as the pause image, too: an OCI layout.
sum() { sha256sum "$1" | cut -d' ' -f1; }
blob() { # FILE MEDIA: adds it, prints its descriptor
    cp "$1" $layout/blobs/sha256/"$(sum "$1")"
    echo "{\"mediaType\":\"application/vnd.oci.image.$2\",\"digest\":\"sha256:$(sum "$1")\",\"size\":$(stat -c %s "$1")"
}
make_image() { # FILE
    layout=/run/image
    mkdir -p $layout/blobs/sha256 $layout/root/bin $layout/root/tmp
    cp /.lab/bin/busybox $layout/root/bin/
    for applet in $(/.lab/bin/busybox --list); do
        [ "$applet" = busybox ] || ln -s busybox $layout/root/bin/"$applet"
    done
    tar -c -f $layout/layer -C $layout/root .
    architecture=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
    echo "{\"architecture\":\"$architecture\",\"os\":\"linux\",\"config\":{\"Env\":[\"PATH=/bin\"]," \
        "\"Cmd\":[\"/bin/sleep\",\"2147483647\"]}," \
        "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$(sum $layout/layer)\"]}}" > $layout/config
    echo "{\"schemaVersion\":2,\"config\":$(blob $layout/config config.v1+json)}," \
        "\"layers\":[$(blob $layout/layer layer.v1.tar)}]}" > $layout/manifest
    echo "{\"schemaVersion\":2,\"manifests\":[$(blob $layout/manifest manifest.v1+json)," \
        "\"annotations\":{\"io.containerd.image.name\":\"localhost/quell:1\"}}]}" > $layout/index.json
    echo '{"imageLayoutVersion":"1.0.0"}' > $layout/oci-layout
    tar -c -f "$1" -C $layout oci-layout index.json blobs
    rm -r $layout
}

containerd_socket=/run/containerd/containerd.sock
start_containerd() {
    within /system.slice/containerd.service containerd --config /run/containerd.toml >> /run/containerd.log 2>&1 &
    containerd=$!
}
pod() { # COMMAND…, see cri/main.go; prints the answer without its `ok`, fails with an error
    echo "$*" >&3
    read -r verdict answer <&4 || fail "no answer to: pod $*"
    echo "$answer"
    [ "$verdict" = ok ]
}
must() { # COMMAND…: of pod, that works
    pod "$@" > /run/answer || fail "pod $*: $(cat /run/answer)"
    cat /run/answer
}
output() { # POD: what it printed
    [ ! -e /run/pods/"$1".log ] || cut -d' ' -f4- /run/pods/"$1".log
}
container_cgroup() { # POD
    echo "$cgroups$(must cgroup "$1")/$(must id "$1")"
}
end_container() { # POD: as by a crash; an emulated containerd gets too little time for it beside threads that spin
    echo 1 > "$(container_cgroup "$1")"/cgroup.kill
}
start_node() {
    mkdir -p $cgroups/system.slice/containerd.service /run/pods
    echo '+cpu +cpuset +memory +pids' > $cgroups/cgroup.subtree_control
    # The initial file system cannot be pivoted away from, and needs no overlay.
    cat > /run/containerd.toml <<END
version = 3
root = "/run/containerd/root"
state = "/run/containerd/state"
[grpc]
address = "$containerd_socket"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "native"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "localhost/quell:1"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
NoPivotRoot = true
END
    echo "127.0.0.1 localhost" > /etc/hosts
    : > /etc/resolv.conf
    start_containerd
    make_image /run/image.tar
    mkfifo /run/cri.in /run/cri.out
    "$CRI" $containerd_socket /run/pods < /run/cri.in > /run/cri.out 2> /run/cri.log &
    exec 3> /run/cri.in 4< /run/cri.out
    is_up() { ctr --address $containerd_socket version > /run/ctr.log 2>&1; }
    await 'containerd is up' is_up
    ctr --address $containerd_socket --namespace k8s.io images import --local --snapshotter native /run/image.tar > /run/ctr.log 2>&1 ||
        fail "the image is imported: $(cat /run/ctr.log)"
    has_image() { pod images | grep -q localhost/quell:1; }
    await 'CRI has the image' has_image
    echo "the node is up after $(uptime) centiseconds" >&2
}

STRICT=labels=quell.dev/reservation=strict
write_configuration() { # LINE…: after those on Kubernetes
    printf '%s\n' '[kubernetes]' 'mode = "enforce"' "$@" > /run/quell.toml
}
is_asked() {
    kill -0 $quell 2>/run/null || fail 'Quell has ended'
    "$QUELL" status --json 2>&1 | tr -d ' \n' | grep -q '"runtime":"containerd'
}
start_quell() {
    "$QUELL" run --config /run/quell.toml >> /run/quell.log 2>&1 &
    quell=$!
    await 'the runtime asks Quell' is_asked
}
stop_quell() {
    kill $quell
    wait $quell || fail "quell ended with $?"
}
cpus_of() { # LIST: a line a CPU
    for part in $(echo "$1" | tr , ' '); do seq "${part%-*}" "${part#*-}"; done
}
are_apart() { # LIST LIST: neither of them empty
    [ -n "$1" ] && [ -n "$2" ] || return 1
    for cpu in $(cpus_of "$1"); do
        ! cpus_of "$2" | grep -qx "$cpu" || return 1
    done
}
