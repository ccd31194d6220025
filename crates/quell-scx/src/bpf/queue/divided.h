/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice between a slot's queues.
 *
 * Problem: a slot has several queues: by set of CPUs, each with its own clock (`queue/masked.h`), and by cache
 * (`queue/cached.h`).
 *
 * Rule: of the queues that this CPU may use, the one whose first thread has the first place by the slot's clock, or
 * came first; one of another cache has to be first by far. For a starving thread, the one whose first thread has
 * waited for the longest.
 *
 * Callers: `hold/dispatch.h`; `tend/offline.h` and `tend/boost.h` visit the parts.
 *
 * Limits: each choice examines the first thread of each queue by set, of this cache's and of one other cache's. What
 * came since then is taken from any of the slot's, those of the nearest caches by number first.
 */
#ifndef QUELL_DIVIDED_H
#define QUELL_DIVIDED_H

#include "groups/quota.h"

/* Moves the queue's first thread that may run here to the local queue. On its way it is in no queue: `pulls` counts it. */
static __always_inline bool consume(__u32 number)
{
	if (is_percpu_queue(number))
		return scx_bpf_dsq_move_to_local(queue_of(number));
	__u32 *pulls = &workload_of(slot_of_number(number))->pulls;

	__sync_fetch_and_add(pulls, 1);
	bool comes = scx_bpf_dsq_move_to_local(queue_of(number));

	__sync_fetch_and_sub(pulls, 1);
	return comes;
}

/* The same, after throttled threads at the head were moved away. */
static __always_inline bool consume_unthrottled(__u32 number, __u64 now)
{
	if (throttled_groups)
		throttle_head(number, now);
	return consume(number);
}

GLOBAL_FUNC bool consume_first(__u32 number, __u64 now)
{
	return consume_unthrottled(number, now);
}

#define NOWHERE (~0ULL)

/* Is it the queue of another cache than this CPU's? */
static __always_inline bool is_far(__u32 number, __u32 cpu)
{
	return is_cache_queue(number) && number != number_of_cached(slot_of_number(number), cache_of(cpu));
}

/*
 * The place of the queue's first thread that may run here, by its slot's clock; NOWHERE: there is none. In another
 * cache's queue it counts as AWAY_SLICES of a thread of common weight behind.
 */
GLOBAL_FUNC __u64 first_place(__u32 number, __u32 cpu)
{
	struct task_struct *p;
	__u64 place = NOWHERE;

	if (!scx_bpf_dsq_nr_queued(queue_of(number)))
		return NOWHERE;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		if (!is_cpu_allowed(p, cpu))
			continue;
		struct thread *t = is_far(number, cpu) ? thread_of(p) : NULL;

		place = p->scx.dsq_vtime + ahead_of(number);
		if (t)
			place += virtual_time(t->group, WEIGHT_ONE, AWAY_SLICES * shared.be_slice_ns);
		break;
	}
	bpf_rcu_read_unlock();
	return place;
}

/* The queue of one cache after the other, by the clock: CPUs of one cache examine different ones. */
static __always_inline __u32 another_cache(__u32 slot, __u32 cpu, __u64 now)
{
	__u32 others = cached_parts() > 1 ? cached_parts() - 1 : 1, turn = (now >> 20) + cpu;

	return number_of_cached(slot, (cache_of(cpu) + 1 + turn % others) % (others + 1));
}

/* The queues that are examined before a thread is chosen: by set, the slot's own, this cache's, and one other cache's. */
#define LOOKED_INTO (MASKS + 3)

static __always_inline __u32 looked_into(__u32 slot, __u32 cpu, __u32 at, __u64 now)
{
	if (at < MASKS)
		return number_of_part(slot, at);
	if (at == MASKS)
		return slot;
	return at == MASKS + 1 ? number_of_cached(slot, cache_of(cpu)) : another_cache(slot, cpu, now);
}

/* The slot's queue whose first thread is next on this CPU by the slot's clock. */
GLOBAL_FUNC __u32 next_by_time(__u32 slot, __u32 cpu, __u64 now)
{
	__u64 first = NOWHERE;
	__u32 next = slot;
	int i;

	FOR(i, first_part(slot), caches_on ? LOOKED_INTO : MASKS + 1) {
		__u32 number = looked_into(slot, cpu, i, now);

		if (number != slot && (!queue_has_waiters(number) || !may_consume_from(number, cpu)))
			continue;
		__u64 place = first_place(number, cpu);

		if (place != NOWHERE && (first == NOWHERE || (__s64)(place - first) < 0)) {
			first = place;
			next = number;
		}
	}
	return next;
}

/* The slot's queue whose first thread came first. */
GLOBAL_FUNC __u32 next_by_coming(__u32 slot, __u32 cpu, __u64 now)
{
	__u32 near = number_of_cached(slot, cache_of(cpu)), far = another_cache(slot, cpu, now);

	if (!queue_has_waiters(far))
		return near;
	return queue_waits_since(far, cpu, now) + AWAY_NS < queue_waits_since(near, cpu, now) ? far : near;
}

static __always_inline __u32 next_queue(__u32 slot, __u32 cpu, __u64 now)
{
	if (!has_parts(slot))
		return slot;
	return is_fifo(slot) ? next_by_coming(slot, cpu, now) : next_by_time(slot, cpu, now);
}

/* The same of the system's, those of threads that are bound to this CPU included. */
GLOBAL_FUNC __u32 next_of_system(__u32 cpu, __u64 now)
{
	__u32 bound = BOUND + cpu, next = next_queue(SYSTEM, cpu, now);

	if (!queue_has_waiters(bound))
		return next;
	if (!queue_has_waiters(SYSTEM))
		return bound;
	__u64 of_all = first_place(next, cpu), of_bound = first_place(bound, cpu);

	return of_all == NOWHERE || (of_bound != NOWHERE && (__s64)(of_bound - of_all) < 0) ? bound : next;
}

/* The slot's queue whose first thread has waited for the longest. */
GLOBAL_FUNC __u32 oldest_queue(__u32 slot, __u32 cpu, __u64 now)
{
	__u64 oldest = queue_waits_since(slot, cpu, now);
	__u32 next = slot;
	int i;

	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);
		__u64 since = may_consume_from(number, cpu) ? queue_waits_since(number, cpu, now) : now;

		if (since < oldest) {
			oldest = since;
			next = number;
		}
	}
	return next;
}

/* The slot's queues by set, then those by cache, from this CPU's on. */
static __always_inline __u32 part_from_here(__u32 slot, __u32 cpu, __u32 at)
{
	__u32 caches = cached_parts() ? cached_parts() : 1;

	return at < MASKS ? number_of_part(slot, at) : number_of_cached(slot, (cache_of(cpu) + at - MASKS) % caches);
}

/* Moves a thread of the slot here, from the first of its parts that has one which may run here. */
GLOBAL_FUNC bool consume_part(__u32 slot, __u32 cpu, __u64 now)
{
	int i;

	FOR(i, first_part(slot), last_part()) {
		__u32 number = part_from_here(slot, cpu, i);

		if (queue_has_waiters(number) && may_consume_from(number, cpu) && consume_unthrottled(number, now))
			return true;
	}
	return false;
}

static __always_inline bool consume_any(__u32 slot, __u32 cpu, __u64 now)
{
	return consume_first(slot, now) || (has_parts(slot) && consume_part(slot, cpu, now));
}

/* Moves the thread here that has waited for the longest. */
static __always_inline bool consume_oldest(__u32 slot, __u32 cpu, __u64 now)
{
	return consume_first(has_parts(slot) ? oldest_queue(slot, cpu, now) : slot, now);
}

/* Threads in the slot's queues. */
GLOBAL_FUNC __s32 in_queues(__u32 slot)
{
	__s32 sum = scx_bpf_dsq_nr_queued(queue_of(slot));
	int i;

	if (!has_parts(slot))
		return sum;
	FOR(i, first_part(slot), last_part()) {
		sum += scx_bpf_dsq_nr_queued(queue_of(number_of_part(slot, i)));
	}
	return sum;
}

#endif
