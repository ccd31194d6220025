/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues by affinity mask: one for each set of CPUs.
 *
 * Problem: in a workload's one queue each CPU steps over the threads that may not run there. And one clock follows
 * the thread that is furthest, so that all others count as if they had slept, and their weights mean nothing: beside
 * a thread that is bound to another CPU, 300 : 100 became 50 : 50.
 *
 * Rule: threads of a slot with the same set of CPUs have a queue with a clock of its own: among them weights hold,
 * whatever runs elsewhere. A CPU takes the first thread of those of its holder's queues whose set has it
 * (`queue/numbers.h`, `queue/divided.h`).
 *
 * Callers: `queue/numbers.h`; the operations `init_task` and `set_cpumask` (`update_mask`).
 *
 * Limits: MASKS sets a slot; all users share the system's. Threads of further sets are in the slot's queue, as those
 * that may use all CPUs are. A set that is not used for a second leaves its place. A latency-critical workload has
 * one queue, first come, first served.
 */
#ifndef QUELL_MASKED_H
#define QUELL_MASKED_H

#include "queue/bound.h"
#include "queue/together.h"

#define PART (BOUND + MAX_CPUS) /* the first number of the queues into which slots are divided */
#define PARTS 32                /* a slot; a power of two: first those by set, then those by cache (`queue/cached.h`) */
#define MASKS 4                 /* a slot; a power of two */
#define NUMBERS (PART + MAX_SLOTS * PARTS)
#define MASK_WORDS (MAX_CPUS / 64)
#define UNUSED_NS 1000000000ULL
#define BEING_CLAIMED 1 /* no set's number */

struct masked {
	__u64 mask;   /* the set's number; 0: none */
	__u64 queued; /* threads that began to wait, ever */
	__u64 taken;  /* threads that ceased to wait, ever */
	__u64 vtime;  /* the queue's clock */
	__u64 ahead;  /* a place by the slot's clock - the same by this one */
	__u64 used_at;
	__u64 cpus[MASK_WORDS];
} __attribute__((aligned(64)));

struct masked maskeds[MAX_SLOTS * MASKS];
bool has_masks[MAX_SLOTS]; /* once it had */
__u64 mask_seed; /* so that no user makes two sets with one number */

static __always_inline struct masked *masked_of(__u32 number)
{
	__u32 at = number - PART;

	return AT(maskeds, at / PARTS * MASKS + at % MASKS, MAX_SLOTS * MASKS);
}

static __always_inline __u32 number_of_part(__u32 slot, __u32 at)
{
	return PART + slot * PARTS + at;
}

/* Sets the number of the thread's set of CPUs; 0: it may use all. */
static __noinline int update_mask(struct task_struct *p)
{
	struct thread *t = thread_of(p);
	__u64 words[MASK_WORDS] = { 0 }, number = mask_seed;
	__u32 bytes = (shared.nr_cpus + 63) / 64 * sizeof(__u64);

	if (!t)
		return 0;
	t->mask = 0;
	if (bytes > sizeof(words) || (__u32)p->nr_cpus_allowed >= shared.nr_cpus)
		return 0;
	if (bpf_probe_read_kernel(words, bytes, &p->cpus_mask))
		return 0;
	for (int i = 0; i < MASK_WORDS; i++) {
		number = (number ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		number ^= number >> 29;
	}
	t->mask = number > BEING_CLAIMED ? number : BEING_CLAIMED + 1;
	return 0;
}

static __always_inline void note_use(struct masked *m, __u64 now)
{
	if (has_elapsed(m->used_at, now, UNUSED_NS / 8))
		m->used_at = now;
}

/* The number of the slot's queue for this set; NO_SLOT: it has none. */
GLOBAL_FUNC __u32 find_set(__u32 slot, __u64 mask, __u64 now)
{
	int i;

	for (i = 0; i < MASKS; i++) {
		__u32 number = number_of_part(slot, i);
		struct masked *m = masked_of(number);

		if (m->mask != mask)
			continue;
		note_use(m, now);
		return number;
	}
	return NO_SLOT;
}

/* Claims a place that no set has, or whose set is unused. NO_SLOT: there is none. */
GLOBAL_FUNC __u32 claim_place(__u32 slot, __u64 now)
{
	int i;

	for (i = 0; i < MASKS; i++) {
		__u32 number = number_of_part(slot, i);
		struct masked *m = masked_of(number);
		__u64 before = m->mask;

		if (before == BEING_CLAIMED)
			continue;
		if (before && (m->queued != m->taken || !has_elapsed(m->used_at, now, UNUSED_NS)))
			continue;
		if (__sync_bool_compare_and_swap(&m->mask, before, BEING_CLAIMED))
			return number;
	}
	return NO_SLOT;
}

/* A place for the set, if there is one: its queue's number, or the slot's. */
static __noinline __u32 claim_set(struct task_struct *p, struct thread *t, __u32 slot, __u64 now)
{
	__u32 bytes = (shared.nr_cpus + 63) / 64 * sizeof(__u64), number = claim_place(slot, now);

	if (number == NO_SLOT)
		return slot;
	struct masked *m = masked_of(number);

	m->vtime = workload_of(slot)->vtime;
	m->ahead = 0;
	m->used_at = now;
	bool known = bytes <= sizeof(m->cpus) && !bpf_probe_read_kernel(m->cpus, bytes, &p->cpus_mask);

	__sync_lock_test_and_set(&m->mask, known ? t->mask : 0);
	if (!known)
		return slot;
	*AT(has_masks, slot, MAX_SLOTS) = true;
	return number;
}

/* May the queue's threads use this CPU? */
static __always_inline bool is_in_mask(__u32 number, __u32 cpu)
{
	return *AT(masked_of(number)->cpus, cpu / 64, MASK_WORDS) >> (cpu % 64) & 1;
}

#endif
