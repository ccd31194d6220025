//! The rule: questions in order, the first yes is the answer.

use quell_model::Class;

use super::advice::Answer;
use super::facts::{Contended, MachineFacts, OwnScheduler, WorkloadFacts};

/// One question.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The question, as `docs/start/which-policy.md` has it.
    pub question: &'static str,
    /// What a yes recommends.
    pub answer: Answer,
    /// What must be known of the workload for it, in a few words; empty: nothing.
    pub needs: &'static str,
    /// Yes or no; none: not known.
    pub holds: fn(&WorkloadFacts) -> Option<bool>,
    /// What the machine must have for it: what is missing, if something is.
    pub lacks: fn(&MachineFacts, &WorkloadFacts) -> Option<String>,
    /// Why, in one sentence.
    pub because: fn(&WorkloadFacts) -> String,
}

fn nothing(_: &MachineFacts, _: &WorkloadFacts) -> Option<String> {
    None
}

fn runs_long(workload: &WorkloadFacts) -> Option<bool> {
    workload.longest_run.map(|run| run >= workload.run_budget)
}

fn longest(workload: &WorkloadFacts) -> String {
    let run = workload.longest_run.unwrap_or_default();
    format!("one of its threads ran for {run} without blocking, and guard demotes at {}", workload.run_budget)
}

fn no_own_scheduler(machine: &MachineFacts, _: &WorkloadFacts) -> Option<String> {
    match &machine.own_scheduler {
        OwnScheduler::Usable => None,
        OwnScheduler::No(why) => Some(why.clone()),
    }
}

fn no_spare_cpu(machine: &MachineFacts, workload: &WorkloadFacts) -> Option<String> {
    let (needs, has) = (workload.whole_cpus(), machine.cpus);
    match () {
        () if needs >= has => Some(format!("{needs} whole CPUs of {has} would leave none to the rest")),
        () if machine.alone => {
            Some("whole CPUs are kept from what Quell manages, which is nothing else here".to_owned())
        }
        () => None,
    }
}

/// All of them.
pub const RULES: &[Rule] = &[
    Rule {
        question: "Is it best-effort itself?",
        answer: Answer::Policy("guard"),
        needs: "",
        holds: |workload| Some(workload.class == Class::BestEffort),
        lacks: nothing,
        because: |_| "best-effort work runs under guard only where a CPU would idle".into(),
    },
    Rule {
        question: "Is it not disturbed at all?",
        answer: Answer::Nothing,
        needs: "whether anything disturbs it",
        holds: |workload| workload.disturbed.map(|disturbed| !disturbed),
        lacks: nothing,
        because: |_| "it hardly waits for a CPU: no policy would give it more".into(),
    },
    Rule {
        question: "May the batch work just get less?",
        answer: Answer::CpuWeight,
        needs: "whether the batch work may just get less",
        holds: |workload| workload.batch_may_get_less,
        lacks: nothing,
        because: |_| {
            "the kernel divides CPU time by weight without a program of Quell's; waits of milliseconds remain".into()
        },
    },
    Rule {
        question: "Do its threads run longer than a run budget (50 ms) without a pause, and has the kernel sched_ext?",
        answer: Answer::Policy("caladan"),
        needs: "how long its threads run without a pause",
        holds: runs_long,
        lacks: no_own_scheduler,
        because: |workload| format!("{}: caladan takes a CPU away only where it idles", longest(workload)),
    },
    Rule {
        question: "Do they, and whole CPUs can be spared?",
        answer: Answer::Policy("rkube"),
        needs: "",
        holds: runs_long,
        lacks: no_spare_cpu,
        because: |workload| format!("{}: whole CPUs of its own are not taken away", longest(workload)),
    },
    Rule {
        question: "Do they, and none can be spared?",
        answer: Answer::CpuWeight,
        needs: "",
        holds: runs_long,
        lacks: nothing,
        because: |workload| match workload.is_unit() {
            true => format!("{}: a weight holds for long runs, too", longest(workload)),
            false => {
                format!("{}: what disturbs it can be made best-effort, and `quell gap` names that", longest(workload))
            }
        },
    },
    Rule {
        question: "Does its load move within milliseconds, and has the kernel sched_ext?",
        answer: Answer::Policy("caladan"),
        needs: "how fast its load moves",
        holds: |workload| workload.moves,
        lacks: no_own_scheduler,
        because: |_| "its load moves by more than a CPU within milliseconds, and CPUs follow it every 10 µs".into(),
    },
    Rule {
        question: "Is its demand known, as tasks or as a rate of requests?",
        answer: Answer::Policy("vas"),
        needs: "its demand",
        holds: |workload| workload.demand_known,
        lacks: nothing,
        because: |_| "a known demand gives the least budget with the latency of a whole CPU".into(),
    },
    Rule {
        question: "Are caches or memory bandwidth contended, and does the hardware count that?",
        answer: Answer::Policy("his"),
        needs: "whether caches or memory bandwidth are contended, which is not measured (--contended)",
        holds: |workload| workload.contended.map(|what| what != Contended::Cpu),
        lacks: |machine, _| (!machine.counters).then(|| "the hardware counts neither LLC hits nor bandwidth".into()),
        because: |workload| {
            let what = workload.contended.map_or("something", Contended::name);
            format!(
                "{what} is contended, and his isolates it step by step by what is counted; how much that varies by itself is not \
                 known here: compare before and after"
            )
        },
    },
    Rule {
        question: "Anything else?",
        answer: Answer::Policy("guard"),
        needs: "",
        holds: |_| Some(true),
        lacks: nothing,
        because: |_| "it works on any kernel, without counters or reported latencies".into(),
    },
];
