//! Every scenario that comes with Quell: twice the same bytes, and the bytes that it has always had.

use std::path::Path;

use quell_model::Policy;
use quell_policy::AnyPolicy;
use quell_sim::host::Lending;
use quell_sim::scenario::{Detail, Run, SHIPPED, Scenario, Treatment};

/// FNV-1a over the JSON of all reports. A changed model changes these numbers: look at what changed, then write the
/// new ones here.
const HASHES: &[(&str, u64)] = &[
    ("colocation", 13_866_852_124_079_469_566),
    ("consolidated-vms", 7_429_918_559_950_156_644),
    ("contended", 15_524_411_976_257_721_641),
    ("critical-path", 10_111_177_209_285_970_738),
    ("dasec", 251_701_769_748_524_152),
    ("edge", 15_615_813_711_691_997_611),
    ("hundred", 600_854_435_223_506_736),
    ("memcached-2cpus", 9_155_837_637_899_827_098),
    ("periodic", 13_497_918_193_984_062_037),
    ("rkube-figure3", 14_332_919_385_958_821_385),
    ("sdc", 254_079_827_719_129_849),
    ("stacked", 9_466_679_754_788_747_460),
    ("vas", 7_475_067_371_142_716_401),
    ("work-stealing", 7_551_473_944_777_938_184),
];

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn output(text: &str) -> String {
    let short = ["duration=300ms".to_owned(), "warm_up=50ms".to_owned()];
    let scenario = Scenario::parse(Path::new("shipped"), text, &short).unwrap();
    let reports = scenario.stacks().into_iter().map(|stack| {
        let policies = stack
            .policies
            .iter()
            .map(|policy| (AnyPolicy::named(&policy.name).unwrap(), policy.workloads.names().map(<[String]>::to_vec)));
        let policies: Vec<_> = policies.collect();
        let grants = policies.iter().any(|(policy, _)| policy.describe().grants);
        let lending = if grants && stack.scheduler.is_some() { Lending::Affinity } else { grants.into() };
        let run = Run::new(&scenario, Treatment { policies, lending }, 0).unwrap();
        let observed = run.finish(Detail::Totals, |_| {});
        serde_json::to_string(&scenario.report(&stack.name(), &[observed])).unwrap()
    });
    reports.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_scenario_repeats_byte_for_byte_here_and_everywhere() {
    let outputs: Vec<String> = SHIPPED.iter().map(|shipped| output(shipped.text)).collect();
    let again: Vec<String> = SHIPPED.iter().map(|shipped| output(shipped.text)).collect();
    assert_eq!(outputs, again);
    let hashes: Vec<(&str, u64)> =
        SHIPPED.iter().zip(&outputs).map(|(shipped, output)| (shipped.name, hash(output))).collect();
    assert_eq!(hashes, HASHES);
}

#[test]
fn every_scenario_makes_sense_as_it_is() {
    for shipped in SHIPPED {
        let scenario = Scenario::parse(Path::new(shipped.name), shipped.text, &[]).unwrap();
        assert!(!scenario.title.is_empty());
        for policy in scenario.stacks().iter().flat_map(|stack| &stack.policies) {
            AnyPolicy::build(&policy.name, policy.deserializer()).unwrap();
        }
    }
}

/// The command lines in the scenarios' comments.
#[test]
fn what_the_comments_suggest_can_be_done() {
    let mut seen = 0;
    for shipped in SHIPPED {
        let suggested = shipped.text.lines().filter(|line| line.starts_with("#   quell-lab run "));
        for line in suggested {
            let words = line.split_whitespace().map(|word| word.trim_matches('\'').to_owned());
            let set = |(before, word): (String, String)| (before == "--set").then_some(word);
            let changes: Vec<String> = words.clone().zip(words.skip(1)).filter_map(set).collect();
            let scenario = Scenario::parse(Path::new(shipped.name), shipped.text, &changes);
            assert!(scenario.is_ok(), "{line}: {}", scenario.unwrap_err());
            seen += changes.len();
        }
    }
    assert!(seen > 5, "{seen}");
}
