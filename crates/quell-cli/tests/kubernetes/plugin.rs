//! The crate `nri` as a plug-in of a real containerd.

use crate::node;

const EXPERIMENT: &str = r#"
start_node
"$LOG" /var/run/nri/nri.sock > /run/log 2>&1 &
log=$!
logged() { grep -q "$1" /run/log; }
await 'the plug-in is connected' logged '^containerd '
must run before requests=500m -- 'echo first; exec sleep 1000'
must run server requests=1 limits=2 labels=app=server -- 'grep Cpus_allowed_list /proc/self/status; exec sleep 1000'
prints() { output server | grep -q Cpus_allowed_list; }
await 'the container runs' prints
echo "server printed $(output server | tr -s '\t' ' ')"
must resize server requests=2 limits=2
echo "weight $(cat "$(container_cgroup server)"/cpu.weight) of $(cat $cgroups"$(must cgroup server)"/cpu.weight)"
must remove server
await 'its end is logged' logged '^remove .*"server"'
# A plug-in that comes later learns what is there.
kill $log
"$LOG" /var/run/nri/nri.sock > /run/later 2>&1 &
later() { grep -q '^there .*"before"' /run/later; }
await 'what is there is listed' later
must remove before
sed 's/^/LOG /' /run/log
sed 's/^/LATER /' /run/later
"#;

#[test]
#[ignore = "a node in the lab: make test-kubernetes"]
fn a_plugin_sees_the_life_of_pods_and_containers() {
    let Some(said) = node::run(2, 20, EXPERIMENT) else { return };
    let log: Vec<&str> = said.out.lines().filter_map(|line| line.strip_prefix("LOG ")).collect();
    let life: Vec<&str> = log.iter().copied().filter(|line| line.contains(r#""server""#)).collect();
    let expected = [
        r#"create    "default"/"server" "main" (1024 shares)"#,
        r#"start     "default"/"server" "main" (1024 shares)"#,
        r#"update    "default"/"server" "main" (1024 shares)"#,
        r#"stop      "default"/"server" "main" (2048 shares)"#,
        r#"remove    "default"/"server" "main" (2048 shares)"#,
    ];
    assert_eq!(life, expected);
    assert!(log[0].starts_with("containerd ") && log[0].contains("(NRI "), "{log:?}");
    assert_eq!(node::value(&said, "server printed"), "Cpus_allowed_list: 0-1");
}
