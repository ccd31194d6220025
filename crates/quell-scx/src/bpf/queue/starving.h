/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who starves: the workload whose threads have waited for the longest, of those that this CPU may run.
 *
 * Problem: who has waited too long has a turn wherever that may be, and on each CPU somebody has to look for them.
 *
 * Rule: of the slots that wait (`hold/waiting.h`) that whose first thread which may run here has waited for the longest.
 *
 * Limits: all slots that wait are looked at, and of a slot the queues that this CPU may use.
 */
#ifndef QUELL_STARVING_H
#define QUELL_STARVING_H

#include "queue/queues.h"

/* Of the slots in this set: since before then; NO_SLOT, if there is none. */
APART __u32 oldest_of(__u32 lc, __u32 cpu, __u64 before, __u64 now)
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
APART __u32 oldest_slot(__u32 cpu, __u64 before, __u64 now)
{
	__u32 lc = oldest_of(1, cpu, before, now);
	__u32 be = oldest_of(0, cpu, lc < SYSTEM ? slot_waits_since(lc, cpu, now) : before, now);

	return be < SYSTEM ? be : lc;
}

#endif
