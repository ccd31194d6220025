//! `quell gap` without workloads, on a machine with losers that are made here: their order, and what took their time.
//!
//! Two threads, of the highest weight, never stop wanting the first two CPUs; on each, a real-time thread takes a part of the
//! time. However busy the machine is otherwise, they lose what those take. Needs the right to set real-time classes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quell_thread::Class;
use quell_thread::class::become_class;
use serde_json::Value;

/// What a part plays: `name cpu busy`, where `busy` is per cent of the time as a real-time thread; `all`: all of it, as a fair
/// one of the highest weight; `fair`: of the highest that it may have.
const PART: &str = "QUELL_TEST_PART";
/// A part ends by itself.
const LONGEST: Duration = Duration::from_secs(60);

/// The body of a process of the scene: no test by itself.
#[test]
#[ignore = "started by the other tests"]
fn part() {
    let Ok(part) = std::env::var(PART) else { return };
    let [name, cpu, busy] = part.split(' ').collect::<Vec<_>>()[..] else { panic!("{part}") };
    // A session of its own, as a daemon has.
    rustix::process::setsid().unwrap();
    std::fs::write("/proc/self/comm", name).unwrap();
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu.parse().unwrap());
    rustix::thread::sched_setaffinity(None, &set).unwrap();
    let parent = rustix::process::getppid();
    // All are there before the first one takes the CPUs.
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let (begin, round) = (Instant::now(), Duration::from_millis(20));
    let share = match busy.parse::<u32>() {
        Ok(per_cent) => {
            become_class(Class::Fifo(1)).unwrap();
            round * per_cent / 100
        }
        Err(_) => {
            let own = rustix::thread::gettid();
            let set = rustix::process::setpriority_process(Some(own), -20);
            assert!(set.is_ok() || busy != "all", "{set:?}");
            // Where sessions share the CPUs (autogroup), the session's weight counts.
            let _ = std::fs::write("/proc/self/autogroup", "-20");
            round
        }
    };
    println!("plays");
    while begin.elapsed() < LONGEST && rustix::process::getppid() == parent {
        let turn = Instant::now();
        while turn.elapsed() < share {
            std::hint::spin_loop();
        }
        std::thread::sleep(round - share);
    }
}

/// Scenes are on the same CPUs: one at a time.
static STAGE: Mutex<()> = Mutex::new(());

/// Processes that end with this value.
struct Scene(Vec<Child>, #[allow(dead_code, reason = "held until the scene ends")] MutexGuard<'static, ()>);

impl Scene {
    fn start(parts: &[&str]) -> Scene {
        let start = |part: &&str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "part", "--ignored", "--nocapture", "--test-threads=1"]).env(PART, part);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        let alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scene = Scene(parts.iter().map(start).collect(), alone);
        let out = |child: &mut Child| BufReader::new(child.stdout.take().unwrap());
        let mut out: Vec<_> = scene.0.iter_mut().map(out).collect();
        let mut wait_for = |word: &str| {
            for out in &mut out {
                let is_there = out.by_ref().lines().map_while(Result::ok).any(|line| line.contains(word));
                assert!(is_there, "a part of the scene did not say '{word}'");
            }
        };
        wait_for("ready");
        first(|| {
            for child in &mut scene.0 {
                child.stdin.as_mut().unwrap().write_all(b"begin\n").unwrap();
            }
            wait_for("plays");
        });
        scene
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn quell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(arguments).output().unwrap()
}

/// Runs this before all that the scene's processes do, which leave next to nothing to others; so do the processes that it starts. As an
/// ordinary thread where classes may not be set: what needs more asks [`can_be_made`].
fn first<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let run = || {
        // Not by `become_class`: what a thread of that class starts is ordinary.
        let priority = libc::sched_param { sched_priority: 2 };
        // SAFETY: the structure lives for the call, and concerns this thread alone.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
        run()
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// As [`quell`], before the scene.
fn quell_first(arguments: &[&str]) -> Output {
    first(|| quell(arguments))
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// May this machine's scene be made, on two CPUs and with real-time classes? Says what is missing.
fn can_be_made() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // On a thread of its own, which ends with it.
    let may_set = std::thread::spawn(|| become_class(Class::Fifo(1)).is_ok()).join().unwrap();
    if cpus < 2 || !may_set {
        eprintln!("not tested here: needs two CPUs ({cpus}) and the right to set real-time classes ({may_set})");
    }
    cpus >= 2 && may_set
}

const LOSERS: [&str; 4] = ["loses-most 0 all", "takes-most 0 60", "loses-less 1 all", "takes-less 1 25"];

/// One look at the losers: what is wrong with it.
fn look(method: &str) -> Result<(), String> {
    let report = json(&quell_first(&["gap", "--for", "1s", "--method", method, "--json"]));
    let services = report["services"].as_array().unwrap();
    let of = |name: &str| -> Result<(usize, &Value), String> {
        let found: Vec<_> = services.iter().enumerate().filter(|(_, service)| service["name"] == name).collect();
        match found[..] {
            [only] => Ok(only),
            _ => Err(format!("{} services are called {name}: {report}", found.len())),
        }
    };
    let (most, less) = (of("loses-most")?, of("loses-less")?);
    // Real-time threads wait for none of them.
    let others = ["takes-most", "takes-less"].map(of);
    let [one, other] = others.map(|found| found.map(|(place, _)| place));
    if !(most.0 < less.0 && less.0 < one?.min(other?)) {
        return Err(format!("the order: {report}"));
    }
    let seconds = |value: &Value| value.as_u64().unwrap() as f64 / report["window"].as_u64().unwrap() as f64;
    for ((_, loser), taker, share) in [(most, "takes-most", 0.6), (less, "takes-less", 0.25)] {
        let first = &loser["to"][0];
        if first["name"] != taker || first["cause"] != "service" {
            return Err(format!("what took most of {taker}: {loser}"));
        }
        if !(share * 0.5..=share * 1.6).contains(&seconds(&first["time"])) {
            return Err(format!("{} of {share} by {taker}: {loser}", seconds(&first["time"])));
        }
        let sum: u64 = loser["to"].as_array().unwrap().iter().map(|loss| loss["time"].as_u64().unwrap()).sum();
        assert_eq!(sum, loser["waited"].as_u64().unwrap(), "{loser}");
    }
    Ok(())
}

fn is_traced() -> bool {
    let report = json(&quell(&["gap", "--for", "100ms", "--json"]));
    if !report["inexact"].is_null() {
        eprintln!("not tested here, where nothing can be traced: {}", report["inexact"]);
    }
    report["inexact"].is_null()
}

#[test]
fn losers_come_in_their_order_and_what_took_their_time_is_named() {
    if can_be_made() && is_traced() {
        let _scene = Scene::start(&LOSERS);
        look("exact").unwrap();
    }
}

/// The same twenty times, all of them right.
#[test]
#[ignore = "takes a minute; make soak"]
fn losers_are_right_twenty_times_of_twenty() {
    if can_be_made() && is_traced() {
        let right: Vec<_> = (0..20)
            .map(|_| {
                let _scene = Scene::start(&LOSERS);
                look("exact")
            })
            .collect();
        let wrong: Vec<_> = right.iter().filter_map(|result| result.as_ref().err()).collect();
        assert!(wrong.is_empty(), "{} of 20 were wrong: {wrong:?}", wrong.len());
    }
}

#[test]
fn the_estimate_has_the_same_order_and_says_what_it_is() {
    if !can_be_made() {
        return;
    }
    let _scene = Scene::start(&LOSERS);
    let report = json(&quell_first(&["gap", "--for", "2s", "--method", "estimate", "--json"]));
    assert!(report["inexact"].is_string(), "{report}");
    let services = report["services"].as_array().unwrap();
    let place = |name: &str| services.iter().position(|service| service["name"] == name).unwrap();
    assert!(place("loses-most") < place("loses-less"), "{report}");
    let loser = &services[place("loses-most")];
    assert_eq!(loser["to"][0]["name"], "takes-most", "{loser}");
}

#[test]
fn a_program_is_shown_alone_and_text_says_what_to_do() {
    if !can_be_made() {
        return;
    }
    let _scene = Scene::start(&LOSERS);
    let report = json(&quell_first(&["gap", "loses-less", "--for", "200ms", "--json"]));
    let services = report["services"].as_array().unwrap();
    assert!(services.len() == 1 && services[0]["name"] == "loses-less", "{report}");
    let target = services[0]["target"].as_str().unwrap();
    let text = String::from_utf8(quell_first(&["gap", target, "--for", "300ms"]).stdout).unwrap();
    assert!(text.contains("loses-less waited ") && text.contains(&format!("quell protect {target}")), "{text}");
    let text = String::from_utf8(quell_first(&["gap", "--for", "300ms"]).stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains("waited for CPUs") && text.contains("quell protect "), "{text}");
}

#[test]
fn ctrl_c_reports_the_time_so_far() {
    for seconds in [1, 2, 4, 8, 16] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(["gap", "--for", "300s", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        // It had not begun, or the first moment was not over.
        if !output.status.success() {
            continue;
        }
        let report = json(&output);
        assert_eq!(report["interrupted"], true, "{report}");
        return;
    }
    panic!("nothing was reported within 16 seconds");
}

#[test]
fn a_name_that_another_user_chose_is_printed_as_an_escape() {
    let name = "a\x1b[2Jb";
    let _scene = Scene::start(&[&format!("{name} 0 fair")]);
    let output = quell(&["gap", "--for", "300ms", "--json"]);
    let report = json(&output);
    let services = report["services"].as_array().unwrap();
    let found = services.iter().find(|service| service["name"] == "a\\x1b[2Jb").expect("the process");
    let text = quell(&["gap", found["target"].as_str().unwrap(), "--for", "300ms"]);
    assert!(text.status.success() && !text.stdout.contains(&0x1b), "{}", String::from_utf8_lossy(&text.stdout));
}

#[test]
fn mistakes_are_answered_with_the_fix() {
    for (arguments, fix) in [
        (vec!["gap", "no-such-program"], "no unit, container or program 'no-such-program' runs here"),
        (vec!["gap", "no-such.service"], "no-such.service"),
        (vec!["gap", "--for", "1ms"], "100 ms"),
        (vec!["gap", "--method", "both"], "--workload"),
        (vec!["gap", "--overhead"], "--workload"),
        (vec!["gap", "nginx", "--workload", "web=pid:1,cpus=1"], "cannot be used with"),
    ] {
        let output = quell(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(fix), "{arguments:?}: {errors}");
    }
}
