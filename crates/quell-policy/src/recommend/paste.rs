//! The line to paste.

use quell_model::Class;

use super::advice::Answer;
use super::facts::{MachineFacts, WorkloadFacts};

/// The line, and the configuration that it reads, where a command line cannot say enough.
pub fn of(answer: Answer, machine: &MachineFacts, workload: &WorkloadFacts) -> (Option<String>, Option<String>) {
    let (line, configuration) = as_root(answer, machine, workload);
    let line = line.map(|line| if machine.has_rights { line } else { format!("sudo {line}") });
    (line, configuration)
}

fn as_root(answer: Answer, machine: &MachineFacts, workload: &WorkloadFacts) -> (Option<String>, Option<String>) {
    let target = &workload.target;
    let cpus = workload.whole_cpus();
    match answer {
        Answer::Nothing => (None, None),
        Answer::CpuWeight => (Some(weight(machine, workload)), None),
        Answer::Policy("guard") if workload.class == Class::BestEffort => {
            (Some(format!("quell protect --be {target}")), None)
        }
        Answer::Policy("guard") => (Some(format!("quell protect {target}")), None),
        Answer::Policy("rkube") => {
            (Some(format!("quell protect --policy rkube --strict --cpus {cpus} {target}")), None)
        }
        Answer::Policy(policy) => {
            (Some(format!("quell run --config {policy}.toml")), Some(configuration(policy, workload)))
        }
    }
}

/// Only a unit has a weight that one command sets: its own, where it is what must not be demoted. Else what runs beside it gets
/// less, and the reader must name that.
fn weight(machine: &MachineFacts, workload: &WorkloadFacts) -> String {
    let is_batchs = workload.batch_may_get_less == Some(true);
    if !is_batchs && workload.is_unit() {
        format!("systemctl set-property --runtime {} CPUWeight=10000", workload.target)
    } else if is_batchs || (machine.has_rights && machine.cannot.contains_key("guard")) {
        "systemctl set-property --runtime BATCH.service CPUWeight=10".into()
    } else {
        "quell protect --be BATCH".into()
    }
}

fn configuration(policy: &str, workload: &WorkloadFacts) -> String {
    let entry = match policy {
        "vas" => "demand = { budget = \"2ms\", period = \"10ms\" } # `quell vas` works it out".to_owned(),
        _ => format!("cpus = {}", workload.whole_cpus()),
    };
    format!(
        "[[policy]]\nname = \"{policy}\"\n\n[[workload]]\nname = \"service\"\nclass = \"lc\"\n{entry}\nmatch = [{}]\n\n\
         [[workload]]\nname = \"batch\"\nclass = \"be\"\npausable = true\nmatch = [{{ unit = \"BATCH.service\" }}]\n",
        workload.selector
    )
}
