//! rKube's evaluation on a simulated machine with simulated contention.
//!
//! Which neighbour a sentence of the paper speaks of stands in the statement, with our reading where the text is open.

use super::Topic;
use crate::claim::{Claim, Expected, Source, Tolerance};

/// The topic.
pub const TOPIC: Topic = Topic {
    id: "rkube",
    title: "rKube's evaluation (Figures 1, 2, 6 to 12) on its machine, simulated with contention",
    claims: &[
        // Figures 1 and 2: Kubernetes' own means.
        &within(
            0.05,
            "the service time was chosen so: an input, not a result",
            number(
                "rkube.fig1b.alone-rate",
                "memcached alone, saturated: requests a second (the simulation's service time is set by it)",
                "§3.2, Fig. 1b: \"drops from 85k (single-tenant)\"",
                85_000.0,
                0.0,
            ),
        ),
        &number(
            "rkube.fig1b.alone-p99",
            "memcached alone at 37k requests a second: p99, µs",
            "§3.2, Fig. 1b: \"increases from 383\"",
            383.0,
            0.0,
        ),
        &number(
            "rkube.fig1a.bodytrack",
            "bodytrack beside the burstable memory-intensive neighbour takes so many times as long as alone (\"nearly\")",
            "§3.2, Fig. 1a: \"bodytrack and streamcluster take nearly 3× and 5× longer\"",
            3.0,
            1.0,
        ),
        &number(
            "rkube.fig1a.streamcluster",
            "streamcluster beside the burstable memory-intensive neighbour takes so many times as long as alone (\"nearly\")",
            "§3.2, Fig. 1a: \"bodytrack and streamcluster take nearly 3× and 5× longer\"",
            5.0,
            1.0,
        ),
        &number(
            "rkube.fig1b.rate",
            "memcached beside the burstable memory-intensive neighbour, saturated: requests a second",
            "§3.2, Fig. 1b: \"to 37k rps (multi-tenant)\"",
            37_000.0,
            85_000.0,
        ),
        &number(
            "rkube.fig1b.p99",
            "memcached beside that neighbour, asked for 37k requests a second: p99, µs",
            "§3.2, Fig. 1b: \"increases from 383 to 8479 μs\"",
            8_479.0,
            383.0,
        ),
        &number(
            "rkube.fig1b.p99-factor",
            "that p99 as a multiple of the one alone",
            "§3.2, Fig. 1b: \"an increase of more than 22×\"",
            22.0,
            1.0,
        ),
        &sentence(
            "rkube.fig2a.worst",
            "\"burstable & memory intensive neighbors cause the most significant performance degradation\": the worst mean slowdown of the five batch targets beside another neighbour, over that beside this one",
            "§3.3, Fig. 2a",
        ),
        &sentence(
            "rkube.fig2c.worst",
            "the same of memcached: its saturated rate beside this neighbour over the least beside another",
            "§3.3, Fig. 2c",
        ),
        &computed(
            "rkube.fig2a.capped-cpu",
            "beside the capped CPU-intensive neighbour the batch target that suffers most takes 243 % longer: 3.43 times as long as alone (our reading of \"performance reduction\")",
            "§3.4, Fig. 2a: \"still sees up to 243% performance reduction\"",
            3.43,
            1.0,
        ),
        &sentence(
            "rkube.fig2b.trend",
            "\"the CPU utilization decreases as the neighbor's contention level and burstiness increase\": the targets' mean utilisation beside the burstable memory-intensive neighbour over that beside the capped CPU-intensive one",
            "§3.4, Fig. 2b, 2c",
        ),
        &number(
            "rkube.fig2b.streamcluster",
            "streamcluster beside the burstable memory-intensive neighbour: CPU time got, of that requested",
            "§6.1, Fig. 2b: \"from 27%\"",
            0.27,
            1.0,
        ),
        &number(
            "rkube.fig2c.utilisation",
            "memcached, saturated beside that neighbour: CPU time got, of that requested",
            "§6.1, Fig. 2c: \"from 55%\"",
            0.55,
            1.0,
        ),
        // Figures 6 to 8: rKube.
        &number(
            "rkube.fig2a.streamcluster-time",
            "streamcluster beside the burstable memory-intensive neighbour: completion time, s (60 s alone, §3.1.3)",
            "§6.1, Fig. 2a: \"from 482.0 seconds\"",
            482.0,
            60.0,
        ),
        &number(
            "rkube.fig6a.streamcluster-time",
            "the same with rKube, s",
            "§6.1, Fig. 6a: \"to 86.4 seconds\"",
            86.4,
            482.0,
        ),
        &number(
            "rkube.fig6b.streamcluster",
            "the same with rKube: CPU time got, of that requested",
            "§6.1, Fig. 6b: \"to 93%\"",
            0.93,
            0.27,
        ),
        &number(
            "rkube.fig6a.least",
            "the least speed-up by rKube of all batch targets and neighbours",
            "§6.1, Fig. 6a: \"ranges from 2.1x to 5.6x\"",
            2.1,
            1.0,
        ),
        &number(
            "rkube.fig6a.most",
            "the largest speed-up by rKube of all batch targets and neighbours",
            "§6.1, Fig. 6a: \"ranges from 2.1x to 5.6x\"",
            5.6,
            1.0,
        ),
        &number(
            "rkube.fig6c.rate",
            "memcached with rKube beside the burstable memory-intensive neighbour, saturated: requests a second",
            "§6.1, Fig. 6c: \"from 37k to 62k rps\"",
            62_000.0,
            37_000.0,
        ),
        &number(
            "rkube.fig6c.utilisation",
            "the same: CPU time got, of that requested",
            "§6.1, Fig. 6c: \"from 55% to 95%\"",
            0.95,
            0.55,
        ),
        &number(
            "rkube.fig6c.least",
            "memcached's saturated rate with rKube over that without: the least over the four neighbours",
            "§6.1, Fig. 6c: \"between 1.2x to 1.7x\"",
            1.2,
            1.0,
        ),
        &number(
            "rkube.fig6c.most",
            "the same: the largest over the four neighbours",
            "§6.1, Fig. 6c: \"between 1.2x to 1.7x\"",
            1.7,
            1.0,
        ),
        &number(
            "rkube.fig7b.burstable",
            "memcached, saturated beside the burstable memory-intensive neighbour: utilisation of the host",
            "§6.1, Fig. 7b: \"from 100%\"",
            1.0,
            0.0,
        ),
        &within(
            0.02,
            "22 of 24 CPUs; the rest is what system services use",
            number("rkube.fig7b.burstable-rkube", "the same with rKube", "§6.1, Fig. 7b: \"to 91%\"", 0.91, 1.0),
        ),
        &within(
            0.05,
            "the neighbour's quota and half of what memcached could get",
            number(
                "rkube.fig7b.capped",
                "memcached, saturated beside the capped memory-intensive neighbour: utilisation of the host",
                "§6.1, Fig. 7b: \"from 88%\"",
                0.88,
                0.0,
            ),
        ),
        &within(
            0.02,
            "22 of 24 CPUs",
            number("rkube.fig7b.capped-rkube", "the same with rKube", "§6.1, Fig. 7b: \"to 92%\"", 0.92, 0.88),
        ),
        &number(
            "rkube.fig8.p99",
            "memcached with rKube beside the burstable memory-intensive neighbour, asked for 37k requests a second: p99, µs",
            "§6.1, Fig. 8: \"from 8479μs to 621μs\"",
            621.0,
            8_479.0,
        ),
        &number(
            "rkube.fig8.least",
            "memcached's p99 without rKube over that with it, at the rate that saturates it without: the least over the four neighbours",
            "§6.1, Fig. 8: \"a reduction of tail latency between 12.9x and 13.7x\"",
            12.9,
            1.0,
        ),
        &number(
            "rkube.fig8.most",
            "the same: the largest over the four neighbours",
            "§6.1, Fig. 8: \"a reduction of tail latency between 12.9x and 13.7x\"",
            13.7,
            1.0,
        ),
        // Figures 9 to 11: what rKube saves.
        &number(
            "rkube.fig9a.rkube",
            "streamcluster with rKube beside the capped memory-intensive neighbour: completion time over that without",
            "§6.2, Fig. 9a: \"reduces the application's completion time by 40%\"",
            0.6,
            1.0,
        ),
        &number(
            "rkube.fig9b.rkube",
            "streamcluster with rKube beside the burstable memory-intensive neighbour: completion time over that without",
            "§6.2, Fig. 9b: \"and by 80%\"",
            0.2,
            1.0,
        ),
        &sentence(
            "rkube.fig9a.vertical",
            "\"rKube is more effective than vertical scaling\": its completion time at 12 CPUs over the best of either strategy from 10 to 20 CPUs, beside the capped memory-intensive neighbour",
            "§6.2, Fig. 9a",
        ),
        &sentence("rkube.fig9b.vertical", "the same beside the burstable one", "§6.2, Fig. 9b"),
        &sentence(
            "rkube.fig9b.drop",
            "\"vertical scaling causes further performance drop with a burstable neighboring application\": the completion time at 12 CPUs and threads over the longest with as many threads as CPUs, from 14 to 20",
            "§6.2, Fig. 9b, Vertical 1",
        ),
        &replicas(
            "rkube.fig10a.replicas",
            "replicas of memcached that answer 300k requests a second, each beside a capped memory-intensive neighbour (as many as 300k has saturated rates)",
            "§6.3, Fig. 10a: \"The minimum number of replicas is 7 and 9\"",
            7.0,
            0.0,
        ),
        &replicas(
            "rkube.fig10b.replicas",
            "the same beside burstable neighbours",
            "§6.3, Fig. 10b: \"The minimum number of replicas is 7 and 9\"",
            9.0,
            0.0,
        ),
        &replicas(
            "rkube.fig10a.rkube",
            "with rKube, beside capped neighbours",
            "§6.3, Fig. 10a: \"the minimum number of replicas is 5\"",
            5.0,
            7.0,
        ),
        &replicas(
            "rkube.fig10b.rkube",
            "with rKube, beside burstable neighbours",
            "§6.3, Fig. 10b: \"the minimum number of replicas is 5\"",
            5.0,
            9.0,
        ),
        &sentence(
            "rkube.fig10b.trend",
            "\"by increasing the number of replicas, the tail latency decreases gradually\": p99 with twice the least number, over p99 with the least, beside burstable neighbours",
            "§6.3, Fig. 10",
        ),
        &number(
            "rkube.fig10a.p99",
            "p99 with rKube and the least number of replicas, beside capped neighbours, µs (\"ms\" in the text)",
            "§6.3, Fig. 10a: \"with a tail latency of 606 and 613 ms\"",
            606.0,
            8_479.0,
        ),
        &number(
            "rkube.fig10b.p99",
            "the same beside burstable neighbours, µs",
            "§6.3, Fig. 10b: \"with a tail latency of 606 and 613 ms\"",
            613.0,
            8_479.0,
        ),
        &sentence(
            "rkube.fig11a.trend",
            "\"the target application's performance improves when the neighboring container requests fewer CPUs\": streamcluster's completion time with 16 of 22 CPUs assigned over that with 22, beside the capped memory-intensive neighbour",
            "§6.4, Fig. 11a",
        ),
        &number(
            "rkube.fig11a.most",
            "the same with 12 of 22: nothing is left for the neighbour",
            "§6.4, Fig. 11a: \"the completion time is reduced by 40% when we decrease … from 22/22 to 12/22\"",
            0.6,
            1.0,
        ),
        &sentence(
            "rkube.fig11a.rkube",
            "\"rKube outperforms the under-commitment strategy even when there are 10 additional unassigned CPUs\": its completion time beside the neighbour over that without one",
            "§6.4, Fig. 11a",
        ),
        &sentence(
            "rkube.fig11b.trend",
            "\"the throughput improves … as more CPUs become available (unassigned)\": memcached's saturated rate with 22 of 22 CPUs assigned over that with 16",
            "§6.4, Fig. 11b",
        ),
        &sentence(
            "rkube.fig11b.p99",
            "\"when serving at the same throughput level, rKube significantly outperforms under-commitment strategies in terms of the 99%-ile\": p99 with rKube over that with 16 of 22, at 60k requests a second",
            "§6.4, Fig. 11b",
        ),
        &computed(
            "rkube.fig11b.rate",
            "\"higher maximum throughput …, which is comparable with that of under-commitment\": saturated rate with rKube over that with 16 of 22",
            "§6.4, Fig. 11b",
            1.0,
            0.0,
        ),
        // Figure 12: a trace.
        &number(
            "rkube.fig12.rate",
            "memcached's saturated rates with rKube over those without: mean over the machines of a synthetic trace",
            "§6.5, Fig. 12: \"improved … by an average of 35%\"",
            1.35,
            1.0,
        ),
        &computed(
            "rkube.fig12.p99",
            "p99 without rKube over that with it: mean over the machines (451 % better: 5.51 times)",
            "§6.5, Fig. 12: \"and 451%, respectively\"",
            5.51,
            1.0,
        ),
        &number(
            "rkube.fig12.p99-most",
            "the same: the largest over the machines",
            "§6.5, Fig. 12: \"as much as 10× faster\"",
            10.0,
            1.0,
        ),
        &number(
            "rkube.fig12.batch",
            "batch jobs completed with rKube over those without: mean over the machines",
            "§6.5, Fig. 12: \"batch jobs run 8% slower on average\"",
            0.92,
            1.0,
        ),
    ],
};

/// A number in the text. `no_effect` is what it would be without the effect that the sentence is about.
const fn number(id: &'static str, statement: &'static str, place: &'static str, value: f64, no_effect: f64) -> Claim {
    Claim {
        id,
        statement,
        source: Source { text: "rkube-socc21", place },
        expected: Expected::Number(value),
        tolerance: Tolerance {
            relative: 0.2,
            reason: "programs are stand-ins of a few numbers each, calibrated alone, and the machine's memory is assumed",
        },
        no_effect,
        known_difference: None,
    }
}

/// A number that follows from the text; the statement says how.
const fn computed(id: &'static str, statement: &'static str, place: &'static str, value: f64, no_effect: f64) -> Claim {
    Claim { expected: Expected::Computed(value), ..number(id, statement, place, value, no_effect) }
}

/// A whole number in the text.
const fn replicas(id: &'static str, statement: &'static str, place: &'static str, count: f64, no_effect: f64) -> Claim {
    within(0.0, "a whole number of replicas", number(id, statement, place, count, no_effect))
}

/// A sentence that says which of two is less; the value is that one over the other.
const fn sentence(id: &'static str, statement: &'static str, place: &'static str) -> Claim {
    let claim = Claim { expected: Expected::Below(1.0), ..number(id, statement, place, 1.0, 1.0) };
    within(0.0, "a sentence without a number", claim)
}

const fn within(relative: f64, reason: &'static str, claim: Claim) -> Claim {
    Claim { tolerance: Tolerance { relative, reason }, ..claim }
}
