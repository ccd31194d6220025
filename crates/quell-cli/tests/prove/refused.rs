//! What makes no sense is one line with the fix, before anything is measured or set.

use super::scene::Scene;

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let scene = Scene::new("bad");
    let server = scene.server();
    let pid = server.pid().to_string();
    for (arguments, code, fix) in [
        (&["--off-share", "0.7"][..], 1, "give a share from 0.1 to 0.5"),
        (&["--off-share", "x"], 2, "--off-share"),
        (&["--for", "20s"], 1, "a verdict takes 45 blocks of 1.25 s; give --for 57s or more"),
        (&["--for", "0"], 2, "--for"),
        (&["--slo", "5ms"], 2, "write p99=5ms"),
        (&["--abort-factor", "0"], 2, "write 3"),
        (&["--against", "gaurd"], 1, "did you mean 'guard'"),
        (&["--against", "guard", "--keep-if-helps"], 2, "leave --against out"),
        (&["--html", "/nowhere/such/file.html"], 1, "give a file in a directory that exists"),
        (&["--workload", "web"], 2, "cannot be used with"),
        (&["--for", "10s", "--off-share", "0.5"], 1, "a verdict takes 30 blocks of 1.25 s; give --for 38s or more"),
        (&["--url", "127.0.0.1:1", "--be"], 2, "write http://127.0.0.1:1/"),
        (&["--url", "nonsense"], 2, "memcached://nonsense"),
        (&["--url", "ftp://127.0.0.1:1"], 2, "write memcached://, redis:// or http://"),
        (&["--histogram", "127.0.0.1:1"], 2, "such as 127.0.0.1:9102/metrics#http"),
        (&["--histogram", "127.0.0.1:1/metrics#latency"], 2, "does not include its unit"),
        (&["--cpus", "0"], 2, "give 0.1 or more"),
    ] {
        let said = scene.said(&[&["prove", &pid, "-q"], arguments].concat());
        assert_eq!(said.code, Some(code), "{arguments:?} {said:?}");
        assert!(said.error.contains(fix) && said.out.is_empty(), "{arguments:?} {said:?}");
        assert!(!said.error.contains("--target") && !said.error.contains("--protocol"), "{arguments:?} {said:?}");
        assert!(code == 2 || said.error.lines().count() == 1, "{arguments:?} {said:?}");
    }
    let said = scene.said(&["prove"]);
    assert!(said.code == Some(2) && said.error.contains("TARGET"), "{said:?}");
    let said = scene.said(&["prove", "--workload", "web"]);
    assert!(said.code == Some(1) && said.error.contains("no agent runs"), "{said:?}");
}
