/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots that wait: the sets in which who yields a CPU finds its heir.
 *
 * Problem: of a thousand workloads a few wait, and each yield would look at all.
 *
 * Rule: a thread that begins to wait puts its slot into the set of its class. Who looks and finds none waiting there takes the
 * slot out, then looks again: a thread that came meanwhile may have seen it still in.
 *
 * Limits: up to FEW_SLOTS slots stay in once they waited: they are looked at faster than they are taken out and put in again.
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

/* A thread of the slot waits. */
static __always_inline void mark_slot_waiting(struct shared *s, __u32 slot)
{
	if (slot < SYSTEM)
		set_add(&s->waiting[workload_at(s, slot)->lc & 1], slot);
}

/* None of its threads waits, it seems; or it has changed its class. */
static __always_inline void clear_slot_waiting(struct shared *s, __u32 set, __u32 slot)
{
	set_remove(&s->waiting[set & 1], slot);
	if (has_waiters(workload_at(s, slot)))
		mark_slot_waiting(s, slot);
}

#endif
