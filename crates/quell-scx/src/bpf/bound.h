/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The system's threads that may use one CPU alone: a queue for each CPU.
 *
 * Problem: in the system's one queue every CPU steps over all threads that are bound elsewhere, with the queue's lock, each
 * time that it takes a thread: a stranger's thousand threads, bound to one CPU, slow all CPUs down. And by one clock
 * they are behind or ahead of the others for good, so that their weights mean nothing.
 *
 * Rule: such a thread waits in the queue of its CPU, which has a clock of its own. Where threads wait in both queues, they
 * take turns.
 *
 * Limits: the system's threads alone. One that may use two of many CPUs is in the queue of all. A workload's threads
 * are in the workload's queue.
 */
#ifndef QUELL_BOUND_H
#define QUELL_BOUND_H

#include "state.h"

/* Queues are numbered: a workload's by its slot, those of bound threads from here on, by the CPU. */
#define BOUND MAX_SLOTS

struct bound {
	__u64 queued; /* threads that began to wait, ever */
	__u64 taken;  /* threads that ceased to wait, ever */
	__u64 vtime;  /* the queue's clock */
	__u64 its_turn; /* is it its turn, where the system's other threads wait, too? */
} __attribute__((aligned(64)));

struct bound bounds[MAX_CPUS];

static __always_inline struct bound *bound_on(__u32 cpu)
{
	return AT(bounds, cpu, MAX_CPUS);
}

/* The queue for a thread of this slot. */
static __always_inline __u32 number_of_queue(struct task_struct *p, __u32 slot)
{
	if (slot != SYSTEM || p->nr_cpus_allowed != 1)
		return slot;
	__u32 cpu = scx_bpf_task_cpu(p);

	/* Just bound, it is still elsewhere: it comes again when it is there. */
	return cpu < MAX_CPUS && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? BOUND + cpu : slot;
}

/* Its clock. */
static __always_inline __u64 *clock_of(__u32 number)
{
	return number < BOUND ? &workload_of(number)->vtime : &bound_on(number - BOUND)->vtime;
}

/* Do threads wait in it? */
static __always_inline bool is_waiting_in(__u32 number)
{
	return number < BOUND ? is_waiting(workload_of(number)) :
				bound_on(number - BOUND)->queued != bound_on(number - BOUND)->taken;
}

/* Does a thread of the system wait that may run on this CPU? Of those that are not bound that is not looked at. */
static __always_inline bool system_waits(__u32 cpu)
{
	return is_waiting(workload_of(SYSTEM)) || is_waiting_in(BOUND + cpu);
}

#endif
