/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which thread sleeps on which, where workloads hold CPUs as one by progress.
 *
 * Problem: a service is held up by the threads of it that are ready while others of it sleep on them (dasec-socc22 §3's
 * occasions). A sampler in user space finds such a thread long after it ran.
 *
 * Rule: a thread that falls asleep sleeps on the thread of its service that woke it last. Each thread counts its
 * sleepers; while it waits for a CPU they are blocked, and count for its service. What it added there is exchanged and
 * the difference added, so that races leave no drift.
 *
 * Callers: the operations `select_cpu`, `enqueue`, `running` and `quiescent`; `queue/progress.h` reads `blocked`.
 *
 * Limits: a wake-up by an interrupt counts as that of the thread which it interrupts. The number of a thread that
 * ended may be another one's, whose count is off by one then.
 */
#ifndef QUELL_EDGES_H
#define QUELL_EDGES_H

#include "queue/queues.h"

/* A workload that holds CPUs as one with others, by its slot. */
struct service {
	__u64 credit;  /* its time in the queue is that of its threads plus this */
	__u64 clock;   /* a leader's: the time of the service that is furthest ahead */
	__u64 blocked; /* its threads that sleep on one of it that waits */
} __attribute__((aligned(64)));

struct service services[MAX_SLOTS];

#define service_of(slot) AT(services, slot, MAX_SLOTS)

/* What this thread blocks is counted anew: it begins or ceases to wait, or its sleepers are others. */
GLOBAL_FUNC int update_blocked(struct thread *t)
{
	if (!t)
		return 0;
	__u64 blocks = t->waits_in && t->sleepers > 0 ? (__u64)t->member << 32 | (__u32)t->sleepers : 0;

	if (blocks == t->blocks)
		return 0;
	__u64 before = __sync_lock_test_and_set(&t->blocks, blocks);

	if (before)
		__sync_fetch_and_sub(&service_of(before >> 32)->blocked, (__u32)before);
	if (blocks)
		__sync_fetch_and_add(&service_of(blocks >> 32)->blocked, (__u32)blocks);
	return 0;
}

/* One more or less sleeps on the thread of this number. Returns false if it is none of this service. */
GLOBAL_FUNC bool count_sleeper(__u32 number, __u32 member, __s32 more)
{
	struct task_struct *p = bpf_task_from_pid(number);
	bool is_of_service = false;

	if (!p)
		return false;
	struct thread *t = thread_of(p);

	if (t && t->member == member) {
		__sync_fetch_and_add(&t->sleepers, more);
		update_blocked(t);
		is_of_service = true;
	}
	bpf_task_release(p);
	return is_of_service;
}

/* The thread wakes up, by the current one. */
static __always_inline void end_sleep(struct thread *t)
{
	struct task_struct *by = bpf_get_current_task_btf();
	struct thread *its;

	if (t->sleeps_on)
		count_sleeper(t->sleeps_on, t->member, -1);
	t->sleeps_on = 0;
	if (!is_by_progress(t->slot))
		return;
	its = by ? thread_of(by) : NULL;
	if (its && its != t && its->slot == t->slot && its->member == t->member)
		t->waker = by->pid;
}

/* The thread falls asleep. */
static __always_inline void begin_sleep(struct thread *t)
{
	if (t->waker && !t->sleeps_on && is_by_progress(t->slot) && count_sleeper(t->waker, t->member, 1))
		t->sleeps_on = t->waker;
}

#endif
