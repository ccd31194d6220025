/* SPDX-License-Identifier: GPL-2.0-only */
/* The workloads' queues: first come, first served for LC, by weighted run time for BE and the system. */
#ifndef QUELL_QUEUES_H
#define QUELL_QUEUES_H

#include "state.h"

/* It runs, or does not want to any more. */
static __always_inline void ceases_to_wait(struct thread *t)
{
	if (!t->waits_in)
		return;
	__sync_fetch_and_add(&workload_of(t->waits_in - 1)->taken, 1);
	t->waits_in = 0;
}

/* A thread begins to wait. Returns true if a queue formed: not by one that only lost its CPU. */
static __always_inline bool begins_to_wait(struct thread *t, __u32 slot, __u64 now, bool came)
{
	ceases_to_wait(t);
	struct workload *w = workload_of(slot);
	__u64 place = __sync_fetch_and_add(&w->queued, 1);
	bool formed = came && place == w->taken;

	w->since[place & (QUEUE_TIMES - 1)] = now;
	t->waits_in = slot + 1;
	if (formed)
		__sync_fetch_and_add(&w->formed, 1);
	return formed;
}

static __always_inline void wake_loader(void)
{
	__u32 nothing = 0;

	if (shared.listening)
		bpf_ringbuf_output(&wakeups, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

static __always_inline void insert(struct task_struct *p, struct thread *t, __u32 slot, __u64 flags)
{
	struct workload *w = workload_of(slot);

	if (slot < SYSTEM && w->lc) {
		scx_bpf_dsq_insert(p, slot, shared.lc_slice_ns, flags);
		return;
	}
	/* Who slept long does not come back with more than one slice's credit. */
	__u64 vtime = t->vtime;
	__u64 earliest = w->vtime - shared.be_slice_ns;

	if ((__s64)(vtime - earliest) < 0)
		vtime = t->vtime = earliest;
	scx_bpf_dsq_insert_vtime(p, slot, shared.be_slice_ns, vtime, flags);
}

/* It ran for so long. */
static __always_inline void account(struct task_struct *p, struct thread *t, __u64 ran)
{
	struct workload *w = workload_of(t->slot);
	__u64 weight = p->scx.weight;

	__sync_fetch_and_add(&w->run_time, ran);
	t->vtime += ran * 100 / (weight ? weight : 100);
}

/* The queue's clock follows the thread that runs. */
static __always_inline void advance(struct thread *t)
{
	struct workload *w = workload_of(t->slot);

	if ((__s64)(t->vtime - w->vtime) > 0)
		w->vtime = t->vtime;
}

#endif
