/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Workloads that hold CPUs as one, in the order of progress.
 *
 * Problem: among services that share few CPUs weighted run time preempts a thread for one that is further behind, and
 * both requests are late.
 *
 * Rule: their threads are in the leader's queue, first come, first served, for a slice each; none preempts another one.
 * At a choice the queue's first threads are examined (`queue/coming.h`): what their services have used, which threads
 * sleep on them (`queue/edges.h`), and how long they have waited. What a service used is the run time of its workload,
 * by a clock that follows the service furthest ahead: what it did not use in the past counts LEAD_NS at most.
 *
 * Callers: `hold/dispatch.h` (`take_by_progress`), the operation `running` (`begin_service_turn`).
 *
 * Limits: COMERS threads are examined; beyond them, and while a group is throttled, it is first come, first served. Run
 * time counts when a thread stops: a thread that runs is ahead of it by a slice at most.
 */
#ifndef QUELL_PROGRESS_H
#define QUELL_PROGRESS_H

#include "queue/coming.h"
#include "queue/edges.h"

#define COMERS 16
#define LEAD_NS 12000000ULL
#define OVERDUE_WAIT_NS 4000000ULL

/* What the service has used by the leader's clock. */
static __always_inline __u64 used_by(__u32 leader, __u32 member)
{
	__u64 used = workload_of(member)->run_time + service_of(member)->credit;
	__u64 earliest = service_of(leader)->clock - LEAD_NS;

	return rule_used_less(used, earliest) ? earliest : used;
}

/* A thread of the service begins to run. */
static __always_inline void begin_service_turn(struct thread *t)
{
	__u64 used = used_by(t->slot, t->member);
	__u64 *clock = &service_of(t->slot)->clock;

	service_of(t->member)->credit = used - workload_of(t->member)->run_time;
	if (rule_used_less(*clock, used))
		*clock = used;
	update_blocked(t);
}

/* The least that a service has used of whose threads one of the first of this queue may run here; NOWHERE: there is none. */
GLOBAL_FUNC __u64 least_used(__u32 number, __u32 cpu)
{
	struct task_struct *p;
	__u32 looked = 0, slot = slot_of_number(number);
	__u64 least = NOWHERE;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, true), 0) {
		struct thread *t = thread_of(p);

		if (looked++ >= COMERS)
			break;
		if (!t || !is_cpu_allowed(p, cpu))
			continue;
		__u64 used = used_by(slot, t->member);

		if (least == NOWHERE || rule_used_less(used, least))
			least = used;
	}
	bpf_rcu_read_unlock();
	return least;
}

/* The number of the queue's thread that is next by progress; 0: there is none. */
GLOBAL_FUNC __u32 pick_by_progress(__u32 number, __u32 cpu, __u64 least, __u64 now)
{
	struct bounds by = { .now = now, .least = least, .lead = LEAD_NS, .overdue = OVERDUE_WAIT_NS };
	__u32 looked = 0, picked = 0, slot = slot_of_number(number);
	struct task_struct *p;
	__u64 most = 0;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, true), 0) {
		struct thread *t = thread_of(p);

		if (looked++ >= COMERS)
			break;
		if (!t || !is_cpu_allowed(p, cpu))
			continue;
		struct coming one = {
			.since = t->waits_since, .used = used_by(slot, t->member), .blocked = service_of(t->member)->blocked
		};
		enum pick pick = rule_pick(&one, &by, most);

		if (pick == IS_BEHIND)
			continue;
		picked = p->pid;
		most = one.blocked + 1;
		if (pick == IS_NEXT)
			break;
	}
	bpf_rcu_read_unlock();
	return picked;
}

/* Moves the queue's next thread by progress to the local queue. False: none, or it has gone meanwhile. */
GLOBAL_FUNC bool take_by_progress(__u32 number, __u32 cpu, __u64 now)
{
	struct task_struct *p;
	__u32 looked = 0;
	bool moved = false;

	if (throttled_groups || scx_bpf_dsq_nr_queued(queue_in(number, true)) < 2)
		return false;
	__u64 least = least_used(number, cpu);
	__u32 picked = least == NOWHERE ? 0 : pick_by_progress(number, cpu, least, now);

	if (!picked)
		return false;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, true), 0) {
		if (looked++ >= COMERS)
			break;
		if ((__u32)p->pid != picked)
			continue;
		/* `___it` is the iterator that the macro declares. */
		if (is_cpu_allowed(p, cpu))
			moved = scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	bpf_rcu_read_unlock();
	return moved;
}

#endif
