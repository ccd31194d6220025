/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From which of a slot's queues a thread comes.
 *
 * Problem: a slot with threads that may use some CPUs only has several queues (`masked.h`), each with its own clock.
 *
 * Rule: of the queues that this CPU may use, that whose first thread has the first place by the slot's clock; where a thread
 * starves, that whose first thread has waited for the longest.
 *
 * Limits: each choice looks at the first thread of each queue. What came since then is taken from any of them.
 */
#ifndef QUELL_DIVIDED_H
#define QUELL_DIVIDED_H

#include "quota.h"

/* The queue's first thread that may run comes here. On its way it is in no queue, and nobody needs to wait for it. */
static __always_inline bool pull(__u32 number)
{
	if (is_of_bound(number))
		return scx_bpf_dsq_move_to_local(queue_of(number));
	__u32 *pulls = &workload_of(slot_of_number(number))->pulls;

	__sync_fetch_and_add(pulls, 1);
	bool comes = scx_bpf_dsq_move_to_local(queue_of(number));

	__sync_fetch_and_sub(pulls, 1);
	return comes;
}

APART bool run_first(__u32 number, __u64 now)
{
	if (throttled_groups)
		park_head(number, now);
	return pull(number);
}

/* Has the slot queues by set of CPUs? */
static __always_inline bool is_divided(__u32 slot)
{
	return slot <= SYSTEM && *AT(has_masks, slot, MAX_SLOTS) && !is_first_come_first_served(slot);
}

#define NOWHERE (~0ULL)

/* The place of the queue's first thread that may run here, by its slot's clock; NOWHERE: there is none. */
APART __u64 first_place(__u32 number, __u32 cpu)
{
	struct task_struct *p;
	__u64 place = NOWHERE;

	if (!scx_bpf_dsq_nr_queued(queue_of(number)))
		return NOWHERE;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		place = p->scx.dsq_vtime + ahead_of(number);
		break;
	}
	bpf_rcu_read_unlock();
	return place;
}

/* Of the slot's queues that whose first thread comes next here. */
APART __u32 next_queue(__u32 slot, __u32 cpu)
{
	__u64 first = first_place(slot, cpu);
	__u32 next = slot;
	int i;

	for (i = 0; i < MASKS; i++) {
		__u32 number = number_of_masked(slot, i);

		if (!is_waiting_in(number) || !is_in_set(number, cpu))
			continue;
		__u64 place = first_place(number, cpu);

		if (place != NOWHERE && (first == NOWHERE || (__s64)(place - first) < 0)) {
			first = place;
			next = number;
		}
	}
	return next;
}

/* The same of the system's, those of threads that are bound to this CPU included. */
APART __u32 next_of_system(__u32 cpu)
{
	__u32 bound = BOUND + cpu, next = is_divided(SYSTEM) ? next_queue(SYSTEM, cpu) : SYSTEM;

	if (!is_waiting_in(bound))
		return next;
	if (!is_waiting_in(SYSTEM))
		return bound;
	__u64 of_all = first_place(next, cpu), of_bound = first_place(bound, cpu);

	return of_all == NOWHERE || (of_bound != NOWHERE && (__s64)(of_bound - of_all) < 0) ? bound : next;
}

/* And that whose first thread has waited for the longest. */
APART __u32 oldest_queue(__u32 slot, __u32 cpu, __u64 now)
{
	__u64 oldest = first_waits_since(slot, cpu, now);
	__u32 next = slot;
	int i;

	for (i = 0; i < MASKS; i++) {
		__u32 number = number_of_masked(slot, i);
		__u64 since = is_in_set(number, cpu) ? first_waits_since(number, cpu, now) : now;

		if (since < oldest) {
			oldest = since;
			next = number;
		}
	}
	return next;
}

/* A thread of the slot comes here, from whichever of its queues has one that may. */
static __always_inline bool run_any(__u32 slot, __u32 cpu, __u64 now)
{
	int i;

	if (run_first(slot, now))
		return true;
	if (!is_divided(slot))
		return false;
	for (i = 0; i < MASKS; i++) {
		__u32 number = number_of_masked(slot, i);

		if (is_waiting_in(number) && is_in_set(number, cpu) && run_first(number, now))
			return true;
	}
	return false;
}

/* That which has waited for the longest. */
static __always_inline bool run_oldest(__u32 slot, __u32 cpu, __u64 now)
{
	return run_first(is_divided(slot) ? oldest_queue(slot, cpu, now) : slot, now);
}

/* Threads in the slot's queues. */
APART __s32 in_queues(__u32 slot)
{
	__s32 sum = scx_bpf_dsq_nr_queued(queue_of(slot));
	int i;

	if (!is_divided(slot))
		return sum;
	for (i = 0; i < MASKS; i++) {
		sum += scx_bpf_dsq_nr_queued(queue_of(number_of_masked(slot, i)));
	}
	return sum;
}

#endif
