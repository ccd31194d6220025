/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A best-effort thread whose CPU a real-time thread takes stays there, if no other CPU is free. Mostly it gets the CPU back
 * in a moment, and goes on with what is left of its slice, for much less than the way through its queue costs. Its workload
 * goes on holding the CPU. Where the real-time thread does not leave, the loader fetches the thread: it has the kernel
 * enqueue it anew, which nothing here can do.
 */
#ifndef QUELL_STAY_H
#define QUELL_STAY_H

#include "holders.h"

/* The thread stops, though it could go on. Is it one that may stay? */
static __always_inline bool may_stay(struct task_struct *p, struct thread *t)
{
	struct group *g = group_at(t->group);

	/* Without a slice it goes to its queue. And the loader can fetch none but normal threads. */
	return p->scx.slice && p->policy == SCHED_NORMAL && t->slot < SYSTEM && !workload_of(t->slot)->lc && !g->limited &&
	       !g->idle;
}

/* Is there a CPU that nobody holds? */
APART bool has_free_cpu(void)
{
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		const struct cpu *c = cpu_at(&shared, cpu);

		if (c->holder == NOBODY && is_available(&shared, cpu))
			return true;
	}
	return false;
}

/* A real-time thread takes the CPU. Does the thread that ran there stay, and nobody beside it? */
static __always_inline bool stays(__u32 cpu)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 holder = c->holder;

	c->stays = 0;
	if (!c->stopped || holder >= SYSTEM || workload_of(holder)->lc || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) != 1 ||
	    has_free_cpu())
		return false;
	c->stays = c->stopped;
	c->unserved = unserved;
	return true;
}

/* Has a latency-critical workload come meanwhile that is owed the CPU? */
static __always_inline bool is_wanted(__u32 cpu)
{
	if (cpu_at(&shared, cpu)->unserved == unserved)
		return false;
	__u32 heir = heir_of(cpu, NOBODY, NOBODY, NOBODY);

	return heir < SYSTEM && is_owed_cpu(heir);
}

/* It runs again, unless somebody goes first. */
static __always_inline void comes_back(__u32 cpu, struct thread *t)
{
	cpu_at(&shared, cpu)->stays = 0;
	limit_credit(t, t->slot);
	if (cpu_at(&shared, cpu)->holder != t->slot || is_wanted(cpu) || is_banned(&shared, cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Whoever has stayed for longer than a slice is fetched. */
static __always_inline void fetch(__u32 cpu, __u64 now)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 stays = c->stays, holder = c->holder;

	if (!stays || c->away != TOOK || now - c->away_since < shared.be_slice_ns)
		return;
	if (holder < SYSTEM)
		yield_cpu(cpu, holder);
	c->fetch = stays;
	__sync_fetch_and_add(&shared.fetches, 1);
	wake_loader();
}

#endif
