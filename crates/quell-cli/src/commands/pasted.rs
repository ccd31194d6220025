//! Every line that a screen offers to paste is one that the program in it takes.

use quell_policy::recommend::Advice;

/// The part of a line that a shell would run, as words; without sudo(8).
fn words(line: &str) -> Vec<String> {
    let mut words = shlex::split(line).unwrap_or_else(|| panic!("no words of a shell: {line}"));
    if words[0] == "sudo" {
        words.remove(0);
    }
    words
}

/// The program takes the line.
pub fn assert_taken(line: &str) {
    let words = words(line);
    match words[0].as_str() {
        "quell" => {
            if let Err(error) = crate::bare_command().try_get_matches_from(&words) {
                panic!("{line}: {error}");
            }
        }
        "systemctl" => assert_is_weight_of_a_unit(line, &words),
        _ => panic!("{line}: of which program?"),
    }
}

/// `systemctl set-property --runtime UNIT CPUWeight=N`: only a name with a unit's suffix is one, and the weight is 1 to 10000
/// (systemd.resource-control(5)).
fn assert_is_weight_of_a_unit(line: &str, words: &[String]) {
    let [_, verb, option, unit, weight] = words else { panic!("{line}: not one unit and one weight") };
    assert_eq!((verb.as_str(), option.as_str()), ("set-property", "--runtime"), "{line}");
    let is_unit = [".service", ".scope", ".slice"].iter().any(|suffix| unit.ends_with(suffix));
    assert!(is_unit && !unit.contains(['/', ' ']), "{line}: {unit} is no unit");
    let weight: u32 = weight.strip_prefix("CPUWeight=").and_then(|weight| weight.parse().ok()).unwrap();
    assert!((1..=10_000).contains(&weight), "{line}");
}

/// The commands of Quell's within backticks.
pub fn within(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("quell ") || code.starts_with("sudo quell "))
}

/// The program takes the advice's line, and its configuration.
pub fn assert_advice(advice: &Advice) {
    if let Some(line) = &advice.paste {
        assert_taken(line);
        let is_run = words(line)[..2] == ["quell", "run"];
        assert_eq!(is_run, advice.configuration.is_some(), "{advice:?}");
    }
    if let Some(text) = &advice.configuration {
        let config = quell_agent::config::read_text("advice.toml".as_ref(), text).unwrap();
        assert!(advice.answer.policy().is_some() && config.policies.len() == 1, "{advice:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Class, CpuCount, Nanos};
    use quell_policy::recommend::{Contended, MachineFacts, OwnScheduler, WorkloadFacts, recommend};

    /// Words that mean a target, as `Found::target` has them, each with its entry of `match`.
    const TARGETS: [(&str, &str); 7] = [
        ("nginx.service", "{ unit = \"nginx.service\" }"),
        (r"'dev-\x2d.service'", r"{ unit = 'dev-\x2d.service' }"),
        ("session-2.scope", "{ unit = \"session-2.scope\" }"),
        ("container:4f66ad9a4f66", "{ container = \"4f66ad9a4f66\" }"),
        ("/system.slice/nginx.service", "{ cgroup = \"/system.slice/nginx.service\" }"),
        ("22750", "{ pid = 22750 }"),
        ("22750 22751", "{ pid = 22750 }, { pid = 22751 }"),
    ];

    #[test]
    fn every_line_of_a_recommendation_is_taken() {
        let machine = |cpus, own, cannot: &[&'static str]| MachineFacts {
            cpus,
            own_scheduler: if own { OwnScheduler::Usable } else { OwnScheduler::No("none".into()) },
            alone: false,
            has_rights: own,
            cannot: cannot.iter().map(|name| (*name, "missing".to_owned())).collect(),
            counters: true,
            resctrl: true,
        };
        let every: Vec<&'static str> = quell_policy::AnyPolicy::ALL.iter().map(|policy| policy.name).collect();
        let machines =
            [machine(8, true, &[]), machine(8, false, &[]), machine(2, false, &[]), machine(2, false, &every)];
        let mut answers = std::collections::BTreeSet::new();
        for ((target, selector), class) in
            TARGETS.iter().flat_map(|target| [(target, Class::LatencyCritical), (target, Class::BestEffort)])
        {
            let of = || WorkloadFacts {
                cpus: Some(CpuCount(1700)),
                disturbed: Some(true),
                ..WorkloadFacts::unknown(*target, *selector, class)
            };
            let kinds = [
                of(),
                WorkloadFacts { disturbed: Some(false), ..of() },
                WorkloadFacts { batch_may_get_less: Some(true), ..of() },
                WorkloadFacts { longest_run: Some(Nanos::from_secs(1)), ..of() },
                WorkloadFacts { moves: Some(true), ..of() },
                WorkloadFacts { demand_known: Some(true), ..of() },
                WorkloadFacts { contended: Some(Contended::Bandwidth), ..of() },
            ];
            for (machine, facts) in machines.iter().flat_map(|machine| kinds.iter().map(move |facts| (machine, facts)))
            {
                let advice = recommend(machine, Some(facts));
                assert_advice(&advice);
                answers.insert(advice.answer.to_string());
            }
        }
        assert_eq!(
            answers.into_iter().collect::<Vec<_>>(),
            ["CPUWeight=", "caladan", "guard", "his", "nothing", "rkube", "vas"]
        );
        machines.iter().for_each(|machine| assert_advice(&recommend(machine, None)));
    }

    #[test]
    #[should_panic(expected = "is no unit")]
    fn a_process_has_no_weight() {
        assert_taken("systemctl set-property --runtime 22750 CPUWeight=10000");
    }
}
