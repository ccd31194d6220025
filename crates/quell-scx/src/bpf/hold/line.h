/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The line of workloads that wait for a CPU: is it empty?
 *
 * Problem: a latency-critical thread that took a CPU from best-effort work sleeps again after some microseconds, and to
 * look for workloads before the one that gets the CPU back costs more than all the rest of the way back.
 *
 * Rule: a version of the line changes whenever a thread of a workload begins to wait, after the thread is counted. What
 * finds that no workload waits notes the version from before its search: as long as the line has that version, none
 * waits.
 *
 * Callers: `queue/queues.h` (`begin_wait`) and `hold/waiting.h` change the version; `hold/keep.h` notes an empty line,
 * and tests for it.
 *
 * Limits: a thread that waits and cannot have a CPU, as one of a workload at its limit, keeps the line from being empty.
 * The system's threads are not in the line.
 */
#ifndef QUELL_LINE_H
#define QUELL_LINE_H

#include "lib/state.h"
#include "hold/waiting.h"

/* A thread of a workload has begun to wait: it is counted, and its slot is among those that wait. */
static __always_inline void change_line(void)
{
	__sync_fetch_and_add(&shared.line.version, 1);
}

static __always_inline bool is_line_empty(void)
{
	return *(volatile __u64 *)&shared.line.empty_at == *(volatile __u64 *)&shared.line.version + 1;
}

/* Does any workload of this class wait? */
GLOBAL_FUNC bool class_has_waiters(__u32 lc)
{
	struct set *set = &shared.waiting[lc & 1];
	__u32 slot;

	EACH_IN(set, slot)
		if (has_waiters(workload_of(slot)))
			return true;
	return false;
}

/* Searches for workloads that wait, and notes it if there are none. */
static __always_inline void note_empty_line(void)
{
	__u64 version = *(volatile __u64 *)&shared.line.version;

	if (!class_has_waiters(1) && !class_has_waiters(0))
		*(volatile __u64 *)&shared.line.empty_at = version + 1;
}

#endif
