//! What stands on a terminal of 80 × 24 after `quell protect NAME` and its end.

use super::scene::{Scene, is_root, until};

/// Without what differs from run to run: the process's number and name, and the line breaks, which depend on their lengths.
fn masked(text: &str, name: &str, pid: i32) -> String {
    text.replace("\n  ", " ").replace(name, "NAME").replace(&pid.to_string(), "PID")
}

#[test]
fn protect_and_its_end_fit_a_terminal() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("scr");
    let server = scene.server();
    let mut command = scene.quell("run", &["protect", &scene.name, "--measure", "3s"]);
    let file = |name| std::fs::File::create(scene.path(name)).unwrap();
    command.env("COLUMNS", "80").stdout(file("protect.out")).stderr(file("protect.log"));
    let mut quell = super::scene::Ours::of(command);
    let out = || std::fs::read_to_string(scene.path("protect.out")).unwrap();
    until("the result is there", || out().contains("--keep"));
    quell.ctrl_c();
    assert_eq!(quell.ends(), Some(0), "{}", scene.log());
    let (out, log) = (out(), scene.log());
    assert!(out.lines().count() + log.lines().count() < 24, "{out}{log}");
    let widest = out.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
    assert!(widest <= 80, "{widest}: {out}");
    insta::assert_snapshot!("protect_80x24", masked(&format!("{out}---\n{log}"), &scene.name, server.pid()));
}
