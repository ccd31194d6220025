//! Caladan's evaluation on a simulated machine with simulated contention.
//!
//! Latencies are a client's: the simulated server's and 10 µs for two network cards and a switch (assumed).

use crate::claim::{Claim, Expected, Tolerance};
use crate::registry::evaluation::{What, below, claims, computed, number, sentence};

/// All of them.
pub(super) const CLAIMS: &[&Claim] = claims! {
    "caladan" from "caladan-osdi20"
    "table1.reaction" number(20.0, 500e3)
        "from the start of a collection until the first core is revoked, µs (two decisions of 10 µs; no effect would be \
         Parties' 500 ms)"
        "Table 1: \"10–20 µs\"; §5.2.2, Algorithm 2"
        why "up to 10 µs pass until a round sees memory saturated, and two readings of the counters 10 µs apart follow";
    "table1.convergence" number(20.0, 500e3)
        "from the start of a collection until memory is no longer saturated, µs"
        "Table 1: \"20 µs\""
        why "a collector on 20 CPUs has to lose a dozen of them, and Algorithm 2 as printed revokes one every 10 µs";
    "table1.parties-convergence" number(15.0, 0.0)
        "Parties* beside stream-DRAM: until memcached keeps its target for two seconds while CPUs stay where they are, s \
         (the middle of 10 to 20)"
        "Table 1: \"10–20 s\""
        why "depends on where the search begins (an even division) and on the load, of which the text says nothing for \
             this table";
    "fig1.rate" number(0.5, 1.0)
        "CPUs divided for good: what memcached can answer beside the collector over what it can answer beside the program"
        "§2, Fig. 1: \"causing the rate at which memcached can service requests to drop by about half\"";
    "fig1.growth" number(5.0, 0.0)
        "the same: by how much queueing delay grows in 10 µs, µs"
        "§2, Fig. 1: \"queueing delay increases at a rate of 5 μs every 10 μs\""
        why "the sentence holds where memcached is asked for all that it can answer; here it has one core, which can \
             answer a little more than it is asked for";
    "fig1.tail" number(1000.0, 1.0)
        "the same: the longest p99.9 over 20 ms while it collects, as a multiple of that alone"
        "§2, Fig. 1: \"eventually reaching a tail latency that is 1000× higher than normal\""
        why "the queue grows for as long as the collection takes, which is assumed: 150 ms on all CPUs";
    "fig1.bandwidth" number(1.0, 0.0)
        "the same: memory bandwidth in use while it collects, of what the machine has (\"saturates memory bandwidth\")"
        "§2, Fig. 1";
    "fig4.linux" number(235.0, 1.0)
        "memcached beside stream-DRAM under Linux: p99.9 as a multiple of that alone, the largest over the loads"
        "§7.1, Fig. 4: \"reaching tail latencies up to 235× and 6× higher than without interference, respectively\""
        why "memcached's threads take a CPU from idle-class work at once here, and the network's work in interrupts, \
             which the antagonist slows down too, is not simulated; whether that is all the difference is unexplained";
    "fig4.shenango" number(6.0, 1.0)
        "the same under Shenango"
        "§7.1, Fig. 4: \"reaching tail latencies up to 235× and 6× higher than without interference, respectively\""
        why "its scheduler's core forwards packets, and is slowed down by the antagonist: not simulated; what is left \
             is that memory is saturated and memcached slower, as the control in the note shows";
    "fig4.shenango-rate" number(0.25, 1.0)
        "the same under Shenango: what it can answer over what it can answer alone"
        "§7.1, Fig. 4: \"Shenango's throughput also decreases by 75%\"";
    "fig4.caladan" computed(1.0, 0.0)
        "the same under Caladan: \"similar tail latency with and without interference\""
        "§7.1, Fig. 4"
        why "at the threshold, 25 of 33 GB/s, a reference to memory takes a quarter longer (docs/contention.md), and \
             at low loads the antagonist's lines are in the cache";
    "fig4.parties" computed(1.0, 0.0)
        "the same under Parties*, once it has settled, at 800,000 requests a second: \"similar tail latency\""
        "§7.1, Fig. 4"
        why "its rule is to take cores and ways away until hardly any slack is left of the target, 100 µs here";
    "fig4.linux-rate" sentence()
        "\"Both also achieve much higher throughput than Linux\": what Linux answers alone over what Caladan does"
        "§7.1, Fig. 4";
    "fig5.caladan" number(52.0, 580e3)
        "memcached at 800,000 requests a second beside swaptions-GC under Caladan: p99.9 while it collects, µs"
        "abstract; §7.1, Fig. 5: \"reducing tail latency from 580 ms to 52 μs\"";
    "fig5.parties" number(580.0, 0.052)
        "the same under Parties*, ms"
        "abstract; §7.1, Fig. 5: \"reducing tail latency from 580 ms to 52 μs\""
        why "a queue that grows by 5 µs in 10 (Fig. 1) for the 100 to 200 ms of a collection (§2) makes 50 to 100 ms: \
             more comes from Parties*' own trials with too little, and lasts for one interval of them here";
    "fig5.factor" number(11_000.0, 1.0)
        "Parties*' tail as a multiple of Caladan's"
        "§7.1, Fig. 5: \"99.9% latency that is 11,000× higher than Caladan during GC cycles\""
        why "as fig5.parties";
    "fig5.worst" sentence()
        "the longest p99.9 over 20 ms, whether it collects or not: Caladan's over Parties*'"
        "§7.1, Fig. 5";
    "fig5.be" gain(1.05)
        "swaptions-GC's throughput under Caladan as a multiple of that under Parties*"
        "§7.1: \"achieving an average of 5% less than Caladan\""
        why "how often it collects is assumed: between two collections Parties* has found what the program can have";
    "fig6.tail" computed(1.0, 0.0)
        "storage and memcached beside each of the five best-effort applications: p99.9 over that alone, the largest over \
         pairs and loads (\"nearly the same tail latency as they do without colocation\")"
        "§7.2, Fig. 6"
        why "memcached's and storage's misses take longer while memory is at its threshold, and at low load a woken \
             core begins with cold caches";
    "fig6.silo" below(3.0)
        "silo, the same: \"a small increase in tail latency at low load\" (our reading: below 3)"
        "§7.2, Fig. 6";
    "fig6.throttled" sentence()
        "\"Streamcluster and stream-DRAM both consume a larger amount of memory bandwidth, so they are throttled\": the part \
         that they get of the CPUs that the latency-critical application leaves over that of the other three"
        "§7.2, Fig. 6";
    "fig6.throughput" computed(1.0, 0.0)
        "x264, swaptions-GC and stream-L2 \"can linearly trade CPU time with the LC task\": throughput, of that alone, over \
         the part of the load that is free, the mean"
        "§7.2, Fig. 6"
        why "what hyperthreads gain from each other is assumed for each program";
    "fig7.reallocations" number(230e3, 0.0)
        "three latency-critical and two best-effort tasks: the most CPUs that change hands, a second"
        "§7.2, Fig. 7: \"up to 230,000 core reallocations per second\""
        why "for how long a runtime spins before it yields is a published constant, but not for how long a core takes \
             to change hands; how often swaptions-GC collects is assumed";
    "fig7.tail" computed(1.0, 0.0)
        "the same: p99.9 over 20 ms while swaptions-GC collects over that else, medians of the windows, the worst of the three \
         (\"to maintain low tail latency … throughout constantly shifting load and interference\")"
        "§7.2, Fig. 7"
        why "how often swaptions-GC collects is assumed";
    "fig7.bandwidth" sentence()
        "the same: \"both tasks together saturate DRAM bandwidth and are throttled by Caladan\": memory bandwidth while it \
         collects over a tenth more than THRESH_BW"
        "§7.2, Fig. 7";
    "fig8b.reallocations" number(560e3, 0.0)
        "eleven latency-critical tasks at 0.65 million requests a second, CPUs that change hands with KSCHED, a second"
        "§7.3, Fig. 8b: \"up to 560,000 core reallocations per second at its peak (at a load of 0.65 million RPS)\""
        why "what the tasks' runtimes do with cores that they hardly need, and for how long they spin, decides; \
             threads of a task and the latency of KSCHED are assumed";
    "fig8b.syscalls" number(285e3, 0.0)
        "the same with Linux's mechanisms (the cost of each is set by this number)"
        "§7.3, Fig. 8b: \"bottlenecks at around 285,000 allocations per second\""
        why "the cost of one grant is set so that 285,000 a second fill the scheduler's time; looking and the latency \
             of a call take part of it here, one after the other";
    "fig8b.tail" sentence()
        "the same: \"Caladan is able to maintain much lower tail latency\": p99.9 with KSCHED over that with Linux's mechanisms"
        "§7.3, Fig. 8b";
    "fig8b.pinned" computed(1.0, 0.0)
        "the same: p99.9 with KSCHED over that with CPUs pinned (\"close to that of running with cores pinned\")"
        "§7.3, Fig. 8b"
        why "with requests of 5 µs most of a tail is the wait for a round and for the core; the latency of KSCHED is \
             assumed";
    "fig8c.low" computed(1.0, 0.0)
        "storage beside stream-DRAM at 5 % load: p99.9 with the bandwidth controller alone over that with both (\"at very low \
         loads, the bandwidth controller is sufficient\")"
        "§7.3, Fig. 8c"
        why "what storage suffers from a busy sibling is assumed";
    "fig8c.both" computed(1.0, 0.0)
        "the same at half load: p99.9 with both controllers over that alone (\"nearly the same tail latency as it would have \
         without colocation\")"
        "§7.3, Fig. 8c"
        why "what storage suffers from a busy sibling is assumed";
    "fig8c.bandwidth" sentence()
        "\"both controllers are necessary\": p99.9 with both over that without the bandwidth controller, at half load"
        "§7.3, Fig. 8c";
    "fig8c.hyperthread" sentence()
        "the same: over that without the hyperthread controller"
        "§7.3, Fig. 8c";
    "fig9.lc" gain(1.37)
        "storage beside stream-L2: what Caladan lets it answer at most over what Elfen does"
        "§7.3, Fig. 9: \"Caladan achieves 37% more LC throughput than Elfen\""
        why "what storage suffers from a busy sibling is assumed to be usual: two hyperthreads serve 1.3 times as much as \
             one, which is what §3.2 says of hyperthreads at best";
    "fig9.be" gain(1.05)
        "stream-L2's throughput at low load under Caladan over that under Elfen's refresh budget"
        "§7.3, Fig. 9: \"able to achieve 5% higher BE throughput than Elfen\""
        why "how much of the path between the caches one hyperthread of stream-L2 takes is assumed: two do 1.15 times the \
             work of one";
    "fig9.idle" sentence()
        "borrow idle: \"also low BE throughput\": stream-L2's over that with refresh budget, at 20 % load or less"
        "§7.3, Fig. 9";
    "fig9.idle-tail" sentence()
        "refresh budget: \"at the cost of a slight increase in tail latency\": p99.9 with borrow idle over it"
        "§7.3, Fig. 9";
    "fig9.unmanaged" number(117.0, 0.0)
        "without the hyperthread controller: how much higher storage's p99.9 is, the most over the loads, µs"
        "§7.3, Fig. 9: \"up to 117 μs higher tail latency\""
        why "what storage suffers from a busy sibling is assumed, and much; the load is not in the text";
    "fig9.unmanaged-be" sentence()
        "the same: \"slightly higher BE throughput\": stream-L2's with the controller over that without"
        "§7.3, Fig. 9";
    "fig10a.be" gain(1.07)
        "storage beside stream-L2: stream-L2's throughput with a THRESH_QD of 100 µs over that with 10 µs, the mean over a \
         quarter, a half and three quarters of storage's load"
        "App. A, Fig. 10a: \"enables 7% more BE throughput at the cost of 54 μs higher LC tail latency\""
        why "the load is not in the text, and the gain grows with it: the less is left for best-effort work, the more a \
             core less for storage means";
    "fig10a.tail" number(54.0, 0.0)
        "the same: how much higher storage's p99.9 is, µs"
        "App. A, Fig. 10a: \"enables 7% more BE throughput at the cost of 54 μs higher LC tail latency\""
        why "the load is not in the text";
    "fig10b.be" sentence()
        "\"setting THRESH_HT below the median of 35 μs significantly lowers BE throughput\": with 10 µs over that with 40 µs"
        "App. A, Fig. 10b";
    "fig10c.be" sentence()
        "25 GB/s \"trades a small amount of BE throughput\": stream-DRAM's over that with 32 GB/s"
        "App. A, Fig. 10c"
        why "stream-DRAM's instructions are its bandwidth: less of it is in proportion less work";
    "fig10c.tail" sentence()
        "\"in exchange for predictable latency\": storage's p99.9 with 25 GB/s over that with 32 GB/s"
        "App. A, Fig. 10c";
    "unmodified.memcached" own(2.0)
        "an unmodified memcached at 800,000 requests a second beside stream-DRAM, under Caladan with rules: p99.9 over that \
         alone"
        "docs/reproduce.md";
    "unmodified.memcached-linux" own(1.0)
        "the same: its p99.9 over that under Linux"
        "docs/reproduce.md"
        why "with requests that are all alike hardly anything but the wake-up is left of either tail: Linux's idle CPUs begin \
             within 1 µs, a grant takes 2, and Linux has two CPUs more";
    "unmodified.memcached-runtime" own(2.0)
        "the same: its p99.9 over that with Caladan's runtime"
        "docs/reproduce.md";
    "unmodified.memcached-most" own(2.0)
        "what memcached answers at most with Caladan's runtime over what it answers unmodified"
        "docs/reproduce.md";
    "unmodified.silo" own(2.0)
        "an unmodified silo at 30 % load beside stream-DRAM, under Caladan with rules: p99.9 over that alone"
        "docs/reproduce.md";
    "unmodified.silo-linux" own(1.0)
        "the same: its p99.9 over that under Linux"
        "docs/reproduce.md";
    "unmodified.silo-runtime" own(1.2)
        "the same: its p99.9 over that with Caladan's runtime"
        "docs/reproduce.md";
    "unmodified.silo-most" own(1.2)
        "what silo answers at most with Caladan's runtime over what it answers unmodified"
        "docs/reproduce.md"
        why "probably bans of siblings cost a saturated server without a runtime more";
    "unmodified.storage" own(1.2)
        "an unmodified storage at 30 % load beside stream-DRAM, under Caladan with rules: p99.9 over that alone"
        "docs/reproduce.md";
    "unmodified.storage-linux" own(1.0)
        "the same: its p99.9 over that under Linux"
        "docs/reproduce.md";
    "unmodified.storage-runtime" own(1.2)
        "the same: its p99.9 over that with Caladan's runtime"
        "docs/reproduce.md";
    "unmodified.storage-most" own(1.2)
        "what storage answers at most with Caladan's runtime over what it answers unmodified"
        "docs/reproduce.md";
    "unmodified.collector" own(2.0)
        "an unmodified memcached beside swaptions-GC, as in Figure 5: p99.9 while it collects over that else"
        "docs/reproduce.md";
    "scale.paper" own(2.0)
        "128 CPUs, 20 latency-critical and 20 best-effort tasks, bursts, at the highest load: the worst p99.9 over that of one \
         task alone on the machine"
        "docs/reproduce.md"
        why "as many requests come at once as need many cores, and each task is given one a round; a round of 6 µs of \
             deciding and 2 µs of granting hardly fits into 10 µs";
    "scale.decision" own(2.0)
        "the same with decisions of 1 µs"
        "docs/reproduce.md"
        why "as scale.paper";
    "scale.many" own(2.0)
        "the same with as many cores a round as the delay has thresholds"
        "docs/reproduce.md";
    "scale.rules" own(2.0)
        "the same with rules at the event"
        "docs/reproduce.md";
};

/// A gain in the text, as a multiple: a fifth of that would be more than the gain.
const fn gain(value: f64) -> What {
    let relative = 0.2 * (value - 1.0) / value;
    (Expected::Number(value), 1.0, Tolerance { relative, reason: "a fifth of the gain" })
}

/// A bound that Quell sets itself.
const fn own(bound: f64) -> What {
    (Expected::AtMost(bound), f64::INFINITY, Tolerance { relative: 0.0, reason: "a bound that Quell sets itself" })
}
