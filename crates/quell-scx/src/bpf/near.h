/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A best-effort thread from which a real-time thread took the CPU, and for which no other one is free, stays near: in a queue
 * of that CPU's own, in which nobody comes before it. Mostly the real-time thread is gone in a moment, and then it goes on
 * with what is left of its slice, for much less than the way through its workload's queue costs. Its workload goes on holding
 * the CPU. Where the real-time thread stays, an idle CPU takes the thread, or the patrol sends it to its workload's queue.
 */
#ifndef QUELL_NEAR_H
#define QUELL_NEAR_H

#include "holders.h"
#include "quota.h"

#define NEAR_CPU (PARKING + MAX_GROUPS) /* the first CPU's queue */

/* The thread is not near its CPU any more. If it went elsewhere, its workload yields the CPU. */
static __always_inline void leave_near(struct thread *t, __u32 to)
{
	__u32 from = t->near - 1;

	if (!t->near)
		return;
	t->near = 0;
	__u32 slot = __sync_lock_test_and_set(&cpu_at(&shared, from)->near, 0) - 1;

	if (from != to && slot < SYSTEM)
		yield_cpu(from, slot);
}

/* Is there a CPU that nobody holds? Perhaps the thread may not use it, or a ban parks it: then it looks for itself. */
APART bool has_free_cpu(void)
{
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		struct cpu *c = cpu_at(&shared, cpu);

		if (c->holder == NOBODY && c->in_pool && c->online && !c->away)
			return true;
	}
	return false;
}

/* A thread lost its CPU to a real-time one. Does it stay near? */
static __always_inline bool stay_near(struct task_struct *p, struct thread *t, __u32 slot, __u64 flags)
{
	__u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *c = cpu_at(&shared, cpu);
	struct group *g = group_at(t->group);

	if (!t->goes_on || t->overdue || c->away != TOOK || c->near || cpu >= MAX_CPUS)
		return false;
	if (slot >= SYSTEM || workload_of(slot)->lc || g->limited || g->idle || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (workload_of(slot)->on_wake_up && has_free_cpu())
		return false;
	if (!hand(cpu, NOBODY, slot))
		return false;
	t->near = cpu + 1;
	c->near = slot + 1;
	/* Zero: what is left of its slice. */
	scx_bpf_dsq_insert(p, NEAR_CPU + cpu, 0, flags);
	return true;
}

/* Whoever is near this CPU waits with the others of its workload from now on. */
APART int send_home(__u32 cpu, __u64 now)
{
	struct task_struct *p;

	if (cpu >= MAX_CPUS)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, NEAR_CPU + cpu, 0) {
		struct thread *t = thread_of(p);

		if (!t)
			continue;
		__u32 slot = slot_of(p, t);

		leave_near(t, NO_CPU);
		begins_to_wait(t, slot, now, true);
		/* `___it` is the iterator that the macro declares. */
		move_into(&___it, p, t, slot);
	}
	bpf_rcu_read_unlock();
	wake_loader();
	return 0;
}

/* The thread that is near goes on, if its workload still holds the CPU. */
static __always_inline bool run_near(__u32 cpu, __u64 now)
{
	__u32 near = cpu_at(&shared, cpu)->near;

	if (!near)
		return false;
	if (near == cpu_at(&shared, cpu)->holder + 1 && !is_banned(&shared, cpu) && scx_bpf_dsq_move_to_local(NEAR_CPU + cpu))
		return true;
	send_home(cpu, now);
	return false;
}

/* The CPU, which nobody holds, takes a thread that is near another one. */
APART bool take_from_near(__u32 cpu)
{
	int i;

	if (cpu >= MAX_CPUS || !is_available(&shared, cpu))
		return false;
	FOR(i, 0, shared.nr_cpus) {
		__u32 from = i;

		if (from >= MAX_CPUS)
			break;
		__u32 slot = cpu_at(&shared, from)->near - 1;

		if (slot >= SYSTEM || !workload_of(slot)->in_line || !hand(cpu, NOBODY, slot))
			continue;
		if (scx_bpf_dsq_move_to_local(NEAR_CPU + from))
			return true;
		hand(cpu, slot, NOBODY);
	}
	return false;
}

#endif
