/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Workloads that hold CPUs as one, and share them by weight.
 *
 * Problem: services that share few CPUs have no best-effort work to take from. A CPU that one of them holds is one
 * for which another waits, though only some of its threads are urgent.
 *
 * Rule: the threads of all are in the queue of one of them, the leader, by weighted run time as best-effort threads
 * are; the CPUs are the leader's, with its rights. The loader gives threads weights and wake-up latencies of their
 * own (`queue/reweigh.h`); a thread that wakes up has the credit of a sleeper that Linux gave before EEVDF, and may
 * preempt another one of the queue (`place/overtake.h`).
 *
 * Callers: `groups/slots.h` (`follow_leader`), `groups/groups.h` (`weight_of`), `groups/quota.h` (`accounting_slot`);
 * the tests everywhere.
 *
 * Limits: a weight counts in this queue only.
 */
#ifndef QUELL_TOGETHER_H
#define QUELL_TOGETHER_H

#include "lib/state.h"

/* Is this slot's queue a leader's by weighted run time? */
static __always_inline bool is_leader(__u32 slot)
{
	return together_on && workload_of(slot)->leads == BY_WEIGHT;
}

/* Is it one by progress? (`queue/progress.h`) */
static __always_inline bool is_by_progress(__u32 slot)
{
	return together_on && slot < SYSTEM && workload_of(slot)->leads == BY_PROGRESS;
}

static __always_inline bool is_fifo(__u32 slot)
{
	return workload_of(slot)->lc && !is_leader(slot);
}

/* Its threads are in the leader's queue. */
static __always_inline void follow_leader(struct thread *t)
{
	t->member = t->slot;
	if (t->slot < SYSTEM && workload_of(t->slot)->leader)
		t->slot = (workload_of(t->slot)->leader - 1) & (MAX_SLOTS - 1);
}

/* The slot to which what the thread runs is accounted: its own workload's. */
static __always_inline __u32 accounting_slot(struct thread *t)
{
	return together_on && t->slot < SYSTEM ? t->member : t->slot;
}

/* The thread's weight in this slot's queue; WEIGHT_ONE: a thread's at nice 0. */
static __always_inline __u32 weight_of(struct task_struct *p, struct thread *t, __u32 slot)
{
	if (is_leader(slot) && t->own_weight)
		return t->own_weight;
	return p->scx.weight ? p->scx.weight : WEIGHT_ONE;
}

#endif
