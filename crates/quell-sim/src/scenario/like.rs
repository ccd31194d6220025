//! Real kernels that a simulated one can be set like, by one key of a scene.

use toml::map::Entry;
use toml::{Table, Value};

use crate::mechanisms::Like;

/// A kernel's settings; the file says when and how they were found.
fn settings(like: Like) -> &'static str {
    match like {
        Like::Lab618 => include_str!("lab-6.18.toml"),
    }
}

/// Sets what a scene's `kernel` does not set itself like the kernel that it names, if it names one.
pub(super) fn fill(scene: &mut Table) -> Result<(), toml::de::Error> {
    let Some(Value::Table(kernel)) = scene.get_mut("kernel") else { return Ok(()) };
    let Some(like) = kernel.get("like") else { return Ok(()) };
    let settings: Table = toml::from_str(settings(like.clone().try_into::<Like>()?))?;
    add(kernel, settings);
    Ok(())
}

fn add(to: &mut Table, from: Table) {
    for (key, value) in from {
        match (to.entry(key), value) {
            (Entry::Vacant(place), value) => drop(place.insert(value)),
            (Entry::Occupied(mut place), Value::Table(below)) => {
                if let Value::Table(own) = place.get_mut() {
                    add(own, below);
                }
            }
            (Entry::Occupied(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quell_model::Nanos;

    use super::super::Scenario;
    use crate::{Interrupts, KernelConfig, Mechanism};

    fn kernel(text: &str, changes: &[&str]) -> Result<KernelConfig, String> {
        let text = format!("duration = \"1s\"\nmachine = {{ cores = 1 }}\nkernel = {{ {text} }}\n")
            + "[[workload]]\nname = \"w\"\nclass = \"be\"\nbatch = {}\n";
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        Scenario::parse(Path::new("s.toml"), &text, &changes)
            .map(|scenario| scenario.kernel)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_scene_is_set_like_a_kernel_and_its_own_keys_come_first() {
        let plain = kernel("like = \"lab-6.18\"", &[]).unwrap();
        assert!(plain.mechanisms().has(Mechanism::RandomNewidleBalance) && plain.interrupts == Interrupts::LastCpu);
        assert!(plain.costs.tick > KernelConfig::default().costs.tick);
        let own = "like = \"lab-6.18\", interrupts = \"elsewhere\", costs = { tick = \"9us\" }";
        let own = kernel(own, &["kernel.mechanisms=[]"]).unwrap();
        assert_eq!((own.interrupts, own.costs.tick), (Interrupts::Elsewhere, Nanos::from_micros(9)));
        assert_eq!(
            (own.costs.wake_up, own.mechanisms().has(Mechanism::RandomNewidleBalance)),
            (plain.costs.wake_up, false)
        );
        assert_eq!(kernel("tick = \"4ms\"", &["kernel.like=lab-6.18"]).unwrap().costs, plain.costs);
    }

    #[test]
    fn another_kernel_is_refused_with_its_place() {
        let error = kernel("like = \"windows\"", &[]).unwrap_err();
        assert!(error.contains("s.toml:3") && error.contains("lab-6.18"), "{error}");
    }
}
