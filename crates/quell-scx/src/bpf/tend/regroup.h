/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiting threads are moved to the queue where they are looked for.
 *
 * Problem: while a thread waits its queue may cease to be the right one: its group is no longer throttled, its
 * workload has gone or has another class or a server, its set of CPUs has no queue any more. And a thread that has
 * waited for too long is behind others.
 *
 * Rule: the patrol and the loader iterate over a queue and move each such thread.
 *
 * Callers: `tend/patrol.h`; the loader, by `drain_queue` and `drain_server`.
 *
 * Limits: a thread that is on its way into a queue is missed; the next patrol finds it.
 */
#ifndef QUELL_REGROUP_H
#define QUELL_REGROUP_H

#include "groups/quota.h"
#include "serve/serve.h"
#include "hold/keep.h"

/* To the queue of its server, from the queue that is iterated over, if there is a server for the thread. */
#define move_to_server(it, p, t, slot, now)                                                           \
	({                                                                                            \
		__u32 home_ = NO_CPU, at_ = NO_SERVER;                                                \
		if (servers_on && workload_of(slot)->servers)                                         \
			home_ = select_server_cpu(p, slot);                                               \
		if (home_ < MAX_CPUS)                                                                 \
			at_ = server_of(home_, slot);                                                 \
		if (at_ < SERVERS) {                                                                  \
			end_wait(p, t);                                                         \
			begin_turn(t, slot, now);                                                     \
			t->served = server_number(home_, at_) + 1;                                    \
			scx_bpf_dsq_move_set_vtime(it, now);                                          \
			if (scx_bpf_dsq_move_vtime(it, p, queue_of_server(home_, at_), 0))            \
				scx_bpf_kick_cpu(home_, SCX_KICK_PREEMPT);                            \
		}                                                                                     \
		at_ < SERVERS;                                                                        \
	})

/* Moves the threads in this group's queue to their own, unless another group holds them back; or only those overdue. */
GLOBAL_FUNC int requeue_throttled(__u32 at, bool only_overdue, __u64 now)
{
	struct task_struct *p;
	__u64 queue = THROTTLED_DSQ + at;
	bool moved = false;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct thread *t = thread_of(p);

		/* One that still counts for its workload's queue is on its way here. */
		if (!t || t->waits_in)
			continue;
		if (only_overdue) {
			if (!t->runnable_since || !has_elapsed(t->runnable_since, now, overdue_ns))
				continue;
			t->overdue = 1;
		}
		__u32 slot = slot_of(p, t);
		__u32 above = throttled_by(p, t, now);

		/* `___it` is the iterator that the macro declares. */
		if (above != NO_GROUP) {
			if (above != at)
				scx_bpf_dsq_move(&___it, p, THROTTLED_DSQ + above, 0);
			continue;
		}
		if (move_to_server(&___it, p, t, slot, now)) {
			moved = true;
			continue;
		}
		/* Before it moves: it may run at once, and ceases to wait then. */
		__u32 number = number_of_queue(p, t, slot);

		begin_wait(t, number, now, true);
		if (move_into(&___it, p, t, number))
			moved = true;
	}
	bpf_rcu_read_unlock();
	if (moved) {
		kick_idle_cpus();
		wake_loader();
	}
	return 0;
}

/* The group is no longer throttled. */
static __always_inline void unthrottle(__u32 at, __u64 now)
{
	if (__sync_lock_test_and_set(&group_at(at)->throttled, 0))
		__sync_fetch_and_sub(&throttled_groups, 1);
	requeue_throttled(at, false, now);
}

/* Moves all threads of this queue to those of their present workloads. */
GLOBAL_FUNC int move_all(__u64 queue, __u64 now)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct thread *t = thread_of(p);

		if (!t)
			continue;
		__u32 slot = slot_of(p, t);

		if (move_to_server(&___it, p, t, slot, now))
			continue;
		if (servers_on)
			t->served = 0;
		__u32 number = number_of_queue(p, t, slot);

		begin_wait(t, number, now, false);
		/* `___it` is the iterator that the macro declares. */
		move_into(&___it, p, t, number);
	}
	bpf_rcu_read_unlock();
	kick_idle_cpus();
	return 0;
}

/* Is the queue's first thread of another set? It came while the queue's place was reused. */
GLOBAL_FUNC bool is_stale_part(__u32 number)
{
	struct task_struct *p;
	bool astray = false;

	if (!queue_has_waiters(number))
		return false;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		struct thread *t = thread_of(p);

		astray = t && t->mask != masked_of(number)->mask;
		break;
	}
	bpf_rcu_read_unlock();
	return astray;
}

/*
 * Moves threads from the slot's parts in which they should not be: from a queue by set whose set is another one or that
 * the slot has no more, from a queue by cache of the class that the slot had. `all`: every thread.
 */
GLOBAL_FUNC int move_parts(__u32 slot, bool all, __u64 now)
{
	int i;

	if (slot > SYSTEM || (!caches_on && !*AT(has_masks, slot, MAX_SLOTS)))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);

		if (all || (is_cache_queue(number) ? queue_has_waiters(number) : is_fifo(slot) || is_stale_part(number)))
			move_all(queue_in(number, is_cache_queue(number) && !is_fifo(slot)), now);
		if (all && is_cache_queue(number))
			move_all(queue_of(number), now);
	}
	return 0;
}

/* Moves overdue threads to the head of this queue. */
GLOBAL_FUNC int expedite_overdue(__u32 number, __u64 now)
{
	struct task_struct *p;

	if (!queue_has_waiters(number) || is_fifo_queue(number))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, false), 0) {
		struct thread *t = thread_of(p);

		if (!t || t->overdue || !t->runnable_since || !has_elapsed(t->runnable_since, now, overdue_ns))
			continue;
		t->overdue = 1;
		move_into(&___it, p, t, number);
	}
	bpf_rcu_read_unlock();
	return 0;
}

GLOBAL_FUNC int expedite_parts(__u32 slot, __u64 now)
{
	int i;

	if (!has_parts(slot))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		expedite_overdue(number_of_part(slot, i), now);
	}
	return 0;
}

#endif
