//! Cgroups by name, in trees made for each test.

use super::*;
use std::fs;

const ID: &str = "4f66ad9a0b2e4f66ad9a0b2e4f66ad9a0b2e4f66ad9a0b2e4f66ad9a0b2ef00d";
const UID: &str = "6f1c2d9e-0b57-4c4a-9d0e-3a8d6f1b2c3d";

fn found(groups: &[&str], selector: &Selector) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    groups.iter().for_each(|group| fs::create_dir_all(root.path().join(group)).unwrap());
    let found = named(root.path(), selector).unwrap().unwrap();
    let mut found: Vec<String> =
        found.iter().map(|path| path.strip_prefix(root.path()).unwrap().display().to_string()).collect();
    found.sort();
    found
}

#[test]
fn patterns_name_every_cgroup_that_they_match() {
    let groups = ["batch.slice/job-1/inner", "batch.slice/job-2", "web.slice/job-3", "odd[1]", "getty@1.service"];
    let cgroup = |path: &str| found(&groups, &Selector::Cgroup(path.into()));
    assert_eq!(cgroup("batch.slice/job-*"), ["batch.slice/job-1", "batch.slice/job-2"]);
    assert_eq!(cgroup("/*/job-[13]"), ["batch.slice/job-1", "web.slice/job-3"]);
    assert_eq!(cgroup("**/job-*").len(), 3);
    assert_eq!(cgroup("*").len(), 4, "the outermost ones");
    assert_eq!(cgroup("odd[1]"), ["odd[1]"], "what has the name of a pattern is found by its name");
    assert_eq!(cgroup("batch.slice"), ["batch.slice"]);
    assert!(cgroup("none").is_empty());
    assert_eq!(found(&groups, &Selector::Unit("getty@*".into())), ["getty@1.service"]);
    assert!(pattern_error("a[").unwrap().contains("not a valid pattern"));
    assert_eq!((pattern_error("a*"), pattern_error("a")), (None, None));
}

#[test]
fn containers_of_every_engine_are_found_by_the_beginning_of_their_id() {
    let groups = [
        format!("system.slice/docker-{ID}.scope"),
        format!("docker/{ID}"),
        format!("kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope/init"),
        format!("kubepods/besteffort/podx/{ID}"),
        format!("kubepods.slice/crio-{ID}.scope"),
        format!("machine.slice/libpod-{ID}.scope"),
    ];
    for group in &groups {
        let outside = format!("machine.slice/libpod-conmon-{ID}.scope");
        let found = found(&[group, &outside, "batch"], &Selector::Container("4F66ad9a".into()));
        assert_eq!(found, [group.trim_end_matches("/init").to_owned()]);
    }
    assert!(found(&[&groups[0]], &Selector::Container("beef".into())).is_empty());
}

#[test]
fn pods_are_found_by_their_uid() {
    let slice =
        format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    let plain = format!("kubepods/besteffort/pod{UID}");
    let own_root = format!("nodes.slice/nodes-{}", slice.replace("/kubepods", "/nodes-kubepods"));
    for group in [&slice, &plain, &own_root, &format!("nodes/{plain}")] {
        let found = |more: &str| found(&[group, more], &Selector::Pod(UID.into()));
        assert_eq!(found("other"), std::slice::from_ref(group));
        // A container's root can give a cgroup any name.
        assert_eq!(found(&format!("docker-{ID}.scope/{slice}")), std::slice::from_ref(group));
    }
}

#[test]
fn what_another_user_made_is_no_unit_container_or_pod() {
    if !rustix::process::geteuid().is_root() {
        println!("only root can give a directory to another user");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let delegated = root.path().join("user.slice/user@1000.service");
    let docker = format!("docker-{ID}.scope");
    for name in ["web.service", &docker, &format!("pod{UID}")] {
        fs::create_dir_all(delegated.join(name)).unwrap();
    }
    std::os::unix::fs::chown(&delegated, Some(1000), None).unwrap();
    let found = |selector: Selector| named(root.path(), &selector).unwrap().unwrap();
    for selector in [Selector::Unit("web".into()), Selector::Container("4f66".into()), Selector::Pod(UID.into())] {
        assert!(found(selector.clone()).is_empty(), "{selector}");
    }
    assert_eq!(found(Selector::Unit("user@1000".into())), std::slice::from_ref(&delegated), "which root made");
    assert_eq!(found(Selector::Cgroup("**/web.service".into())).len(), 1, "as asked for");
    std::os::unix::fs::chown(&delegated, Some(0), None).unwrap();
    assert!(found(Selector::Unit("web".into())).is_empty(), "it is inside a service");
    assert_eq!(found(Selector::Container(ID[..12].into())), [delegated.join(&docker)]);
}

#[test]
fn a_unit_is_the_hosts_and_not_one_of_a_container_with_its_own_systemd() {
    let hosts = "system.slice/db.service";
    let inside = [
        format!("machine.slice/libpod-{ID}.scope/container/system.slice/db.service"),
        format!("docker/{ID}/system.slice/db.service"),
        "machine.slice/systemd-nspawn@web.service/payload/system.slice/db.service".into(),
        "lxc.payload.web/system.slice/db.service".into(),
        "lxc/web/system.slice/db.service".into(),
        "user.slice/user-0.slice/user@0.service/app.slice/db.service".into(),
    ];
    for other in &inside {
        assert_eq!(found(&[hosts, other], &Selector::Unit("db".into())), [hosts], "{other}");
        assert!(found(&[other], &Selector::Unit("db".into())).is_empty(), "{other}");
    }
    let deep = "system.slice/system-db.slice/db@1.service";
    assert_eq!(found(&[deep, &inside[0]], &Selector::Unit("db@*".into())), [deep]);
}

#[test]
fn a_unit_is_known_by_its_escaped_name_and_by_that_which_people_read() {
    let groups = ["system.slice/foo@a\\x2db.service", "system.slice/foo@a-c.service", "system.slice/_memory.service"];
    let unit = |name: &str| found(&groups, &Selector::Unit(name.into()));
    for name in ["foo@a\\x2db.service", "foo@a-b", "foo@a-b*", "foo@a\\x2d*"] {
        assert_eq!(unit(name), [groups[0]], "{name}");
    }
    assert_eq!(unit("foo@a-c"), [groups[1]]);
    assert_eq!(unit("memory"), [groups[2]]);
    let both = ["system.slice/foo@a\\x2db.service", "system.slice/foo@a-b.service"];
    assert_eq!(found(&both, &Selector::Unit("foo@a-b".into())), [both[1]], "the exact name first");
}

#[test]
fn a_container_is_meant_by_a_prefix_that_no_other_has() {
    let other = format!("4f66{}", &"b".repeat(60));
    let (one, two) = (format!("system.slice/docker-{ID}.scope"), format!("docker/{other}"));
    let container = |groups: &[&str], id: &str| found(groups, &Selector::Container(id.into()));
    assert!(container(&[&one, &two], "4f66").is_empty());
    assert_eq!(container(&[&one, &two], &ID[..5]), std::slice::from_ref(&one));
    let root = tempfile::tempdir().unwrap();
    [&one, &two].iter().for_each(|group| fs::create_dir_all(root.path().join(group)).unwrap());
    let why = Tree::at(root.path()).ambiguity(&Selector::Container("4f66".into())).unwrap().unwrap();
    assert!(why.contains("2 containers") && why.contains(&ID[..16]) && why.contains(&other[..16]), "{why}");
    // What a container has inside is not met by chance, and does not make another one ambiguous.
    let inner = format!("machine.slice/libpod-{}.scope/docker-{other}.scope", "c".repeat(64));
    assert!(container(&[&inner], "4f66").is_empty());
    assert_eq!(container(&[&inner], &other[..12]), std::slice::from_ref(&inner));
    assert_eq!(container(&[&one, &inner], "4f66"), [one]);
}

#[test]
fn a_directory_that_may_not_be_read_is_skipped_and_counted() {
    let root = tempfile::tempdir().unwrap();
    for group in ["web.slice/web.service", "closed.slice/inner.service", "job-1"] {
        fs::create_dir_all(root.path().join(group)).unwrap();
    }
    let closed = root.path().join("closed.slice");
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let tree = Tree::at(root.path());
    let unit = tree.named(&Selector::Unit("web".into())).unwrap().unwrap();
    let job = tree.named(&Selector::Cgroup("**/job-*".into())).unwrap().unwrap();
    assert_eq!((unit.len(), job.len()), (1, 1));
    let sees_all = fs::read_dir(&closed).is_ok();
    assert_eq!(tree.unreadable(), if sees_all { 0 } else { 2 });
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_tree_is_read_once() {
    let root = tempfile::tempdir().unwrap();
    let tree = Tree::at(root.path());
    assert_eq!(tree.named(&Selector::Unit("web".into())).unwrap().unwrap().len(), 0);
    fs::create_dir(root.path().join("web.service")).unwrap();
    assert_eq!(tree.named(&Selector::Unit("web".into())).unwrap().unwrap().len(), 0);
    assert_eq!(named(root.path(), &Selector::Unit("web".into())).unwrap().unwrap().len(), 1);
}

#[test]
fn a_command_line_contains_a_text_or_a_pattern() {
    let line = b"redis-server 127.0.0.1:6379 [one]";
    for text in ["redis", "redis-server *:6379", "6379 [one]", "redis-*[0-9]:63??"] {
        assert!(line_contains(line, text), "{text}");
    }
    for text in ["", "redis-server *:6380", "rediss", "[two]x"] {
        assert!(!line_contains(line, text), "{text}");
    }
}

#[test]
fn containers_are_found_by_the_name_and_the_labels_that_their_engine_gave() {
    let (root, engines) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ids = ["a", "b", "c"].map(|digit| digit.repeat(64));
    let group = |id: &str| format!("system.slice/docker-{id}.scope");
    ids.iter().for_each(|id| fs::create_dir_all(root.path().join(group(id))).unwrap());
    // A container's root can make such a cgroup, too.
    let inner = root.path().join(group(&ids[0])).join(group(&"d".repeat(64)));
    fs::create_dir_all(inner).unwrap();
    for (id, name, tier) in
        [("a", "web", "front"), ("b", "api", "back"), ("c", "worker", "back"), ("d", "fake", "back")]
    {
        let directory = engines.path().join("var/lib/docker/containers").join(id.repeat(64));
        fs::create_dir_all(&directory).unwrap();
        let config = format!(r#"{{"Name":"/{name}","Config":{{"Labels":{{"tier":"{tier}"}}}}}}"#);
        fs::write(directory.join("config.v2.json"), config).unwrap();
    }
    let found = |selector: Selector| -> Vec<String> {
        let tree = Tree::with_engines(root.path(), engines.path());
        let mut found: Vec<String> = tree
            .named(&selector)
            .unwrap()
            .unwrap()
            .iter()
            .map(|path| path.strip_prefix(root.path()).unwrap().display().to_string())
            .collect();
        found.sort();
        found
    };
    assert_eq!(found(Selector::Container("web".into())), [group(&ids[0])]);
    assert_eq!(found(Selector::Container("bbbb".into())), [group(&ids[1])], "an id comes before a name");
    assert_eq!(found(Selector::Label("tier=back".into())), [group(&ids[1]), group(&ids[2])]);
    assert_eq!(found(Selector::Label("tier".into())).len(), 3);
    for none in ["fake", "we", "WEB"] {
        assert!(found(Selector::Container(none.into())).is_empty(), "{none}");
    }
    assert!(found(Selector::Label("tier=bac".into())).is_empty());
}
