//! CPU requests and limits, from what the runtime was given.

use quell_model::CpuCount;

use crate::pod::Container;
use crate::qos::Qos;

/// Linux' default period of a quota, in µs.
const PERIOD: u64 = 100_000;

/// The CPUs that a container asks for.
pub(crate) fn requested(container: &Container, qos: Option<Qos>) -> CpuCount {
    match limit(container) {
        // Equal by definition, and exact where shares are rounded and end at 256 CPUs.
        Some(limit) if qos == Some(Qos::Guaranteed) => limit,
        _ if container.shares <= 2 => CpuCount::ZERO,
        // The kubelet rounds down: this is the only number of thousandths that gives these shares.
        _ => thousandths(u128::from(container.shares).saturating_mul(1000).div_ceil(1024)),
    }
}

/// The CPUs that it may use at most.
pub(crate) fn limit(container: &Container) -> Option<CpuCount> {
    let quota = u128::try_from(container.quota).ok().filter(|quota| *quota > 0)?;
    let period = u128::from(if container.period == 0 { PERIOD } else { container.period });
    Some(thousandths((quota * 1000 + period / 2) / period))
}

fn thousandths(count: u128) -> CpuCount {
    CpuCount(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(shares: u64, quota: i64, period: u64) -> Container {
        Container { shares, quota, period, ..Container::default() }
    }

    #[test]
    fn shares_give_back_the_thousandths_that_they_were_made_of() {
        for milli in 2..256_000_u64 {
            let shares = milli * 1024 / 1000;
            let expected = if shares <= 2 { 0 } else { milli };
            assert_eq!(u64::from(requested(&asks(shares, 0, 0), Some(Qos::Burstable)).0), expected);
        }
    }

    #[test]
    fn two_shares_are_no_request() {
        assert_eq!(requested(&asks(2, 0, 0), Some(Qos::BestEffort)), CpuCount::ZERO);
        assert_eq!(requested(&asks(0, 0, 0), None), CpuCount::ZERO);
    }

    #[test]
    fn a_guaranteed_container_asks_for_its_limit() {
        let container = asks(2, 150_000, 100_000);
        assert_eq!(requested(&container, Some(Qos::Guaranteed)), CpuCount(1500));
        assert_eq!(
            requested(&asks(2048, -1, 100_000), Some(Qos::Guaranteed)),
            CpuCount(2000),
            "the kubelet sets no quotas"
        );
        assert_eq!(requested(&container, Some(Qos::Burstable)), CpuCount::ZERO);
    }

    #[test]
    fn odd_numbers_are_survived() {
        assert_eq!(limit(&asks(0, i64::MIN, 0)), None);
        assert_eq!(limit(&asks(0, 0, 5)), None);
        assert_eq!(limit(&asks(0, 200_000, 0)), Some(CpuCount(2000)));
        assert_eq!(limit(&asks(0, i64::MAX, 1)), Some(CpuCount(u32::MAX)));
        assert_eq!(requested(&asks(u64::MAX, 0, 0), None), CpuCount(u32::MAX));
    }
}
