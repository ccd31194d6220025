/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters of decisions.
 *
 * Problem: a scheduler that is asked "why was this late?" has to say how often it took each of its branches.
 *
 * Rule: one counter a decision. Each CPU adds to cache lines of its own, which no other CPU writes; the loader adds
 * them up.
 *
 * Callers: `count` where a decision is made; `tend/dump.h`; the loader, by `Grant::decisions`.
 *
 * Limits: counters say how often, not for which thread. A sum that is read while CPUs decide is no consistent
 * snapshot.
 */
#ifndef QUELL_COUNTS_H
#define QUELL_COUNTS_H

#include "lib/grant.h"

/*
 * All of them, in the order in which the loader reads them: those that are also in a dump, by this name there, and
 * those that are counted only. The loader's list is in `inspect.rs`; a test holds it against this one.
 *
 *   PREEMPTED      a wake-up took a CPU from another workload
 *   STAYED         a best-effort thread was kept in its CPU's local queue behind a real-time thread
 *   MADE_WAY       or behind a latency-critical one
 *   IN_VAIN        a kept thread went to a queue all the same
 *   STARVING       a starving thread had a turn
 *   THROTTLED      a cgroup used up its quota
 *   REFUSED        a thread came, and its workload got no CPU by the rules
 *   OVERTAKEN      a wake-up took a CPU from a thread of its own queue that was far ahead
 *   BESIDE_SERVER  others had a turn while a server had work and budget
 *   PASSED         a thread that was preempted in the kernel was boosted there, as latency-critical work was blocked
 */
#define EACH_DECISION(DUMPED, COUNTED)          \
	DUMPED(PREEMPTED, "preempted")          \
	DUMPED(STAYED, "stayed")                \
	DUMPED(MADE_WAY, "made_way")            \
	DUMPED(IN_VAIN, "in_vain")              \
	DUMPED(STARVING, "starving")            \
	DUMPED(THROTTLED, "throttled")          \
	DUMPED(REFUSED, "refused")              \
	COUNTED(OVERTAKEN, "overtaken")         \
	DUMPED(BESIDE_SERVER, "beside_server")  \
	COUNTED(PASSED, "passed")

#define AS_ENUMERATOR(decision, name) decision,

enum decision {
	EACH_DECISION(AS_ENUMERATOR, AS_ENUMERATOR)
	DECISIONS,
};

/* Of one CPU: cache lines of its own. The loader reads them in this order. */
struct counts {
	__u64 of[DECISIONS];
} __attribute__((aligned(64)));

struct counts counts[MAX_CPUS];

static __always_inline void count(enum decision what)
{
	__u32 here = bpf_get_smp_processor_id();

	/* An interrupt of this CPU may count, too. */
	__sync_fetch_and_add(&AT(counts, here, MAX_CPUS)->of[what], 1);
}

#endif
