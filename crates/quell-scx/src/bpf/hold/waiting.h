/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets of waiting slots, searched for the next holder when a CPU is yielded.
 *
 * Problem: of a thousand workloads a few wait, and each yield would visit all.
 *
 * Rule: a thread that begins to wait adds its slot to the set of its class. A search that finds a slot without
 * waiting threads removes it, then tests again: a thread that came meanwhile may have found it still in.
 *
 * Callers: `queue/queues.h` adds; `hold/rules.h` searches and removes; `queue/starving.h` searches.
 *
 * Limits: up to FEW_SLOTS slots are not removed: to visit them costs less than to remove and add them.
 */
#ifndef QUELL_WAITING_H
#define QUELL_WAITING_H

#include "lib/sets.h"

#ifndef FEW_SLOTS
#define FEW_SLOTS 64
#endif

static __always_inline bool has_waiters(const struct workload *w)
{
	return *(volatile __u64 *)&w->queued != *(volatile __u64 *)&w->taken;
}

/* A thread of the slot waits: adds the slot to the set of its class. */
static __always_inline void mark_slot_waiting(struct shared *s, __u32 slot)
{
	if (slot < SYSTEM)
		set_add(&s->waiting[workload_at(s, slot)->lc & 1], slot);
}

/* No thread of the slot waits, it seems, or the slot changed its class: removes it, unless one waits after all. */
static __always_inline void clear_slot_waiting(struct shared *s, __u32 set, __u32 slot)
{
	set_remove(&s->waiting[set & 1], slot);
	if (!has_waiters(workload_at(s, slot)))
		return;
	mark_slot_waiting(s, slot);
	/* A search of the line may have missed it. */
	__sync_fetch_and_add(&s->line.version, 1);
}

#endif
