//! VAS's evaluation (vas-rtns21 §2 to §6), simulated at two levels. Lines are those of the paper's text.
//!
//! Rows that repeat an input or follow from one say so in their tolerance; they prove nothing by themselves.

use super::Topic;
use super::evaluation::{What, below, claims, close, sentence};
use crate::claim::{Expected, Tolerance};

/// The topic.
pub const TOPIC: Topic = Topic {
    id: "vas",
    title: "VAS: latency on a part of a CPU as on a whole one (Figures 1, 4, 6 to 14, 18), on its machine, simulated",
    claims: CLAIMS,
};

const CLAIMS: &[&crate::Claim] = claims! {
    "vas" from "vas-rtns21"
    // Section 2 and 4: the server and the analysis.
    "fig1.response" exact(5.0, 4.0)
        "work of 4 every 8 on a server of 3 every 4: response time, in these units"
        "§2, Fig. 1 (L99): \"the response time is 5\"";
    "fig1.penalty" exact(1.0, 0.0)
        "of that, the time that the job waits for a budget"
        "§2, Fig. 1 (L99): \"a budget replenishment penalty of 1 time unit\"";
    "gamma1.budget" exact(1520.0, 2000.0)
        "Γ1: the least budget, ms"
        "§6.1 (L287): \"the interface (B, P) of the partial CPU is (1520 ms, 2000 ms)\"";
    "gamma1.period" exact(2000.0, 0.0)
        "Γ1: its period, ms"
        "§4.2, Fig. 4b (L238): \"P = 2000ms, which equals the hyperperiod\"";
    "gamma1.share" exact(0.76, 1.0)
        "Γ1: the least share of a CPU"
        "§4.2, Fig. 4b (L238): \"the minimum of W(P), W = U = 76%\"";
    "fig4b.least" exact(1.0, 2.0)
        "Γ1: W at the hyperperiod over the least W of all periods up to it"
        "§4.2 (L231): \"W(P) achieves its minimum when P = LCM{T}\"";
    "gamma2.hyperperiod" exact(2100.0, 0.0)
        "Γ2: hyperperiod, ms"
        "§6.1 (L302): \"The hyperperiod is 2100ms\"";
    "margin.suffices" sentence()
        "Γ1, 5 points of a CPU on top: periods of 100 s in which the budget was used up (none: 0)"
        "§5 (L251): \"was sufficient to deliver virtualization-agnostic latency\"";
    // Section 6.1: periodic tasks.
    "fig6.repeats" unlike(0.01)
        "Γ1, FIFO: the part of a hyperperiod in which the server's activity differs from the one before"
        "§6.1, Fig. 6 (L289): \"Each schedule repeats itself every hyperperiod\"";
    "fig6.active" unlike(0.01)
        "Γ1: the part of the time in which the server is active under one of FIFO and FP alone"
        "§6.1, Fig. 6 (L289): \"The server's 'active states' are identical between the two\"";
    "fig7a.overlap" unlike(0.02)
        "Γ1, FIFO: Wasserstein distance to a whole CPU over the mean response time"
        "§6.1, Fig. 7a (L291): \"the CDF curves can hardly be differentiated visually\""
        why "at the least budget what switches and ticks cost is missing, and what is late adds up over the hyperperiods; how much \
         that shows depends on the server's phase";
    "fig7b.overlap" unlike(0.02)
        "the same under rate-monotonic priorities"
        "§6.1, Fig. 7b (L291)"
        why "as fig7a.overlap";
    "fig8.irregular" sentence()
        "sporadic Γ1: what counts as a difference (1 % of the time) over the part in which a hyperperiod's activity differs from \
         the one before"
        "§6.1, Fig. 8 (L298): \"each schedule no longer repeats itself\"";
    "fig8.active" unlike(0.01)
        "sporadic Γ1: the part of the time in which the server is active under one of FIFO and FP alone"
        "§6.1, Fig. 8 (L298): \"the same activity patterns for two different work-conserving schedulers\"";
    "fig9a.overlap" unlike(0.02)
        "sporadic Γ1, FIFO: Wasserstein distance to a whole CPU over the mean response time"
        "§6.1, Fig. 9 (L300): \"we again observe overlapping CDF curves\"";
    "fig9b.overlap" unlike(0.02)
        "the same under rate-monotonic priorities"
        "§6.1, Fig. 9 (L300)";
    "fig10a.overlap" unlike(0.02)
        "Γ2, FIFO: Wasserstein distance to a whole CPU over the mean response time"
        "§6.1, Fig. 10 (L302): \"the overlapping curves\""
        why "as fig7a.overlap: jobs are shorter, so that there are more switches; see fig10.with-margin";
    "fig10b.overlap" unlike(0.02)
        "the same under rate-monotonic priorities"
        "§6.1, Fig. 10 (L302)"
        why "as fig10a.overlap";
    "fig10.with-margin" unlike(0.02)
        "the same with 5 points of a CPU on top, FIFO (our reading of what the paper ran)"
        "§5 (L251), §6.1, Fig. 10 (L302)";
    // Practical overprovisioning.
    "fig11.minus5" number(67.169, 0.0)
        "Γ1, rate-monotonic, 71 %: Wasserstein distance to a whole CPU, ms"
        "§6.1, Fig. 11 (L304): \"67.169 ms, 1.3491 ms, and 65.038 μs\""
        why "every job takes all of its worst-case time here, so that 5 % of a CPU are missing; the paper's distance says that \
         its jobs took less: see fig11.minus5-less";
    "fig11.exact" number(1.3491, 0.0)
        "the same with 76 %: ms"
        "§6.1, Fig. 11 (L304)"
        why "as fig7a.overlap: one of the seeds' phases has the paper's distance, others several times as much";
    "fig11.plus5" number(65.038, 0.0)
        "the same with 81 %: µs"
        "§6.1, Fig. 11 (L304)"
        why "work does not vary here, the paper's does from run to run: nothing differs but the beginning of a busy interval, a \
         switch from another VM instead of leaving idleness";
    "fig11.longest" number(1457.2, 0.0)
        "with 71 %: the longest response time in 100 s, ms"
        "§6.1, Fig. 11 (L311): \"a max latency up to 1457.2 ms\""
        why "as fig11.minus5";
    "fig11.minus5-less" fragile(67.169)
        "as fig11.minus5, where jobs take 93.75 % of their worst-case time (our reading of a likely cause): ms"
        "§6.1, Fig. 11 (L304); not in the paper"
        why "between 93 and 94.5 % of the worst-case time it is anything from none to several times the paper's";
    "fig11.longest-less" fragile(1457.2)
        "as fig11.longest, likewise: ms"
        "§6.1, Fig. 11 (L311); not in the paper"
        why "as fig11.minus5-less";
    // Multi-testcase evaluation.
    "fig12.largest" below(100.0)
        "50 randomised task sets with the margin: the largest Wasserstein distance to a whole CPU, µs"
        "§6.1, Fig. 12 (L315): \"the Wasserstein distances of all testcases are lower than 100μs\"";
    "fig12.trend" sentence()
        "the same: the mean distance at a utilisation of 0.1 over that at 0.9"
        "§6.1, Fig. 12 (L315): \"high utilization settings tended to yield greater distances\""
        why "with work that does not vary only the beginning of a busy interval differs, a switch from another VM instead of \
         leaving idleness; at high utilisation there are fewer of them for each job";
    // Section 6.2: Redis.
    "redis.utilisation" given(0.72, 0.0)
        "six clients with a query of 0.12 ms every millisecond each: utilisation"
        "§6.2 (L327): \"Thus, the utilization was 72%\"";
    "redis.left" sentence()
        "23 % over the part of the CPU that the general-purpose VM had (\"at least 23%\")"
        "§6.2 (L327): \"the GP VM could consume at least 23% of the CPU cycles\"";
    "redis.distance" number(9.499, 0.0)
        "Redis: Wasserstein distance to a whole CPU, µs"
        "§6.2, Fig. 13 (L327): \"the Wasserstein distance of 9.499μs\""
        why "as fig11.plus5; what a switch between VMs costs is assumed";
    "fig14.distance" number(10.0, 0.0)
        "seven Redis VMs: the mean of their distances, µs"
        "§6.2, Fig. 14 (L331): \"a consistent Wasserstein distance around 10μs\""
        why "as redis.distance";
    "fig14.consistent" unlike(0.5)
        "the same: the largest less the least distance, over their mean"
        "§6.2, Fig. 14 (L331): \"a consistent Wasserstein distance\"";
    // Section 6.3: Spark.
    "spark.longest" given(3522.0, 0.0)
        "Spark: the longest elapsed time of a batch, ms"
        "§6.3, Fig. 17 (L355): \"The maximum elapsed time was 3522 ms\"";
    "spark.utilisation" given(0.7044, 0.0)
        "that over the batch window"
        "§6.3 (L357): \"70.44%\"";
    "spark.budget" given(3750.0, 5000.0)
        "the interface that the paper chose, by its bandwidth of 75 %: budget every 5000 ms, ms"
        "§6.3 (L357): \"(3750 ms, 5000 ms, Highest)\"";
    "spark.whole" given(9.190, 0.0)
        "two runs of 26 minutes on whole CPUs: Wasserstein distance of elapsed times, ms, mean of three pairs (how much batches \
         differ is set by it)"
        "§6.3, Fig. 18 (L363): \"the Wasserstein distance was 9.190 ms\"";
    "spark.part" number(8.378, 0.0)
        "a run on parts of CPUs against one on whole ones: ms, mean of nine pairs"
        "§6.3, Fig. 18 (L363): \"an even better Wasserstein distance of 8.378 ms\""
        why "it is the distance of two samples: chance decides it";
    "spark.comparable" unlike(2.0)
        "that over the distance of the two runs on whole CPUs"
        "§6.3 (L361, L363): whether it \"significantly exceeds the baseline\"";
};

/// A number of the analysis, which has no chance in it.
const fn exact(value: f64, no_effect: f64) -> What {
    close(value, no_effect, 0.005, "nothing is left to chance but the costs of the simulated machine")
}

/// A number that was measured.
const fn number(value: f64, no_effect: f64) -> What {
    super::evaluation::number(value, no_effect)
}

/// An input of the experiment, or what follows from inputs alone.
const fn given(value: f64, no_effect: f64) -> What {
    close(value, no_effect, 0.05, "an input of the experiment or what follows from inputs: no result")
}

/// What would be measured with an input that the paper does not have.
const fn fragile(value: f64) -> What {
    close(value, 0.0, 0.5, "not the paper's experiment: it shows what a small change of an input does; no result")
}

/// A sentence that says that two things are alike; the value is how far they are apart.
const fn unlike(bound: f64) -> What {
    (
        Expected::Below(bound),
        10.0 * bound,
        Tolerance { relative: 0.0, reason: "a sentence without a number: the bound is ours" },
    )
}
