//! The instants at which the machine is looked at.

use quell_model::Nanos;

/// One instant in each stretch of time of this length (`bpf/sampler.h`).
const STRETCH_SHIFT: u32 = 18;

/// The instants of a session: one at random in each stretch of [`Instants::STRETCH`] since its origin. As the BPF program has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instants {
    /// Since when.
    pub origin: Nanos,
    /// The session's number, which makes its instants others than the last one's.
    pub session: u32,
}

impl Instants {
    /// The time for which an instant stands.
    pub const STRETCH: Nanos = Nanos(1 << STRETCH_SHIFT);

    /// The number of instants up to this time.
    #[must_use]
    pub fn until(&self, at: Nanos) -> u32 {
        let passed = at.0.saturating_sub(self.origin.0);
        let stretch = passed >> STRETCH_SHIFT;
        let mixed = stretch.wrapping_add(u64::from(self.session)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let is_over = passed & (Instants::STRETCH.0 - 1) >= mixed >> (64 - STRETCH_SHIFT);
        (stretch + u64::from(is_over)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_has_one_instant_anywhere_in_it() {
        let instants = Instants { origin: Nanos(12_345), session: 7 };
        let (mut sum, mut early, stretches) = (0.0, 0, 20_000u32);
        for stretch in 0..stretches {
            let begin = instants.origin + Nanos(u64::from(stretch) << STRETCH_SHIFT);
            assert!([stretch, stretch + 1].contains(&instants.until(begin)));
            assert_eq!(instants.until(begin + Instants::STRETCH - Nanos(1)), stretch + 1);
            // Where it is, to a hundredth.
            let steps =
                (0..100).filter(|step| instants.until(begin + Nanos(Instants::STRETCH.0 * step / 100)) == stretch);
            let place = steps.count();
            sum += place as f64;
            early += u32::from(place < 10);
        }
        let mean = sum / f64::from(stretches);
        assert!((49.0..52.0).contains(&mean), "{mean}");
        assert!((1700..2300).contains(&early), "a tenth of them in the first tenth: {early}");
        assert_eq!(instants.until(Nanos::ZERO), instants.until(instants.origin));
    }
}
