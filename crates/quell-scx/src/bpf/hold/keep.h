/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keep a preempted best-effort thread in its CPU's local queue, unless another CPU is free.
 *
 * Problem: mostly it has the CPU back in a moment, and the way through its queue costs much more than that moment.
 *
 * Rule: the thread runs on with the rest of its slice. Behind a real-time thread its workload remains the holder;
 * behind a latency-critical one that one's workload holds the CPU. Where the other thread does not leave, the kept
 * one goes to its queue: behind a latency-critical thread when that one's slice ends, from behind a real-time thread
 * by the loader, which has the kernel enqueue it anew, as nothing here can.
 *
 * Callers: the operations `stopping` (`keep_behind_lc`), `cpu_release` (`keep_behind_rt`), `running` (`resume_kept`),
 * `enqueue` and `quiescent` (`cancel_keep`); `tend/patrol.h` (`fetch_kept`).
 *
 * Limits: normal threads only, without a quota, one a CPU. A thread that was kept in vain has lost up to a slice.
 */
#ifndef QUELL_KEEP_H
#define QUELL_KEEP_H

#include "hold/holders.h"

/* May the thread be kept in its CPU's local queue? The loader can fetch normal threads only. */
static __always_inline bool may_keep(struct task_struct *p, struct thread *t)
{
	struct group *g = group_at(t->group);

	return p->policy == SCHED_NORMAL && t->slot < SYSTEM && !workload_of(t->slot)->lc && !g->limited && !g->idle;
}

static __always_inline void begin_keep(__u32 cpu, __u32 pid)
{
	cpu_at(&shared, cpu)->kept = pid;
	cpu_at(&shared, cpu)->unserved = unserved;
}

/* The thread goes to a queue, or to another class: it is kept no longer. */
static __always_inline void cancel_keep(struct task_struct *p, struct thread *t)
{
	if (!t->stopped_on)
		return;
	struct cpu *c = cpu_at(&shared, t->stopped_on - 1);

	t->stopped_on = 0;
	if (c->kept == (__u32)p->pid) {
		c->kept = 0;
		count(IN_VAIN);
	}
}

/* A workload whose threads waited for each other within this time is expected to be contended again. */
#define CROWDED_NS 250000ULL

/* Is a thread of the workload likely to find no others waiting? */
static __always_inline bool is_uncontended(const struct workload *w, __u64 now)
{
	return !has_waiters(w) && has_elapsed(w->crowded_at, now, CROWDED_NS);
}

/*
 * Did the thread lose its slice to a latency-critical thread that has just taken the CPU, so that it may be kept behind
 * that one? Not where other threads of that workload wait: the kernel does not call dispatch before the kept thread has
 * run. Not where another thread is kept: that one runs next, and the two would preempt each other while the holder
 * sleeps.
 */
static __always_inline bool may_keep_behind_lc(struct task_struct *p, struct thread *t, __u32 cpu, __u64 now)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;

	if (p->scx.slice || cpu_at(&shared, cpu)->kept || holder >= SYSTEM || !workload_of(holder)->lc)
		return false;
	return t->slice_left >= SHORTEST_NS && may_keep(p, t) && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) == 1 &&
	       is_uncontended(workload_of(holder), now);
}

/*
 * Gives the thread back what was left of its slice, for which the kernel keeps it in the local queue. Returns true if
 * so.
 */
static __always_inline bool keep_behind_lc(struct task_struct *p, struct thread *t, __u32 cpu, __u64 now)
{
	if (!may_keep_behind_lc(p, t, cpu, now))
		return false;
	p->scx.slice = t->slice_left;
	count(MADE_WAY);
	begin_keep(cpu, p->pid);
	return true;
}

/*
 * May the thread that a real-time thread preempted be kept behind that one? It is alone in the local queue, and no CPU
 * is free.
 */
static __always_inline bool may_keep_behind_rt(const struct cpu *c)
{
	__u32 holder = c->holder;

	return c->stopped && holder < SYSTEM && !workload_of(holder)->lc && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) == 1 &&
	       !has_free_cpu();
}

/* A real-time thread takes the CPU: keeps the thread that it preempted, if that may be. Returns true if so. */
static __always_inline bool keep_behind_rt(__u32 cpu)
{
	struct cpu *c = cpu_at(&shared, cpu);

	c->kept = 0;
	if (!may_keep_behind_rt(c))
		return false;
	count(STAYED);
	begin_keep(cpu, c->stopped);
	return true;
}

/* Is there a latency-critical workload that waits and is owed the CPU? */
static __always_inline bool is_wanted_by_lc(__u32 cpu)
{
	__u32 next = next_holder(cpu);

	return next < SYSTEM && is_owed_cpu(next);
}

/* Does another workload come before this best-effort one in the line for a CPU without a holder? */
static __always_inline bool is_preceded(__u32 cpu, __u32 slot)
{
	__u32 next = next_holder(cpu);

	if (next >= SYSTEM)
		return false;
	struct workload *other = workload_of(next), *own = workload_of(slot);

	return other->lc || rule_place(other, other->held) < rule_place(own, own->held);
}

/* No other workload waits: hands the CPU from the one that took it to this one, without a choice. */
static __always_inline bool try_return_at_once(__u32 cpu, __u32 from, __u32 to)
{
	if (!is_alone_in_line(cpu, to) || !try_hand_over(cpu, from, to))
		return false;
	note_yield(cpu, from);
	return true;
}

/*
 * The latency-critical thread that took the CPU sleeps: hands the CPU back to the workload from which it was taken. Not
 * if a workload before that one waits. Returns true if the workload has it again.
 */
static __always_inline bool try_return_cpu(__u32 cpu, __u32 slot)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;
	struct workload *w = workload_of(holder);

	if (holder < SYSTEM && (!w->lc || has_waiters(w)))
		return false;
	if (!workload_of(slot)->in_line || !is_available(&shared, cpu))
		return false;
	if (holder < SYSTEM && try_return_at_once(cpu, holder, slot))
		return true;
	if (holder < SYSTEM && !yield_cpu(cpu, holder))
		return false;
	if (is_preceded(cpu, slot) || !try_hand_over(cpu, NO_SLOT, slot))
		return false;
	note_alone(cpu, slot);
	return true;
}

/* The kept thread runs again, unless another workload has precedence: then the CPU is kicked. */
static __always_inline void resume_kept(__u32 cpu, struct task_struct *p, struct thread *t, __u64 kept_ns)
{
	struct cpu *c = cpu_at(&shared, cpu);
	bool goes_on = c->holder == t->slot ? c->unserved == unserved || !is_wanted_by_lc(cpu) : try_return_cpu(cpu, t->slot);

	c->kept = 0;
	/* In less time the queue's clock does not run away from it. */
	if (kept_ns > shared.be_slice_ns)
		limit_credit(t, number_of_queue(p, t, t->slot));
	if (goes_on && !is_banned(&shared, cpu))
		return;
	count(IN_VAIN);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Asks the loader to have the kernel enqueue this thread anew. */
static __always_inline void request_fetch(__u32 cpu, __u32 pid)
{
	cpu_at(&shared, cpu)->fetch = pid;
	__sync_fetch_and_add(&shared.fetches, 1);
	wake_loader();
}

/* Has the loader fetch a thread that has been kept behind a real-time thread for longer than a slice. */
static __always_inline void fetch_kept(__u32 cpu, __u64 now)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 kept = c->kept, holder = c->holder;

	if (!kept || c->away != AWAY_REPORTED || !has_elapsed(c->away_since, now, shared.be_slice_ns))
		return;
	if (holder < SYSTEM)
		yield_cpu(cpu, holder);
	request_fetch(cpu, kept);
}

#endif
