//! Equation 5.1's constants of each service on a node, from its own windows.

use std::collections::{BTreeMap, VecDeque};

use quell_model::Nanos;

use crate::predict::{Model, Predicted, Window};

/// Windows that are kept of a service.
const KEPT: usize = 64;
/// Windows from which constants are fitted.
const ENOUGH: usize = 8;
/// A fit whose relative errors are larger predicts nothing.
const WORST: f64 = 0.5;

/// Windows by pod.
#[derive(Clone, Debug, Default)]
pub struct Fits(BTreeMap<String, VecDeque<Window>>);

impl Fits {
    /// A service's window; with its latency, where it is measured, the constants learn.
    pub fn learn(&mut self, pod: &str, window: Window) {
        let windows = self.0.entry(pod.to_owned()).or_default();
        windows.truncate(KEPT - 1);
        windows.push_front(window);
    }

    /// The latency that its constants predict; None: too few windows, or they do not fit.
    #[must_use]
    pub fn predict(&self, pod: &str, window: &Window) -> Option<Nanos> {
        let windows: Vec<Window> = self.0.get(pod)?.iter().copied().collect();
        let model = Model::fit(&windows).filter(|model| windows.len() >= ENOUGH && model.error <= WORST)?;
        match model.predict(window) {
            Predicted::Waits(wait) if wait.is_finite() && wait >= 0.0 => Some(Nanos((wait * 1e9) as u64)),
            _ => None,
        }
    }

    /// Forgets pods that are not among these.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|pod, _| is_there(pod));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_windows_predict_the_next() {
        let window = |load: f64| Window { mbfr: 1e6 * load, irq: 0.0, cpu: 1.0, wait: 1e-4 * load };
        let mut fits = Fits::default();
        (1..8).for_each(|step| fits.learn("a/b", window(f64::from(step))));
        assert_eq!(fits.predict("a/b", &window(10.0)), None);
        fits.learn("a/b", window(8.0));
        let found = fits.predict("a/b", &window(10.0)).unwrap();
        assert!(found.0.abs_diff(1_000_000) < 1000, "{found}");
        fits.keep(|_| false);
        assert_eq!(fits.predict("a/b", &window(10.0)), None);
    }
}
