//! The recommendation against the simulator: in each scene of `scenes/recommend` no other policy is 10 % better in the service's tail
//! or in batch work without being worse in the other. Scenes where one is are listed there as misses.

mod observe;
mod outcome;
mod scene;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use outcome::{Outcome, candidates, outcome_of, recommended};
use scene::{Index, Scene};

/// What one scene showed.
struct Judged {
    scene: String,
    answer: String,
    row: String,
    better: Vec<String>,
}

fn judge(scene: &Scene) -> Judged {
    let facts = observe::facts(scene);
    let advice = quell_policy::recommend::recommend(&facts.machine, Some(&facts.workload));
    let own = recommended(scene, advice.answer);
    let mut better = Vec::new();
    let mut others = String::new();
    for policy in candidates(scene, &facts.machine) {
        if Some(policy) == advice.answer.policy() {
            continue;
        }
        let Some(other) = outcome_of(scene, policy) else { continue };
        let _ = write!(others, " | {policy}: {other}");
        if other.beats(&own) {
            better.push(format!("{policy}: {other}"));
        }
    }
    let row = format!("{:<18} {:<10} {own}{others}\n    {:?}", scene.name, advice.answer.to_string(), facts.workload);
    Judged { scene: scene.name.clone(), answer: advice.answer.to_string(), row, better }
}

/// Scenes at once.
const AT_ONCE: usize = 3;

/// Judges scenes, prints their table, and compares the misses with those that are written down.
fn hold(index: &Index, names: &[String]) {
    let next = AtomicUsize::new(0);
    let judged: Mutex<Vec<Judged>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = judge(&Scene::read(name, index));
                    println!("{}", one.row);
                    judged.lock().unwrap().push(one);
                }
            });
        }
    });
    let judged = judged.into_inner().unwrap();
    assert_eq!(judged.len(), names.len());
    for one in judged.iter().filter(|one| !one.better.is_empty()) {
        println!("MISS {}: better than {} is {}", one.scene, one.answer, one.better.join(", "));
    }
    let mut found: Vec<&String> = judged.iter().filter(|one| !one.better.is_empty()).map(|one| &one.scene).collect();
    found.sort();
    let mut known: Vec<&String> = index.misses.iter().filter(|miss| names.contains(miss)).collect();
    known.sort();
    println!("{} scenes, {} misses: {found:?}", names.len(), found.len());
    assert_eq!(found, known, "the misses; scenes/recommend/index.toml lists those that are known");
}

/// A few of them, short ones.
#[test]
fn a_few_scenes() {
    let index = Index::read();
    hold(&index, &index.quick);
}

#[test]
#[ignore = "minutes: cargo test -p quell-policy --test recommend -- --ignored --nocapture"]
fn the_scenes_that_the_rule_was_written_with() {
    let index = Index::read();
    hold(&index, &index.written_with);
}

#[test]
#[ignore = "minutes: cargo test -p quell-policy --test recommend -- --ignored --nocapture"]
fn the_scenes_that_were_held_out() {
    let index = Index::read();
    hold(&index, &index.held_out);
}

#[test]
fn the_split_is_by_the_order_of_the_files() {
    let index = Index::read();
    let mut files = Index::scenes();
    files.sort_by_key(|name| format!("{name}.toml"));
    let every_second = |from: usize| -> Vec<String> { files.iter().skip(from).step_by(2).cloned().collect() };
    assert_eq!((files.len(), &index.written_with, &index.held_out), (30, &every_second(0), &every_second(1)));
    assert!(index.quick.iter().all(|name| files.contains(name)) && !index.quick.is_empty());
}

#[test]
fn ten_percent_better_and_not_worse_in_the_other_beats() {
    let own = Outcome { tails: vec![100.0, 50.0], work: 10.0 };
    let other = |tails: [f64; 2], work| Outcome { tails: tails.into(), work };
    assert!(other([80.0, 50.0], 10.0).beats(&own) && other([100.0, 50.0], 11.5).beats(&own));
    assert!(other([89.0, 50.9], 9.9).beats(&own), "2 % is not worse");
    assert!(!other([95.0, 50.0], 10.5).beats(&own) && !other([50.0, 60.0], 12.0).beats(&own));
    assert!(!other([50.0, 25.0], 9.0).beats(&own) && !own.beats(&own));
}
