/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wake-up preemption within a queue by weighted run time.
 *
 * Problem: in such a queue a thread that wakes up comes next, but only when a slice ends.
 *
 * Rule: it preempts the thread that is furthest ahead of it in virtual time, if that is by more than its wake-up
 * latency: as Linux's `sched_wakeup_granularity_ns`, a thread's own. Both count as for a thread of common weight of
 * its group. It comes first in the queue then, and the CPU is kicked.
 *
 * Callers: the operations `enqueue` (`find_cpu_to_overtake`, `overtake`) and `running` (`begin_vtime_turn`).
 *
 * Limits: in queues of workloads that hold CPUs as one only. LOOKED_AT CPUs are examined, from the thread's last one
 * on; only that one for a thread with an affinity mask. An overtaken thread counts as level with the other until it
 * runs again.
 */
#ifndef QUELL_OVERTAKE_H
#define QUELL_OVERTAKE_H

#include "hold/holders.h"
#include "groups/quota.h"

#define LOOKED_AT 16
#define RATE_ONE 1024 /* virtual time runs as fast as the clock */

/* The thread that runs on a CPU, in virtual time. */
struct turn {
	__u64 vtime; /* by its slot's clock, as of then */
	__u64 since;
	__u64 rate;  /* of its virtual time */
} __attribute__((aligned(64)));

struct turn turns[MAX_CPUS];

#define turn_on(cpu) AT(turns, cpu, MAX_CPUS)

/* A thread of such a queue begins to run. */
static __always_inline void begin_vtime_turn(struct task_struct *p, struct thread *t, __u32 cpu, __u64 now)
{
	__u32 number = number_of_queue(p, t, t->slot);
	struct turn *turn = turn_on(cpu);

	charge_vtime(t);
	limit_credit(t, number);
	turn->vtime = t->vtime + ahead_of(number);
	turn->since = now;
	turn->rate = virtual_time(t->group, t->counted > 0 ? t->counted : WEIGHT_ONE, RATE_ONE);
}

/* How far the thread that runs there is ahead of this place, by the slot's clock; 0: it is not, or is of another slot. */
GLOBAL_FUNC __u64 ahead_on(__u32 cpu, __u32 slot, __u64 place, __u64 now)
{
	const struct cpu *c = cpu_at(&shared, cpu);

	if (c->holder != slot || c->runs != slot || c->away)
		return 0;
	struct turn *turn = turn_on(cpu);
	__u64 ran = has_elapsed(turn->since, now, 0) ? now - turn->since : 0;
	__u64 vtime = turn->vtime + ran * turn->rate / RATE_ONE;

	return rule_overtakes(vtime, place, 0) ? vtime - place : 0;
}

/* The CPU whose thread is furthest ahead of this place; NO_CPU: there is none. */
GLOBAL_FUNC __u32 find_furthest_ahead(__u32 home, __u32 slot, __u64 place, __u32 looks, __u64 now)
{
	__u32 cpus = shared.nr_cpus ? shared.nr_cpus : 1, found = NO_CPU;
	__u64 furthest = 0;
	int i;

	FOR(i, 0, looks) {
		__u32 cpu = (home + i) % cpus;
		__u64 ahead = ahead_on(cpu, slot, place, now);

		if (ahead > furthest) {
			furthest = ahead;
			found = cpu;
		}
	}
	return found;
}

/* The thread has woken up: the CPU whose thread it preempts; NO_CPU: none. Updates its place in the queue. */
static __always_inline __u32 find_cpu_to_overtake(struct task_struct *p, struct thread *t, __u32 slot, __u32 number,
						  __u64 now)
{
	__u64 latency = t->latency ? t->latency : shared.wake_up_latency_ns;
	__u32 home = scx_bpf_task_cpu(p), looks = t->mask ? 1 : LOOKED_AT;

	if (group_at(t->group)->idle || !is_cpu_allowed(p, home))
		return NO_CPU;
	if (looks > shared.nr_cpus)
		looks = shared.nr_cpus;
	/*
	 * The cheap test first: virtual time and latency as they are bound the exact values below, so that it mostly
	 * decides.
	 */
	if (t->vtime_of == number + 1 && !t->overdue && !t->first &&
	    find_furthest_ahead(home, slot, t->vtime + ahead_of(number) + latency, looks, now) == NO_CPU)
		return NO_CPU;
	__u64 place = place_thread_in(t, number) + ahead_of(number);

	return find_furthest_ahead(home, slot, place + virtual_time(t->group, WEIGHT_ONE, latency), looks, now);
}

static __always_inline void overtake(__u32 cpu, struct thread *t, __u32 number)
{
	struct turn *turn = turn_on(cpu);

	count(OVERTAKEN);
	turn->vtime = t->vtime + ahead_of(number);
	turn->since = bpf_ktime_get_ns();
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

#endif
