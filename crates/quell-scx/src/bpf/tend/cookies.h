/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling is reported to the loader.
 *
 * Problem: with threads that have cookies the kernel leaves granted CPUs idle, and any user may ask for a cookie.
 *
 * Rule: the kernel schedules all CPUs by cores as soon as any thread has a cookie, and has a flag for it in each run
 * queue: the patrol reads one. Nothing else changes here. The loader looks for the threads, and grants no CPU to a
 * workload that has one.
 *
 * Callers: `tend/patrol.h`.
 *
 * Limits: it is reported within 50 ms. Kernels without core scheduling have no such field: the verifier drops this
 * there.
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
