//! The answer as a `[[workload]]` of `quell run`'s configuration, for the policy `vas`.

use toml::Value;

use super::answer::Answer;

/// The lines.
pub fn lines(name: &str, answer: &Answer) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let server = answer.recommended;
    let mut lines = vec![
        format!("# A server of {:.2} % of a CPU, which the policy vas keeps.", server.share() * 100.0),
        "[[workload]]".to_owned(),
        format!("name = {}", text(name)),
        "class = \"lc\"".to_owned(),
        format!("demand = {{ budget = {}, period = {} }}", text(&server.budget.exact()), text(&server.period.exact())),
    ];
    lines.extend(
        answer.stream.as_ref().map(|stream| {
            format!("slo = {{ quantile = {}, bound = {} }}", stream.quantile, text(&stream.bound.exact()))
        }),
    );
    lines.push(format!("match = [{{ unit = {} }}] # where its threads are", text(&format!("{name}.service"))));
    lines.join("\n") + "\n"
}
