/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Numbers of queues.
 *
 * Problem: a slot has several queues, and most of the code need not know of which kinds.
 *
 * Rule: a queue has a number, from which its slot, its clock and its counts follow: a workload's queue has its
 * slot's, then come those of the system's threads bound to one CPU (`queue/bound.h`), then each slot's by set of CPUs
 * (`queue/masked.h`) and by cache (`queue/cached.h`). A slot's queues are compared by the slot's clock: place +
 * `ahead`. A queue whose CPUs are crowded falls behind that clock; so its threads go first where others may go
 * elsewhere, and each gets what is fair among those that compete with it. It falls back by LAG slices of a thread of
 * common weight at most: more is forgotten, for all in the queue alike.
 *
 * Callers: `queue/queues.h`, `queue/divided.h`, `groups/quota.h` (`advance_clock`), and all code that visits a slot's
 * queues.
 *
 * Limits: a slot's `queued` and `taken` count all of its queues but those of bound threads.
 */
#ifndef QUELL_NUMBERS_H
#define QUELL_NUMBERS_H

#include "queue/cached.h"

#define LAG 4 /* slices: more than AWAY_SLICES */

/* Does the thread wait in a per-CPU queue: is it the system's, and bound to one CPU? */
static __always_inline bool is_percpu_system(struct task_struct *p, __u32 slot)
{
	return slot == SYSTEM && p->nr_cpus_allowed == 1;
}

/* Does it wait in a queue by set of CPUs, if there is a place for its set? */
static __always_inline bool has_mask_queue(struct task_struct *p, struct thread *t, __u32 slot)
{
	return t->mask && !is_percpu_system(p, slot) && !is_fifo(slot);
}

/* The queue for a thread of this slot. */
static __always_inline __u32 number_of_queue(struct task_struct *p, struct thread *t, __u32 slot)
{
	if (is_percpu_system(p, slot)) {
		__u32 cpu = scx_bpf_task_cpu(p);

		/* Just bound, it is still elsewhere: it comes again when it is there. */
		return cpu < MAX_CPUS && is_cpu_allowed(p, cpu) ? BOUND + cpu : slot;
	}
	if (!has_mask_queue(p, t, slot))
		return caches_on ? number_of_cached(slot, cache_of(scx_bpf_task_cpu(p))) : slot;
	__u32 number = find_set(slot, t->mask, bpf_ktime_get_ns());

	return number == NO_SLOT ? slot : number;
}

/* The same for one that comes: its set gets a queue if it has none. */
GLOBAL_FUNC __u32 number_for(struct task_struct *p __arg_trusted, struct thread *t, __u32 slot, __u64 now)
{
	if (!t)
		return slot;
	__u32 number = number_of_queue(p, t, slot);

	return number == slot && has_mask_queue(p, t, slot) ? claim_set(p, t, slot, now) : number;
}

/* Is it a queue of threads bound to one CPU? */
static __always_inline bool is_percpu_queue(__u32 number)
{
	return number >= BOUND && number < PART;
}

static __always_inline __u32 slot_of_number(__u32 number)
{
	if (number < BOUND)
		return number;
	return number < PART ? SYSTEM : (number - PART) / PARTS;
}

/* The queue by whose clock this one's threads are in order: all of a slot's caches have the slot's. */
static __always_inline __u32 clock_queue_of(__u32 number)
{
	return is_cache_queue(number) ? slot_of_number(number) : number;
}

static __always_inline bool is_fifo_queue(__u32 number)
{
	return (number < BOUND || is_cache_queue(number)) && is_fifo(slot_of_number(number));
}

/* Its clock. */
static __always_inline __u64 *clock_of(__u32 number)
{
	number = clock_queue_of(number);
	if (number < BOUND)
		return &workload_of(number)->vtime;
	return number < PART ? &bound_on(number - BOUND)->vtime : &masked_of(number)->vtime;
}

/* What makes a place in it one by its slot's clock: of a queue of its own only. */
static __always_inline __u64 *ahead_at(__u32 number)
{
	return number < PART ? &bound_on(number - BOUND)->ahead : &masked_of(number)->ahead;
}

static __always_inline __u64 ahead_of(__u32 number)
{
	return clock_queue_of(number) < BOUND ? 0 : *ahead_at(number);
}

/* Limits how far the queue's clock is behind the slot's. */
GLOBAL_FUNC int limit_lag(__u32 number, __u64 lag)
{
	__u64 least = *clock_of(slot_of_number(number)) - lag - *clock_of(number);

	if ((__s64)(least - *ahead_at(number)) > 0)
		*ahead_at(number) = least;
	return 0;
}

/* Do threads wait in it? In a slot's, or in another one of that slot. */
static __always_inline bool queue_has_waiters(__u32 number)
{
	if (number < BOUND)
		return has_waiters(workload_of(number));
	if (number < PART)
		return bound_on(number - BOUND)->queued != bound_on(number - BOUND)->taken;
	if (is_cache_queue(number))
		return cached_of(number)->queued != cached_of(number)->taken;
	return masked_of(number)->queued != masked_of(number)->taken;
}

/* Threads of the system in queues from which every CPU takes: its own and those by cache. */
struct cached system_everywhere;

/* Is it one of those? */
static __always_inline bool is_of_system_everywhere(__u32 number)
{
	return number == SYSTEM || (is_cache_queue(number) && slot_of_number(number) == SYSTEM);
}

/* Has the slot more queues than its own? */
static __always_inline bool has_parts(__u32 slot)
{
	return slot <= SYSTEM && (caches_on || (*AT(has_masks, slot, MAX_SLOTS) && !is_fifo(slot)));
}

/* Those from the first to before the last, by `number_of_part`, of a slot that is divided. */
static __always_inline __u32 first_part(__u32 slot)
{
	return *AT(has_masks, slot, MAX_SLOTS) ? 0 : MASKS;
}

static __always_inline __u32 last_part(void)
{
	return caches_on ? MASKS + cached_parts() : MASKS;
}

/* May the CPU take a thread from it? */
static __always_inline bool may_consume_from(__u32 number, __u32 cpu)
{
	return is_cache_queue(number) || is_in_mask(number, cpu);
}

/* The system's queues by set in which threads wait, as bits, and some others: those are found to be empty, and leave. */
__u64 system_sets;

/* Does a thread of the system wait in one of these queues by set that has this CPU? */
static __always_inline bool system_waits_in_set_of(__u32 cpu, __u64 sets)
{
	WHILE(sets) {
		__u32 at = first_bit(sets), number = number_of_part(SYSTEM, at);

		sets &= sets - 1;
		if (!is_in_mask(number, cpu))
			continue;
		if (queue_has_waiters(number))
			return true;
		__sync_fetch_and_and(&system_sets, ~(1ULL << at));
		/* A thread that came meanwhile may have found it still in. */
		if (queue_has_waiters(number)) {
			__sync_fetch_and_or(&system_sets, 1ULL << at);
			return true;
		}
	}
	return false;
}

/*
 * Does a thread of the system wait that may run on this CPU and elsewhere? Of those in the system's own queue the
 * affinity is not examined.
 */
static __always_inline bool system_waits_for(__u32 cpu)
{
	if (!has_waiters(workload_of(SYSTEM)))
		return false;
	if (*(volatile __u64 *)&system_everywhere.queued != *(volatile __u64 *)&system_everywhere.taken)
		return true;
	__u64 sets = *(volatile __u64 *)&system_sets;

	return sets && system_waits_in_set_of(cpu, sets);
}

/* The same, those that are bound to this CPU included. */
static __always_inline bool system_has_waiters(__u32 cpu)
{
	return queue_has_waiters(BOUND + cpu) || system_waits_for(cpu);
}

#endif
