/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that cannot run because higher scheduling classes have every CPU that they may use.
 *
 * Problem: the kernel ends a scheduler under which a thread waits for long, also if real-time threads are the cause.
 *
 * Rule: a thread that has been runnable since the given time, and all of whose CPUs are away, is reported to the
 * loader, with one of those CPUs.
 *
 * Callers: the loader (`Grant::stuck`).
 *
 * Limits: the first 32.
 */
#ifndef QUELL_STUCK_H
#define QUELL_STUCK_H

#include "lib/state.h"

#define MAX_STUCK 32

struct stuck {
	__u32 pid;
	__u32 cpu;   /* one of those that it may use */
	__u64 since; /* it could run */
	char name[16];
};

struct stuck stuck[MAX_STUCK]; /* as of the last call */
__u32 nr_stuck;

/* One of the CPUs that the thread may use, if a higher class has all of them; NO_CPU: not all. */
static __always_inline __u32 find_rt_held_cpu(struct task_struct *p)
{
	__u32 found = NO_CPU;
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		if (!cpu_at(&shared, cpu)->online || !is_cpu_allowed(p, cpu))
			continue;
		if (!cpu_at(&shared, cpu)->away)
			return NO_CPU;
		found = cpu;
	}
	return found;
}

/* Finds the threads that have waited like that since `stuck_before`. */
SEC("syscall")
int find_stuck(void *unused)
{
	struct task_struct *p;
	__u32 found = 0;

	bpf_rcu_read_lock();
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS) {
		struct thread *t = thread_of(p);

		if (!t || !t->runnable_since || t->runnable_since > shared.stuck_before)
			continue;
		__u32 cpu = find_rt_held_cpu(p);

		if (cpu == NO_CPU)
			continue;
		struct stuck *s = AT(stuck, found, MAX_STUCK);

		s->pid = p->pid;
		s->cpu = cpu;
		s->since = t->runnable_since;
		bpf_probe_read_kernel_str(s->name, sizeof(s->name), p->comm);
		if (++found >= MAX_STUCK)
			break;
	}
	bpf_rcu_read_unlock();
	nr_stuck = found;
	return 0;
}

#endif
