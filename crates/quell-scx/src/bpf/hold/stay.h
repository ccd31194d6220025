/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A best-effort thread stays on its CPU while a real-time or a latency-critical thread has that, if no other CPU is free.
 *
 * Problem: mostly it gets the CPU back in a moment, and the way through its queue costs much more than that moment.
 *
 * Rule: it goes on with what is left of its slice. Behind a real-time thread its workload goes on holding the CPU; a
 * latency-critical workload holds the CPU itself. Where the other one does not leave, the thread goes to its queue: behind
 * a latency-critical thread when the slice of that ends, and from behind a real-time thread the loader fetches it. It has
 * the kernel enqueue the thread anew, which nothing here can do.
 *
 * Limits: normal threads only, without a quota, one a CPU. One that stayed in vain has lost up to a slice.
 */
#ifndef QUELL_STAY_H
#define QUELL_STAY_H

#include "hold/holders.h"

/* Is the thread one that may stay? The loader can fetch none but normal threads. */
static __always_inline bool may_stay(struct task_struct *p, struct thread *t)
{
	struct group *g = group_at(t->group);

	return p->policy == SCHED_NORMAL && t->slot < SYSTEM && !workload_of(t->slot)->lc && !g->limited && !g->idle;
}

static __always_inline void begin_stay(__u32 cpu, __u32 pid)
{
	cpu_at(&shared, cpu)->stays = pid;
	cpu_at(&shared, cpu)->unserved = unserved;
}

/* The thread goes to a queue, or to another class. */
static __always_inline void stays_no_more(struct task_struct *p, struct thread *t)
{
	if (!t->stopped_on)
		return;
	struct cpu *c = cpu_at(&shared, t->stopped_on - 1);

	t->stopped_on = 0;
	if (c->stays == (__u32)p->pid) {
		c->stays = 0;
		count(IN_VAIN);
	}
}

/* Threads of a workload that wait for each other more often than this are expected to do so again. */
#define CROWDED_NS 250000ULL

/* Will a thread of the workload find the others asleep? */
static __always_inline bool is_served_at_once(const struct workload *w, __u64 now)
{
	return !is_waiting(w) && lasts(w->crowded_at, now, CROWDED_NS);
}

/*
 * The thread stops without a slice. Is that for a latency-critical thread that has just taken the CPU? Then it has back what
 * was left of its slice, for which the kernel puts it behind the other one. Not where the others of that workload wait for
 * their turn: the kernel asks us for nobody before the thread that stays has had the CPU again. And not where another thread
 * stays: that one comes next, and the two would make way for each other, again and again, with the holder asleep.
 */
static __always_inline bool makes_way(struct task_struct *p, struct thread *t, __u32 cpu, __u64 now)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;

	if (p->scx.slice || cpu_at(&shared, cpu)->stays || holder >= SYSTEM || !workload_of(holder)->lc || t->slice_left < SHORTEST_NS || !may_stay(p, t) ||
	    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) != 1 || !is_served_at_once(workload_of(holder), now))
		return false;
	p->scx.slice = t->slice_left;
	count(MADE_WAY);
	begin_stay(cpu, p->pid);
	return true;
}

/* Is there a CPU of this kind that nobody holds? */
APART bool has_free_of(__u32 kind)
{
	struct set *set = of_kind(&shared, kind);
	__u32 cpu;

	EACH_IN(set, cpu)
		if (cpu_at(&shared, cpu)->holder == NOBODY && is_available(&shared, cpu))
			return true;
	return false;
}

/* The same of all, where there are a few. */
APART bool has_free(void)
{
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		if (cpu_at(&shared, cpu)->holder == NOBODY && is_available(&shared, cpu))
			return true;
	}
	return false;
}

/* Is there a CPU that nobody holds? */
static __always_inline bool has_free_cpu(void)
{
	return sets_on ? has_free_of(0) || has_free_of(1) : has_free();
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
	count(STAYED);
	begin_stay(cpu, c->stopped);
	return true;
}

/* Is there a latency-critical workload that waits and is owed the CPU? */
static __always_inline bool is_wanted(__u32 cpu)
{
	__u32 heir = heir_of(cpu);

	return heir < SYSTEM && is_owed_cpu(heir);
}

/* Is there somebody in the line for the CPU, which nobody holds, who comes before this best-effort workload? */
static __always_inline bool is_next_after_another(__u32 cpu, __u32 slot)
{
	__u32 heir = heir_of(cpu);

	if (heir >= SYSTEM)
		return false;
	struct workload *other = workload_of(heir), *own = workload_of(slot);

	return other->lc || rule_place(other, other->held) < rule_place(own, own->held);
}

/*
 * The latency-critical thread that took the CPU sleeps. Does the CPU go back to whom it was taken from? Who came before and
 * found it held is waiting; who comes from now on may take it.
 */
static __always_inline bool gets_back(__u32 cpu, __u32 slot)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;
	struct workload *w = workload_of(holder);

	if (holder < SYSTEM && (!w->lc || is_waiting(w)))
		return false;
	if (!workload_of(slot)->in_line || !is_available(&shared, cpu) || (holder < SYSTEM && !yield_cpu(cpu, holder)))
		return false;
	return !is_next_after_another(cpu, slot) && hand(cpu, NOBODY, slot);
}

/* It runs again, unless somebody goes first. */
static __always_inline void comes_back(__u32 cpu, struct task_struct *p, struct thread *t)
{
	struct cpu *c = cpu_at(&shared, cpu);
	bool goes_on = c->holder == t->slot ? c->unserved == unserved || !is_wanted(cpu) : gets_back(cpu, t->slot);

	c->stays = 0;
	limit_credit(t, number_of_queue(p, t, t->slot));
	if (goes_on && !is_banned(&shared, cpu))
		return;
	count(IN_VAIN);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The loader has the kernel enqueue this thread anew. */
static __always_inline void have_fetched(__u32 cpu, __u32 pid)
{
	cpu_at(&shared, cpu)->fetch = pid;
	__sync_fetch_and_add(&shared.fetches, 1);
	wake_loader();
}

/* Whoever has stayed for longer than a slice, behind a real-time thread, is fetched. */
static __always_inline void fetch(__u32 cpu, __u64 now)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 stays = c->stays, holder = c->holder;

	if (!stays || c->away != TOOK || !lasts(c->away_since, now, shared.be_slice_ns))
		return;
	if (holder < SYSTEM)
		yield_cpu(cpu, holder);
	have_fetched(cpu, stays);
}

#endif
