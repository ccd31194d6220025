//! vas-rtns21's task sets, and what the issue expects of them.

use quell_model::Nanos;
use quell_policy::vas::{Analysis, Bounds, Busy, Interface, Margin, Releases, TaskSet, VasError};

use crate::task;

/// Γ1 (§4.2) and Γ2 (§6.1), ms.
const HARMONIC: [(u64, u64, u64); 4] = [(150, 40, 250), (100, 200, 500), (50, 100, 1000), (0, 200, 2000)];
const OTHER: [(u64, u64, u64); 4] = [(15, 4, 20), (10, 6, 30), (5, 10, 50), (0, 7, 70)];

fn ms(number: u64) -> Nanos {
    Nanos::from_millis(number)
}

fn interface(budget: u64, period: u64) -> Interface {
    Interface { budget: ms(budget), period: ms(period) }
}

fn busy(tasks: &[(u64, u64, u64)], releases: Releases) -> Busy {
    let in_ms = |&(offset, work, period): &(u64, u64, u64)| task((ms(offset).0, ms(work).0, ms(period).0));
    Busy::of(&TaskSet::new(tasks.iter().map(in_ms).collect(), releases).unwrap())
}

fn within(busy: &Busy, bounds: Bounds) -> Result<Analysis, VasError> {
    Analysis::within(busy, Margin::NONE, bounds)
}

fn enforced(bound: u64) -> Bounds {
    Bounds { enforced: Some(ms(bound)), ..Bounds::default() }
}

#[test]
fn the_least_interfaces_are_the_papers() {
    let first = busy(&HARMONIC, Releases::Periodic);
    let analysis = Analysis::least(&first, Margin::NONE);
    assert_eq!((analysis.interface, analysis.shorter), (interface(1520, 2000), None));
    assert_eq!((analysis.interface.share(), analysis.conforming), (0.76, ms(580)));
    assert_eq!(analysis.recommended.blackout(), Some(ms(3040)));
    assert_eq!(Analysis::least(&first, Margin::USUAL).recommended, interface(1620, 2000));
    assert_eq!(Analysis::least(&busy(&HARMONIC, Releases::Sporadic), Margin::NONE).conforming, ms(860));

    let second = Analysis::least(&busy(&OTHER, Releases::Periodic), Margin::NONE);
    assert_eq!((second.interface, second.conforming), (interface(1470, 2100), ms(37)));
}

#[test]
fn a_bound_on_the_blackout_gives_the_least_bandwidth_within_it() {
    let (first, second) = (busy(&HARMONIC, Releases::Periodic), busy(&OTHER, Releases::Periodic));
    assert_eq!(within(&first, enforced(2000)).unwrap().interface, interface(860, 1000));
    assert_eq!(within(&second, enforced(200)).unwrap().interface, interface(92, 120));
    let conforming = |bound| Bounds { conforming: Some(ms(bound)), ..Bounds::default() };
    let error = within(&first, conforming(500)).unwrap_err();
    assert!(error.to_string().starts_with("impossible, at least 580 ms"), "{error}");
    assert_eq!(within(&first, conforming(580)).unwrap().interface, interface(1520, 2000));
}

#[test]
fn the_least_enforced_blackout_is_two_of_the_longest_busy_intervals() {
    let first = busy(&HARMONIC, Releases::Periodic);
    match within(&first, enforced(1159)) {
        Err(VasError::Impossible { least, .. }) => assert_eq!(least, ms(1160)),
        other => panic!("{other:?}"),
    }
    let analysis = within(&first, enforced(1160)).unwrap();
    assert_eq!(analysis.interface.budget, ms(580));
    // With a margin the bound holds for what is recommended.
    let with_margin = Analysis::within(&first, Margin::USUAL, enforced(1800)).unwrap();
    assert!(with_margin.recommended.blackout().unwrap() <= ms(1800), "{with_margin:?}");
    assert!(with_margin.interface.budget < ms(860), "{with_margin:?}");
    let all = Margin::points(100.0).unwrap();
    let error = Analysis::within(&first, all, enforced(2000)).unwrap_err();
    assert!(matches!(error, VasError::Never { .. }), "{error}");
}

#[test]
fn a_redis_with_six_clients_asks_for_72_per_cent() {
    // §6.2: six clients, HSET of 0.12 ms every 1 ms.
    let clients = vec![task((0, 120_000, 1_000_000)); 6];
    for releases in [Releases::Periodic, Releases::Sporadic] {
        let busy = Busy::of(&TaskSet::new(clients.clone(), releases).unwrap());
        let least = Analysis::least(&busy, Margin::USUAL);
        assert_eq!(least.recommended, Interface { budget: Nanos(770_000), period: Nanos(1_000_000) });
    }
}
