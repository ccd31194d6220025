/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Starvation: the slot whose threads have waited for the longest, of those that this CPU may run.
 *
 * Problem: a thread that has waited for too long has a turn on any CPU, and each CPU has to find it.
 *
 * Rule: of the waiting slots (`hold/waiting.h`) the one whose first thread that may run here has waited for the
 * longest.
 *
 * Callers: `hold/dispatch.h` (`scan_for_starving`, `scan_beside_server`).
 *
 * Limits: all waiting slots are visited, and of a slot the queues that this CPU may use.
 */
#ifndef QUELL_STARVING_H
#define QUELL_STARVING_H

#include "queue/queues.h"

/* Of the slots in this set: since before then; NO_SLOT, if there is none. */
GLOBAL_FUNC __u32 oldest_of(__u32 lc, __u32 cpu, __u64 before, __u64 now)
{
	struct set *set = AT(shared.waiting, lc, 2);
	__u32 oldest = NO_SLOT, slot;

	EACH_IN(set, slot) {
		if (!has_waiters(workload_of(slot)))
			continue;
		__u64 since = slot_waits_since(slot, cpu, now);

		if (since < before) {
			before = since;
			oldest = slot;
		}
	}
	return oldest;
}

/* Of all slots. */
GLOBAL_FUNC __u32 oldest_slot(__u32 cpu, __u64 before, __u64 now)
{
	__u32 lc = oldest_of(1, cpu, before, now);
	__u32 be = oldest_of(0, cpu, lc < SYSTEM ? slot_waits_since(lc, cpu, now) : before, now);

	return be < SYSTEM ? be : lc;
}

#endif
