/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weights and wake-up latencies of threads whose workloads hold CPUs as one.
 *
 * Problem: a policy changes them while the threads run and wait. A thread that was light has run far ahead of its
 * queue's clock by its last slice; with that distance a heavy one would wait for seconds.
 *
 * Rule: what a thread has run beyond its share remains the same time: in virtual time it is worth less to a heavier
 * one. A thread that waits has its new place at once; one that runs or sleeps when it is accounted next.
 *
 * Callers: the loader (`set_threads`); `groups/quota.h` (`account`).
 *
 * Limits: a thread's number may be another one's by the time it is given a weight; that one has it, too, until it
 * ends.
 */
#ifndef QUELL_REWEIGH_H
#define QUELL_REWEIGH_H

#include "groups/groups.h"
#include "queue/queues.h"

/* Does it count with another weight than it has by now? */
static __always_inline bool weight_changed(struct task_struct *p, struct thread *t)
{
	return together_on && t->counted && is_leader(t->slot) && (__u32)t->counted != weight_of(p, t, t->slot);
}

static __noinline void reweigh(struct task_struct *p, struct thread *t, __u64 now)
{
	__u64 clock = *clock_of(number_of_queue(p, t, t->slot));
	__u64 before = t->counted;

	charge_vtime(t);
	remove_load(t);
	add_load(p, t, t->slot, now);
	__s64 ahead = t->vtime - clock;

	if (ahead > (__s64)MAX_AHEAD_NS)
		ahead = MAX_AHEAD_NS;
	if (ahead > 0 && t->counted > 0)
		t->vtime = clock + (__u64)ahead * before / (__u64)t->counted;
}

/* Those in this queue that have another weight by now have other places. */
GLOBAL_FUNC int reweigh_waiting(__u32 number, __u64 now)
{
	struct task_struct *p;

	if (!queue_has_waiters(number) || is_fifo_queue(number))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, false), 0) {
		struct thread *t = thread_of(p);

		if (!t || !weight_changed(p, t))
			continue;
		reweigh(p, t, now);
		/* `___it` is the iterator that the macro declares. */
		move_into(&___it, p, t, number);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* The loader's settings for some threads take effect. */
SEC("?syscall")
int set_threads(void *unused)
{
	__u64 now = bpf_ktime_get_ns();
	int i;

	bpf_for(i, 0, shared.nr_settings) {
		struct setting *s = AT(shared.setting, i, MAX_SETTINGS);
		struct task_struct *p = bpf_task_from_pid(s->tid);

		s->waits_in = 0;
		if (!p)
			continue;
		struct thread *t = thread_of(p);

		if (t) {
			if (s->weight)
				t->own_weight = s->weight;
			if (s->latency)
				t->latency = s->latency == COMMON_LATENCY ? 0 : s->latency;
			if (weight_changed(p, t))
				s->waits_in = t->waits_in;
		}
		bpf_task_release(p);
	}
	__u64 last = 0;

	/* One walk for all of a queue, as a rule: the settings come by workload. */
	bpf_for(i, 0, shared.nr_settings) {
		__u64 queue = AT(shared.setting, i, MAX_SETTINGS)->waits_in;

		if (queue && queue != last)
			reweigh_waiting(queue - 1, now);
		if (queue)
			last = queue;
	}
	return 0;
}

#endif
