/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues by last-level cache, on machines with several.
 *
 * Problem: in one queue for the whole machine a thread goes to the CPU that asks first, mostly one that has nothing
 * of it in its cache; and all CPUs wait for the queue's one lock.
 *
 * Rule: a thread that may use all CPUs waits in the queue of the cache where it ran last. All of a slot's have one
 * clock. A CPU takes the first thread of its own cache, unless that of another one is further behind: by AWAY_SLICES,
 * or in a first come, first served slot by AWAY_NS. It examines one other cache each time, in turn; without a thread
 * of its own cache it takes one of the next cache that has one (`queue/divided.h`).
 *
 * Callers: `queue/numbers.h`, `queue/divided.h`.
 *
 * Limits: CACHES caches have queues of their own, those beyond share them. With one cache the verifier drops all of
 * this.
 */
#ifndef QUELL_CACHED_H
#define QUELL_CACHED_H

#include "queue/masked.h"

#define CACHES (PARTS - MASKS) /* a slot */
#define AWAY_NS 100000ULL      /* what a thread is to gain at least by leaving its cache */
#define AWAY_SLICES 2          /* the same in slices, where threads are in the order of virtual time */

struct cached {
	__u64 queued; /* threads that began to wait, ever */
	__u64 taken;  /* threads that ceased to wait, ever */
} __attribute__((aligned(64)));

struct cached cacheds[MAX_SLOTS * PARTS];

static __always_inline struct cached *cached_of(__u32 number)
{
	return AT(cacheds, number - PART, MAX_SLOTS * PARTS);
}

/* The number of caches that have queues. */
static __always_inline __u32 cached_parts(void)
{
	return shared.nr_caches < CACHES ? shared.nr_caches : CACHES;
}

/* Is it the queue of a cache? */
static __always_inline bool is_cache_queue(__u32 number)
{
	return caches_on && number >= PART && (number - PART) % PARTS >= MASKS;
}

static __always_inline __u32 number_of_cached(__u32 slot, __u32 cache)
{
	return number_of_part(slot, MASKS + cache);
}

/* The place of the CPU's cache among those that have queues. */
static __always_inline __u32 cache_of(__u32 cpu)
{
	return cpu_at(&shared, cpu)->cache % CACHES;
}

#endif
