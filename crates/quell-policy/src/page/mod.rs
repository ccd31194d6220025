//! All policies and their parameters as a page.

mod signals;

pub use signals::signals_and_knobs;

use crate::AnyPolicy;
use crate::parameter::Parameter;

const HEAD: &str = "\
<!-- Generated from the policies' declarations (`parameters!` in crates/quell-policy). Do not edit; after a change there:
     QUELL_WRITE=1 cargo test -p quell-policy --test reference -->

# Policies and their parameters

Parameters stand in a `[[policy]]` of the [configuration](configuration.md) or of a [scenario](../lab/sim.md), or follow `--set`:

```toml
[[policy]]
name = \"guard\"
parameters = { interval = \"10ms\", run_budget = \"20ms\" }
```

Times are texts with a unit: `\"10us\"`, `\"1.5ms\"`, `\"2s\"`, `\"1m\"`, `\"1h\"`. `quell doctor POLICY` shows a policy's table,
too, and what the policy needs and has on this machine.
";

/// docs/reference/policies.md.
#[must_use]
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for policy in AnyPolicy::ALL {
        page += &format!("\n## `{}`\n\n{}. Source: {}.", policy.name, capital(policy.summary), policy.source);
        let parameters = AnyPolicy::parameters(policy.name).unwrap_or_default();
        page += "\n\n";
        if parameters.is_empty() {
            page += "It has no parameters.\n";
            continue;
        }
        page += "| parameter | default | allowed | meaning |\n|---|---|---|---|\n";
        page.extend(parameters.iter().map(row));
    }
    page
}

fn row(parameter: &Parameter) -> String {
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let default = parameter.default.as_deref().map_or("not set".to_owned(), code);
    let allowed = match &parameter.range {
        Some((low, high)) => {
            format!(
                "{} to {}{}",
                code(low),
                code(high),
                parameter.unit.map_or(String::new(), |unit| format!(" {unit}"))
            )
        }
        None => parameter.choices.iter().map(|word| code(word)).collect::<Vec<_>>().join(", "),
    };
    let meaning = parameter.meaning.replace('|', "\\|");
    format!("| `{}` | {default} | {allowed} | {meaning} |\n", parameter.name)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
