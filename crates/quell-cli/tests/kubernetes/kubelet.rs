//! Pods that a real kubelet makes, from manifests in a folder: it needs no API server for those. All that keeps reservations, and the
//! kubelet, dies and comes again; containers crash.

use crate::node;

/// Beside the packed programs.
const KUBELET: &str = "kubelet";

const EXPERIMENT: &str = r#"
mount --make-rshared /
start_node
mkdir -p /run/manifests /run/kubelet
cat > /run/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /run/manifests
fileCheckFrequency: 2s
crashLoopBackOff: { maxContainerRestartPeriod: 1s }
containerRuntimeEndpoint: unix://$containerd_socket
cgroupDriver: cgroupfs
failSwapOn: false
localStorageCapacityIsolation: false
evictionHard: { memory.available: 1Mi }
authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
podLogsDir: /run/kubelet/logs
volumePluginDir: /run/kubelet/plugins
END
start_kubelet() {
    "$KUBELET" --config=/run/kubelet.yaml --root-dir=/run/kubelet --hostname-override=node >> /run/kubelet.log 2>&1 &
    kubelet=$!
    await 'the kubelet is healthy' is_healthy
}
is_healthy() {
    kill -0 $kubelet 2>/run/null || fail 'the kubelet has ended'
    [ "$(wget -q -O - http://127.0.0.1:10248/healthz 2>/dev/null)" = ok ]
}
manifest() { # NAME LABELS RESOURCES COMMAND: its process has its name
    cat > /run/"$1".new <<END
apiVersion: v1
kind: Pod
metadata: { name: $1, namespace: default, labels: { $2 } }
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/quell:1
    imagePullPolicy: Never
    command: [sh, -c, "echo $1 > /proc/self/comm; $4; :"]
    resources: { $3 }
END
    mv /run/"$1".new /run/manifests/"$1".yaml
}
group() { # NAME: the cgroup of its container
    comm=$(grep -lsx "$1" /proc/[0-9]*/comm | sed -n 1p)
    [ -n "$comm" ] && sed -n 's/^0:://p' "${comm%comm}cgroup" 2>/dev/null
}
main_of() { sed -n 1p "$cgroups$(group "$1")/cgroup.procs" 2>/dev/null; }
cpus() { cat "$cgroups$(group "$1")/cpuset.cpus.effective" 2>/dev/null; }
runs() { group "$1" > /run/null; }
files() { # what of CPUs is set for pods, without the containers' names, of which some are others than before
    find $cgroups/kubepods \( -name cpuset.cpus -o -name cpuset.cpus.exclusive -o -name cpuset.cpus.partition -o -name cpu.max \) | sort | while read -r file; do
        text=$(cat "$file" 2>/dev/null)
        echo "${file#$cgroups} ${text:-0-3}"
    done | sed 's/[0-9a-f]\{64\}/container/' | sort -u
}
strict='{ cpu: "1", memory: 32Mi }'
IDLE='sleep 100000' SPIN='while :; do :; done'
manifest one 'quell.dev/reservation: strict' "requests: $strict, limits: $strict" "$SPIN"
manifest two 'quell.dev/reservation: strict' "requests: $strict, limits: $strict" "$IDLE"
manifest web 'app: web' 'requests: { cpu: 250m }' "$IDLE"
manifest batch 'app: batch' '' "$SPIN"
start_kubelet
for pod in one two web batch; do await "pod $pod runs" runs $pod; done
echo "the kubelet's pods run after $(uptime) centiseconds" >&2
files > /run/before

write_configuration 'policy = false'
start_quell
is_own() { # POD: it has one CPU, which no other pod has
    [ "$(cpus_of "$(cpus "$1")" | wc -l)" = 1 ] || return 1
    for other in one two web batch; do
        [ "$other" = "$1" ] || are_apart "$(cpus "$1")" "$(cpus $other)" || return 1
    done
}
await 'the first strict pod has a CPU of its own' is_own one
await 'the second strict pod has a CPU of its own' is_own two
echo 'strict pods of a kubelet have CPUs of their own'
"$QUELL" status --pods >&2

# At each sample, from here to the end: a pod's one CPU is no other's. After a kill, until an agent works again, nothing is reserved:
# then a strict pod has the CPUs that the others have, or they have all.
is_reserved() { [ "$(cpus_of "$1" | wc -l)" = 1 ]; }
watch() {
    while [ ! -e /run/enough ]; do
        samples=$((samples + 1))
        one=$(cpus one) two=$(cpus two) web=$(cpus web)
        for pair in "$one $two" "$one $web" "$two $web"; do
            set -- $pair
            [ -n "${2:-}" ] && [ "$1" != 0-3 ] && [ "$2" != 0-3 ] || continue
            ! is_reserved "$1" && ! is_reserved "$2" || are_apart "$1" "$2" || echo "overlap: one $one two $two web $web"
        done
        sleep 0.1
    done
    echo "samples $samples"
}
samples=0
watch > /run/watched &
watching=$!

both_are_own() { is_own one && is_own two; }
worker() { tr -d ' ' < /proc/$quell/task/$quell/children; }
# The second pod goes and comes again: 0 to 4 s after it went something dies, and starts again once the pod is wanted again.
death() { # OF-WHAT AFTER
    mv /run/manifests/two.yaml /run/two.yaml
    sleep "$2"
    case $1 in
    *agent*) kill -9 $quell "$(worker)"; wait $quell ;;
    esac
    case $1 in
    *kubelet*) kill -9 $kubelet; wait $kubelet ;;
    esac
    case $1 in
    *containerd*) kill -9 $containerd; wait $containerd ;;
    esac
    case $1 in
    *container) crashed=$(main_of one) had=$(cpus one); kill -9 "$crashed" ;;
    esac
    mv /run/two.yaml /run/manifests/two.yaml
    case $1 in *containerd*) start_containerd; await 'containerd is up' is_up ;; esac
    case $1 in *kubelet*) start_kubelet ;; esac
    case $1 in *agent*) start_quell ;; *) await 'the runtime asks Quell' is_asked ;; esac
    case $1 in
    *container)
        await 'the crashed container runs again' is_another
        await "after the death of $1 strict pods have their CPUs" both_are_own
        [ "$(cpus one)" = "$had" ] && echo "restarted on the same CPU, round $round"
        ;;
    esac
    await "after the death of $1 strict pods have their CPUs" both_are_own
    deaths=$((deaths + 1))
}
is_another() { runs one && [ -n "$(main_of one)" ] && [ "$(main_of one)" != "$crashed" ]; }
deaths=0
for round in $(seq $ROUNDS); do
    # In another order each time.
    awk -v seed="$round" 'BEGIN {
        srand(seed); rand()
        for (left = split("agent containerd kubelet container agent,kubelet,containerd", what); left > 0; left--) {
            chosen = int(left * rand()) + 1
            print what[chosen], 4 * rand()
            what[chosen] = what[left]
        }
    }' > /run/order
    while read -r what after <&5; do death "$what" "$after"; done 5< /run/order
    echo "round $round after $(uptime) centiseconds: $(cut -d' ' -f1 /run/order | tr '\n' ' ')" >&2
done
echo "survived $deaths deaths"
touch /run/enough
wait $watching
sort /run/watched | uniq -c >&2
! grep overlap /run/watched || fail 'two reservations overlapped'
grep -q 'samples [1-9][0-9]' /run/watched && echo 'no two reservations overlapped at any sample'

stop_quell
files > /run/after
diff /run/before /run/after >&2 && echo 'uninstalled, every file is as before'
kill $kubelet
"#;

#[test]
#[ignore = "a node in the lab with a kubelet, which compiles for half an hour: scripts/kubernetes kubelet; QUELL_NODE_ROUNDS of deaths"]
fn pods_of_a_kubelet_keep_their_cpus_through_deaths_of_all_that_keep_them() {
    let Some(kubelet) = node::compiled("kubelet") else { return };
    let rounds: u32 = std::env::var("QUELL_NODE_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let text = format!("KUBELET={} ROUNDS={rounds}\n{EXPERIMENT}", kubelet.join(KUBELET).display());
    let Some(said) = node::run_with(4, 60, node::COARSE, &text, &[kubelet.join(KUBELET)]) else { return };
    let has = |line: &str| assert!(said.out.lines().any(|its| its == line), "no line: {line}");
    has("strict pods of a kubelet have CPUs of their own");
    for round in 1..=rounds {
        has(&format!("restarted on the same CPU, round {round}"));
    }
    has(&format!("survived {} deaths", 5 * rounds));
    has("no two reservations overlapped at any sample");
    has("uninstalled, every file is as before");
}
