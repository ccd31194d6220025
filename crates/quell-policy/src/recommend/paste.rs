//! The line to paste.

use quell_model::Class;

use super::advice::Answer;
use super::facts::WorkloadFacts;

/// The line, and the configuration that it reads, where a command line cannot say enough.
pub fn of(answer: Answer, workload: &WorkloadFacts) -> (Option<String>, Option<String>) {
    let target = quoted(&workload.target);
    let cpus = workload.whole_cpus();
    match answer {
        Answer::Nothing => (None, None),
        Answer::CpuWeight => (Some(weight(workload)), None),
        Answer::Policy("guard") if workload.class == Class::BestEffort => {
            (Some(format!("quell protect --be {target}")), None)
        }
        Answer::Policy("guard") => (Some(format!("quell protect {target}")), None),
        Answer::Policy("rkube") => {
            (Some(format!("quell protect --policy rkube --strict --cpus {cpus} {target}")), None)
        }
        Answer::Policy("caladan") => (Some(format!("quell protect --policy caladan --cpus {cpus} {target}")), None),
        Answer::Policy(policy) => {
            (Some(format!("quell run --config {policy}.toml")), Some(configuration(policy, workload)))
        }
    }
}

/// The weight of what runs beside it, which the reader must name; of itself, where it is what must not be demoted.
fn weight(workload: &WorkloadFacts) -> String {
    if workload.batch_may_get_less == Some(true) {
        "systemctl set-property --runtime BATCH.service CPUWeight=10".into()
    } else {
        format!("systemctl set-property --runtime {} CPUWeight=10000", quoted(&workload.target))
    }
}

/// As one word of a shell.
fn quoted(target: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    if !target.is_empty() && target.chars().all(is_plain) {
        return target.into();
    }
    format!("'{}'", target.replace('\'', r"'\''"))
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
