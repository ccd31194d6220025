/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The line of workloads that wait for a CPU: does any wait but this one?
 *
 * Problem: a latency-critical thread that took a CPU from best-effort work sleeps again after some microseconds, and to
 * look for workloads before the one that gets the CPU back costs more than all the rest of the way back.
 *
 * Rule: a version of the line changes whenever a thread of a workload begins to wait, after the thread is counted. A CPU
 * that finds that no other workload waits notes the version from before its search: as long as the line has that
 * version, none waits.
 *
 * Callers: `queue/queues.h` (`begin_wait`) and `hold/waiting.h` change the version; `hold/keep.h` searches and tests.
 *
 * Limits: a thread that waits and cannot have a CPU, as one of a workload at its limit, is in the line. The system's
 * threads are not.
 */
#ifndef QUELL_LINE_H
#define QUELL_LINE_H

#include "lib/state.h"
#include "hold/waiting.h"

/* What a CPU has found. */
struct alone {
	__u64 version; /* of the line at which no other slot than this waited, plus one; 0: none */
	__u32 slot;
} __attribute__((aligned(64)));

struct alone alones[MAX_CPUS];

#define alone_on(cpu) AT(alones, cpu, MAX_CPUS)

/* A thread of a workload has begun to wait: it is counted, and its slot is among those that wait. */
static __always_inline void change_line(void)
{
	__sync_fetch_and_add(&shared.line.version, 1);
}

static __always_inline bool is_alone_in_line(__u32 cpu, __u32 slot)
{
	const struct alone *alone = alone_on(cpu);

	return alone->version == *(volatile __u64 *)&shared.line.version + 1 && alone->slot == slot;
}

/* Does any workload of this class wait but this one? */
GLOBAL_FUNC bool others_wait(__u32 lc, __u32 slot)
{
	struct set *set = &shared.waiting[lc & 1];
	__u32 other;

	EACH_IN(set, other)
		if (other != slot && has_waiters(workload_of(other)))
			return true;
	return false;
}

/* Searches for other workloads that wait, and notes it if there are none. */
static __always_inline void note_alone(__u32 cpu, __u32 slot)
{
	struct alone *alone = alone_on(cpu);
	__u64 version = *(volatile __u64 *)&shared.line.version;

	alone->version = 0;
	if (others_wait(1, slot) || others_wait(0, slot))
		return;
	alone->slot = slot;
	alone->version = version + 1;
}

#endif
