/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Per-CPU kernel threads run at once, within a budget.
 *
 * Problem: a CPU's ksoftirqd, kworkers and RCU threads do what others wait for, the server's own packets among it. As
 * threads of the system they wait for 50 ms where latency-critical work runs.
 *
 * Rule: such a thread that wakes up preempts what runs on its CPU, as long as such threads had less than 10 ms of
 * that CPU within 50 ms. A preempted latency-critical thread is the first of its queue, and gets a CPU without a
 * holder. One that was dispatched to the CPU and has not begun goes first: softirqs that are interrupted for it are
 * left to ksoftirqd, which would come between. It has the CPU for 1 ms then. Nor does one such kernel thread preempt
 * another: that one would have lost the CPU and wait as the system does.
 *
 * Callers: `place/seek.h` (`claim_slice_at_once`), `groups/quota.h` (`account`), `tend/boost.h`; the operation
 * `running` (`limit_slice_for_upkeep`).
 *
 * Limits: beyond the budget they have turns as all of the system. A server's CPU gives them its turns only: the rest
 * would be missing in its analysis. The end of that 1 ms comes at a tick.
 */
#ifndef QUELL_UPKEEP_H
#define QUELL_UPKEEP_H

#include "lib/state.h"

#define UPKEEP_NS 10000000ULL
#define UPKEEP_PERIOD_NS 50000000ULL
#define BEHIND_NS 1000000ULL
#define SHORTEST_UPKEEP_NS 100000ULL /* less is no budget */

/* Of one CPU; changed under the kernel's lock of it. */
struct upkeep {
	__u64 began;  /* the period */
	__u64 used;   /* ns, in it */
	__u64 comes;  /* was such a thread sent here that does not run yet? */
	__u64 runs;   /* does such a thread run? */
	__u64 behind; /* is it behind a latency-critical thread that was sent here before? */
} __attribute__((aligned(64)));

struct upkeep upkeeps[MAX_CPUS];

static __always_inline struct upkeep *upkeep_on(__u32 cpu)
{
	return AT(upkeeps, cpu, MAX_CPUS);
}

/* Is it a per-CPU kernel thread? */
static __always_inline bool is_percpu_kthread(struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/* Refills the CPU's budget if a period is over. Returns what is left, in ns; 0: nothing. */
static __always_inline __u64 refill_upkeep(__u32 cpu, __u64 now)
{
	struct upkeep *u = upkeep_on(cpu);

	if (has_elapsed(u->began, now, UPKEEP_PERIOD_NS)) {
		u->began = now;
		u->used = 0;
	}
	return u->used + SHORTEST_UPKEEP_NS <= UPKEEP_NS ? UPKEEP_NS - u->used : 0;
}

/* Charges what such a thread ran. */
static __always_inline void charge_upkeep(__u32 cpu, __u64 ran, __u64 now)
{
	refill_upkeep(cpu, now);
	upkeep_on(cpu)->used += ran;
}

/* A thread begins to run: its slice is short if a per-CPU kernel thread waits behind it. */
static __always_inline void limit_slice_for_upkeep(struct task_struct *p, __u32 cpu, bool of_system)
{
	struct upkeep *u = upkeep_on(cpu);

	u->runs = of_system && is_percpu_kthread(p);
	if (of_system)
		u->behind = 0;
	else if (u->behind && p->scx.slice > BEHIND_NS)
		p->scx.slice = BEHIND_NS;
	u->comes = u->behind;
}

#endif
