/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling that begins while the scheduler runs is told to the loader.
 *
 * Problem: with threads that have cookies the kernel leaves CPUs idle that are granted. The loader refuses to load then, but a
 * program may ask for a cookie later.
 *
 * Rule: the kernel schedules all CPUs by cores as soon as any thread has a cookie, and says so in each run queue: the patrol
 * looks at one. The loader looks for the thread, and decides.
 *
 * Limits: it is told within 50 ms. Kernels without core scheduling have no such field: there this is dropped.
 */
#ifndef QUELL_COOKIES_H
#define QUELL_COOKIES_H

#include "queue/queues.h"

__u32 core_scheduled; /* does any thread have a cookie? */

static __always_inline void check_core_scheduling(void)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, 0);
	bool was = core_scheduled;

	core_scheduled = rq && is_scheduled_by_core(rq);
	if (core_scheduled && !was)
		wake_loader();
}

#endif
