//! The rule as a table.

use std::collections::BTreeMap;

use quell_model::{Class, CpuCount, Nanos};

use super::*;

fn machine() -> MachineFacts {
    MachineFacts {
        cpus: 8,
        own_scheduler: OwnScheduler::Usable,
        alone: false,
        has_rights: true,
        cannot: BTreeMap::new(),
        counters: true,
        resctrl: true,
    }
}

fn stock() -> MachineFacts {
    MachineFacts { own_scheduler: OwnScheduler::No("this kernel has no sched_ext".into()), ..machine() }
}

/// Disturbed, short runs, steady, no demand, CPU time contended.
fn web() -> WorkloadFacts {
    WorkloadFacts {
        cpus: Some(CpuCount::whole(2)),
        disturbed: Some(true),
        longest_run: Some(Nanos::from_millis(3)),
        moves: Some(false),
        demand_known: Some(false),
        contended: Some(Contended::Cpu),
        batch_may_get_less: Some(false),
        ..WorkloadFacts::unknown("nginx.service", "{ unit = \"nginx.service\" }", Class::LatencyCritical)
    }
}

#[test]
fn the_first_yes_is_the_answer() {
    let long = Some(Nanos::from_millis(60));
    let without = |policy: &'static str| MachineFacts {
        cannot: [(policy, "signal 'x' is missing".to_owned())].into(),
        ..machine()
    };
    let small = MachineFacts { cpus: 2, ..stock() };
    let blind = MachineFacts { counters: false, ..machine() };
    let bandwidth = || WorkloadFacts { contended: Some(Contended::Bandwidth), ..web() };
    let moving = || WorkloadFacts { moves: Some(true), ..web() };
    let known = || WorkloadFacts { demand_known: Some(true), ..web() };
    let table: Vec<(MachineFacts, WorkloadFacts, &str, usize)> = vec![
        (machine(), web(), "guard", 0),
        (stock(), web(), "guard", 0),
        (machine(), WorkloadFacts { disturbed: Some(false), longest_run: long, ..moving() }, "nothing", 0),
        (machine(), WorkloadFacts { batch_may_get_less: Some(true), longest_run: long, ..moving() }, "CPUWeight=", 0),
        (machine(), WorkloadFacts { longest_run: long, ..web() }, "caladan", 0),
        (stock(), WorkloadFacts { longest_run: long, ..moving() }, "rkube", 1),
        (stock(), WorkloadFacts { longest_run: Some(web().run_budget), ..web() }, "rkube", 1),
        (machine(), WorkloadFacts { longest_run: Some(Nanos::from_micros(49_999)), ..web() }, "guard", 0),
        (stock(), WorkloadFacts { longest_run: long, run_budget: Nanos::from_millis(61), ..web() }, "guard", 0),
        (small, WorkloadFacts { longest_run: long, ..web() }, "CPUWeight=", 2),
        (MachineFacts { alone: true, ..stock() }, WorkloadFacts { longest_run: long, ..web() }, "CPUWeight=", 2),
        (MachineFacts { alone: true, ..machine() }, WorkloadFacts { longest_run: long, ..web() }, "caladan", 0),
        (without("caladan"), WorkloadFacts { longest_run: long, ..web() }, "rkube", 1),
        (machine(), moving(), "caladan", 0),
        (stock(), moving(), "guard", 1),
        (stock(), WorkloadFacts { demand_known: Some(true), ..moving() }, "vas", 1),
        (machine(), known(), "vas", 0),
        (without("vas"), known(), "guard", 1),
        (machine(), bandwidth(), "his", 0),
        (machine(), WorkloadFacts { contended: Some(Contended::Cache), ..web() }, "his", 0),
        (blind, bandwidth(), "guard", 1),
        (without("his"), bandwidth(), "guard", 1),
        (without("guard"), web(), "CPUWeight=", 1),
        (machine(), WorkloadFacts { class: Class::BestEffort, ..moving() }, "guard", 0),
    ];
    for (machine, workload, answer, not_here) in table {
        let advice = recommend(&machine, Some(&workload));
        assert_eq!(advice.answer.to_string(), answer, "{machine:?} {workload:?}");
        assert_eq!(advice.not_here.len(), not_here, "{advice:?}");
        assert!(advice.unknown.is_empty() && !advice.why.is_empty() && advice.headline.contains("nginx"), "{advice:?}");
    }
}

#[test]
fn what_is_not_known_is_said_and_answers_nothing() {
    let advice = recommend(&machine(), None);
    assert_eq!((advice.answer, advice.paste.as_deref()), (Answer::Policy("guard"), Some("quell protect NAME")));
    let asked: Vec<&str> = RULES.iter().map(|rule| rule.needs).filter(|needs| !needs.is_empty()).collect();
    assert_eq!(advice.unknown, asked);
    let unsure = WorkloadFacts { moves: None, contended: None, ..web() };
    let advice = recommend(&machine(), Some(&unsure));
    assert_eq!(advice.answer, Answer::Policy("guard"));
    assert_eq!(advice.unknown, ["how fast its load moves", RULES[8].needs]);
    let long = WorkloadFacts { longest_run: Some(Nanos::from_millis(60)), ..unsure };
    assert_eq!(recommend(&machine(), Some(&long)).unknown, [""; 0], "it could not have changed the answer");
}

#[test]
fn the_line_to_paste_names_the_workload_in_its_own_words() {
    let paste = |workload: &WorkloadFacts| recommend(&stock(), Some(workload)).paste.unwrap();
    assert_eq!(paste(&web()), "quell protect nginx.service");
    assert_eq!(paste(&WorkloadFacts { target: "22750 22751".into(), ..web() }), "quell protect 22750 22751");
    assert_eq!(paste(&WorkloadFacts { class: Class::BestEffort, ..web() }), "quell protect --be nginx.service");
    let long = WorkloadFacts { longest_run: Some(Nanos::from_secs(1)), cpus: Some(CpuCount(1200)), ..web() };
    assert_eq!(paste(&long), "quell protect --policy rkube --strict --cpus 2 nginx.service");
    let on_its_own = recommend(&machine(), Some(&long));
    assert_eq!(on_its_own.paste.as_deref(), Some("quell run --config caladan.toml"), "it loads Quell's scheduler");
    let configuration = on_its_own.configuration.unwrap();
    assert!(configuration.contains("name = \"caladan\"") && configuration.contains("cpus = 2"), "{configuration}");
    let less = WorkloadFacts { batch_may_get_less: Some(true), ..web() };
    assert_eq!(paste(&less), "systemctl set-property --runtime BATCH.service CPUWeight=10");
    let advice = recommend(&machine(), Some(&WorkloadFacts { disturbed: Some(false), ..web() }));
    assert_eq!((advice.paste, advice.configuration), (None, None));
}

#[test]
fn want_of_rights_is_not_a_lack_of_the_machine() {
    let cannot = crate::AnyPolicy::ALL.iter().map(|policy| (policy.name, "no right".to_owned())).collect();
    let user = MachineFacts { has_rights: false, cannot, ..stock() };
    let advice = recommend(&user, Some(&web()));
    assert_eq!(advice.paste.as_deref(), Some("sudo quell protect nginx.service"));
    assert!(advice.not_here.is_empty() && advice.unknown.iter().any(|what| what.contains("root")), "{advice:?}");
    let root = MachineFacts { has_rights: true, ..user };
    assert_eq!(recommend(&root, Some(&web())).answer, Answer::CpuWeight);
}

#[test]
fn only_a_unit_gets_a_weight_of_its_own() {
    let long = Some(Nanos::from_secs(1));
    let small = MachineFacts { cpus: 2, ..stock() };
    let unable = MachineFacts { cannot: [("guard", "no right".to_owned())].into(), ..small.clone() };
    let paste = |machine: &MachineFacts, target: &str| {
        let facts = WorkloadFacts { longest_run: long, target: target.into(), ..web() };
        let advice = recommend(machine, Some(&facts));
        assert_eq!(advice.answer, Answer::CpuWeight);
        advice.paste.unwrap()
    };
    for unit in ["nginx.service", "session-2.scope", r"'dev-\x2d.slice'"] {
        assert_eq!(paste(&small, unit), format!("systemctl set-property --runtime {unit} CPUWeight=10000"));
    }
    for other in ["22750", "22750 22751", "container:4f66ad9a4f66", "/system.slice/nginx.service", ".service"] {
        assert_eq!(paste(&small, other), "quell protect --be BATCH");
        assert_eq!(paste(&unable, other), "systemctl set-property --runtime BATCH.service CPUWeight=10");
    }
}

#[test]
fn every_policy_of_the_rule_exists_and_every_question_is_asked_once() {
    for rule in RULES {
        assert!(rule.answer.policy().is_none_or(|name| crate::AnyPolicy::named(name).is_some()), "{rule:?}");
        assert_eq!(RULES.iter().filter(|other| other.question == rule.question).count(), 1);
    }
    assert_eq!((RULES.last().unwrap().holds)(&web()), Some(true), "there is always an answer");
}

#[test]
fn facts_of_a_machine_come_from_its_capabilities() {
    use quell_model::{Capabilities, KnobKind, Signal, Support};
    let mut has = Capabilities::default();
    has.signals.insert(Signal::CriticalThreads, Support::Yes);
    has.knobs.insert(KnobKind::Class, Support::Yes);
    let facts = MachineFacts::new(4, OwnScheduler::Usable, |_| has.clone());
    assert!(!facts.cannot.contains_key("guard") && facts.cannot.contains_key("his"));
    assert!(!facts.counters && !facts.resctrl);
    has.signals.insert(Signal::WorkloadBandwidth, Support::Partly("64 bytes a miss".into()));
    has.knobs.insert(KnobKind::CacheWays, Support::Yes);
    let facts = MachineFacts::new(4, OwnScheduler::Usable, |_| has.clone());
    assert!(facts.counters && facts.resctrl);
}

/// The page for people has the same questions in the same order, each with the same answer.
#[test]
fn the_page_asks_the_same() {
    let page = include_str!("../../../../docs/start/which-policy.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, mut rest) = page.split_once("The first yes is the answer").unwrap();
    for (at, rule) in RULES.iter().enumerate() {
        let question = format!(" {}. *{}* ", at + 1, rule.question);
        let (_, after) =
            rest.split_once(&question).unwrap_or_else(|| panic!("the page lacks{question}or has it elsewhere"));
        let answer = match rule.answer {
            Answer::Policy(name) => format!("[{name}]("),
            Answer::CpuWeight => "`CPUWeight=`".into(),
            Answer::Nothing => "Then nothing".into(),
        };
        assert!(after.starts_with(&answer), "{question}is answered by {answer}");
        rest = after;
    }
    assert!(!rest.contains("?* "), "the page has more questions than the rule");
}
