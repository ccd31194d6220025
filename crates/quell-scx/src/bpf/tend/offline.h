/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A CPU that goes offline is emptied.
 *
 * Problem: it calls dispatch no more, and the kernel waits until no thread is on it.
 *
 * Rule: waiting threads that ran there last are moved to its local queue, from which the kernel migrates them.
 *
 * Callers: `tend/patrol.h` (`visit_offline`).
 *
 * Limits: all queues are visited, for as long as the CPU is on its way.
 */
#ifndef QUELL_OFFLINE_H
#define QUELL_OFFLINE_H

#include "queue/divided.h"
#include "groups/quota.h"

/* Moves the threads of this queue that ran on the CPU last to its local queue, from which the kernel migrates them. */
GLOBAL_FUNC int move_home(__u64 queue, __u32 cpu)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		/* `___it` is the iterator that the macro declares. */
		if (scx_bpf_task_cpu(p) == (__s32)cpu)
			scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

GLOBAL_FUNC int move_parts_home(__u32 slot, __u32 cpu)
{
	int i;

	if (slot > SYSTEM || (!caches_on && !*AT(has_masks, slot, MAX_SLOTS)))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);

		move_home(queue_in(number, false), cpu);
		if (is_cache_queue(number))
			move_home(queue_in(number, true), cpu);
	}
	return 0;
}

/*
 * A CPU that goes offline calls dispatch no more. Other CPUs take its threads that may run there; one that is bound to
 * it would wait for good, and the kernel ends a scheduler under which a thread waits.
 */
GLOBAL_FUNC int drain_offline_cpu(__u32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool has_gone = !bpf_cpumask_test_cpu(cpu, online);
	int i;

	scx_bpf_put_cpumask(online);
	if (has_gone)
		return 0;
	FOR(i, 0, shared.nr_slots + 1) {
		__u32 at = (__u32)i < shared.nr_slots ? i : SYSTEM;

		move_home(queue_in(at, false), cpu);
		move_home(queue_in(at, true), cpu);
		move_parts_home(at, cpu);
	}
	move_home(queue_in(BOUND + cpu, false), cpu);
	FOR(i, 0, nr_groups) {
		if (i >= MAX_GROUPS)
			break;
		if (group_at(i)->throttled)
			move_home(THROTTLED_DSQ + i, cpu);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

#endif
