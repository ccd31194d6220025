//! How slow memory is under load.

/// How much the latency grows with load (assumed). With [`latency`]'s form: 5 % more at half of the bandwidth, a third
/// more at 80 %, 2.8 times at 95 %, as loaded-latency measurements of servers show; caladan-osdi20 App. A has the
/// "exponential increase in memory access latency" begin at 70–80 % of capacity.
const GROWTH: f64 = 0.1;

/// A reference to memory takes this many times its time on idle memory, while this part (0–1) of the bandwidth is in use:
/// 1 + 0.1 · load² / (1 − load). It rises without bound.
#[must_use]
pub fn slowdown(load: f64) -> f64 {
    if load >= 1.0 { f64::INFINITY } else { 1.0 + GROWTH * load * load / (1.0 - load) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_rises_with_load_and_without_bound() {
        let near = |load: f64, times: f64| assert!((slowdown(load) - times).abs() < 1e-9, "{load}");
        near(0.0, 1.0);
        near(0.5, 1.05);
        near(0.8, 1.32);
        near(0.95, 2.805);
        assert!(slowdown(0.999_999) > 1e4 && slowdown(1.0).is_infinite());
    }
}
