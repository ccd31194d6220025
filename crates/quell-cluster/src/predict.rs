//! Predicted latency of a service (snu2020 §5.4.1, Equations 5.1 and 5.2): an M/M/1 queue whose service time is read off the
//! memory intensity, and whose utilisation off the soft interrupts.
//!
//! ```text
//! W = c · MBFR / (1 − R)          (5.1)
//! R = IRQ / IRQ_max = k · IRQ / CPU   (5.2)
//! ```
//!
//! The text gives neither c nor k. They are fitted by least squares of relative errors: with x = IRQ / CPU the equation is
//! linear in both, W = c · MBFR + k · (x · W).

use serde::{Deserialize, Serialize};

/// The two constants of a service, and the fit's error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Seconds of waiting for one memory-buffer-full event a second.
    pub c: f64,
    /// CPUs for one soft interrupt a second.
    pub k: f64,
    /// Root of the mean square of relative errors over the fitted samples.
    pub error: f64,
}

/// One measured window of a service.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Memory-buffer-full events a second.
    pub mbfr: f64,
    /// Soft interrupts a second.
    pub irq: f64,
    /// CPUs in use.
    pub cpu: f64,
    /// Mean waiting time, seconds.
    pub wait: f64,
}

/// A prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Predicted {
    /// Mean waiting time, seconds.
    Waits(f64),
    /// R is 1 or more: the queue grows without bound.
    Saturated,
}

impl Model {
    /// The constants that fit these windows best. None: fewer than three windows with load, or windows all alike. A
    /// negative k, which no queue has, is 0: then the intensity alone predicts.
    #[must_use]
    pub fn fit(windows: &[Window]) -> Option<Model> {
        let usable = |w: &&Window| w.wait > 0.0 && w.cpu > 0.0 && w.mbfr > 0.0;
        let rows: Vec<(f64, f64)> = windows.iter().filter(usable).map(|w| (w.mbfr / w.wait, w.irq / w.cpu)).collect();
        if rows.len() < 3 {
            return None;
        }
        // Minimises Σ (1 − c·a − k·x)² with a = MBFR / W.
        let sum = |of: fn(&(f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
        let (aa, ax, xx) = (sum(|(a, _)| a * a), sum(|(a, x)| a * x), sum(|(_, x)| x * x));
        let (a, x) = (sum(|(a, _)| *a), sum(|(_, x)| *x));
        let determinant = aa * xx - ax * ax;
        let (c, k) = match determinant > 1e-12 * aa * xx {
            true => ((a * xx - x * ax) / determinant, (x * aa - a * ax) / determinant),
            false => (a / aa, 0.0),
        };
        let (c, k) = if k < 0.0 || c <= 0.0 { (a / aa, 0.0) } else { (c, k) };
        let mut model = Model { c, k, error: 0.0 };
        let square = |w: &Window| match model.predict(w) {
            Predicted::Waits(wait) => (wait / w.wait - 1.0) * (wait / w.wait - 1.0),
            Predicted::Saturated => 1.0,
        };
        let squares: f64 = windows.iter().filter(usable).map(square).sum();
        model.error = libm::sqrt(squares / rows.len() as f64);
        Some(model)
    }

    /// W of Equation 5.1; its `wait` is not read. A service without CPU time waits for nothing.
    #[must_use]
    pub fn predict(&self, window: &Window) -> Predicted {
        let ratio = if window.cpu > 0.0 { self.k * window.irq / window.cpu } else { 0.0 };
        if ratio >= 1.0 { Predicted::Saturated } else { Predicted::Waits(self.c * window.mbfr / (1.0 - ratio)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_a_service_that_obeys_the_equation_are_found() {
        let made = Model { c: 2e-9, k: 4e-6, error: 0.0 };
        let window = |irq: f64| {
            let mut window = Window { mbfr: 100.0 * irq, irq, cpu: 0.5, wait: 0.0 };
            let Predicted::Waits(wait) = made.predict(&window) else { panic!("not saturated") };
            window.wait = wait;
            window
        };
        let windows: Vec<Window> = (1..10).map(|step| window(10_000.0 * f64::from(step))).collect();
        let found = Model::fit(&windows).unwrap();
        assert!((found.c / made.c - 1.0).abs() < 1e-6 && (found.k / made.k - 1.0).abs() < 1e-6, "{found:?}");
        assert!(found.error < 1e-9);
        assert_eq!(found.predict(&Window { irq: 200_000.0, ..windows[0] }), Predicted::Saturated);
        assert_eq!(Model::fit(&windows[..2]), None);
    }

    #[test]
    fn a_ratio_that_falls_with_load_is_left_out() {
        let window = |load: f64| Window {
            mbfr: 1e6 * load,
            irq: 1e4 * load,
            cpu: load * (1.0 + load),
            wait: load / (1.0 - load),
        };
        let found = Model::fit(&[window(0.2), window(0.5), window(0.8), window(0.9)]).unwrap();
        assert!(found.k == 0.0 && found.c > 0.0 && found.error > 0.1, "{found:?}");
    }
}
