/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Per-CPU queues: the system's threads that may use one CPU only.
 *
 * Problem: in the system's one queue every CPU steps over all threads that are bound elsewhere, with the queue's
 * lock, each time that it takes a thread: another user's thousand threads, bound to one CPU, slow all CPUs down. And
 * by one clock they are behind or ahead of the others for good, so that their weights mean nothing.
 *
 * Rule: such a thread waits in the queue of its CPU, which has a clock of its own.
 *
 * Callers: `queue/numbers.h` and `queue/queues.h`.
 *
 * Limits: the system's threads only; others with an affinity mask are in queues by set of CPUs (`queue/masked.h`).
 */
#ifndef QUELL_BOUND_H
#define QUELL_BOUND_H

#include "lib/state.h"

/* Queues are numbered: a workload's by its slot, those of bound threads from here on, by the CPU. */
#define BOUND MAX_SLOTS

struct bound {
	__u64 queued; /* threads that began to wait, ever */
	__u64 taken;  /* threads that ceased to wait, ever */
	__u64 vtime;  /* the queue's clock */
	__u64 ahead;  /* a place by the system's clock - the same by this one */
} __attribute__((aligned(64)));

struct bound bounds[MAX_CPUS];

static __always_inline struct bound *bound_on(__u32 cpu)
{
	return AT(bounds, cpu, MAX_CPUS);
}

#endif
