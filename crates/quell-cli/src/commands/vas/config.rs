//! The answer as a `[[workload]]` of `quell run`'s configuration.

use quell_policy::vas::exact;
use toml::Value;

use super::answer::Answer;

/// The lines. What the configuration has no key for stands in comments.
pub fn lines(name: &str, answer: &Answer) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let server = answer.recommended;
    // Configurations count thousandths of a CPU: rounded up.
    let cpus = (server.share() * 1000.0 - 1e-9).ceil() / 1000.0;
    let mut lines = vec![
        format!("# A server for {}: {} every {}.", name.escape_debug(), exact(server.budget), exact(server.period)),
        "# No policy keeps budgets a period yet, and there is no key for them: `cpus` has their mean alone.".to_owned(),
        "[[workload]]".to_owned(),
        format!("name = {}", text(name)),
        "class = \"lc\"".to_owned(),
        format!("cpus = {cpus}"),
    ];
    lines.extend(
        answer.stream.as_ref().map(|stream| {
            format!("slo = {{ quantile = {}, bound = {} }}", stream.quantile, text(&exact(stream.bound)))
        }),
    );
    lines.push(format!("match = [{{ unit = {} }}] # where its threads are", text(&format!("{name}.service"))));
    lines.join("\n") + "\n"
}
