//! Each file of the BPF scheduler says at its head which problem it solves, by which rule, and where that ends.

use std::fs;
use std::path::Path;

#[test]
fn each_header_of_the_scheduler_says_problem_rule_and_limits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quell-scx/src/bpf");
    let mut read = 0;
    for entry in fs::read_dir(&folder).expect("the scheduler's sources") {
        let path = entry.expect("a file").path();
        if !path.extension().is_some_and(|extension| extension == "h" || extension == "c") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let head = text.split("#ifndef").next().unwrap_or_default().split("#include").next().unwrap_or_default();
        let places: Vec<_> = ["Problem: ", "Rule: ", "Limits: "].map(|word| head.find(word)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{}: {places:?}", path.display());
        read += 1;
    }
    assert!(read > 15, "{read} files");
}
