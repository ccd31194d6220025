/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max: a group that has used up its quota is throttled until the next period begins.
 *
 * Problem: run time is known when a thread stops, and threads of one group run on several CPUs at once.
 *
 * Rule: budget += quota a period, up to quota + burst; budget -= run time; at 0 the group is throttled. Its threads
 * wait in a queue of its own meanwhile, and count for no workload's queue. A slice ends with the budget.
 *
 * Callers: `account`: the operations `stopping` and `dispatch`; `throttled_by`: wherever a thread is enqueued or
 * chosen; `schedule_patrol`: `tend/boost.h`.
 *
 * Limits: each CPU may run one slice beyond the quota. That is a debt, which later periods pay.
 */
#ifndef QUELL_QUOTA_H
#define QUELL_QUOTA_H

#include "groups/groups.h"
#include "queue/queues.h"
#include "queue/reweigh.h"
#include "tend/upkeep.h"

#define THROTTLED_DSQ (BY_TIME + NUMBERS) /* the first of the queues of throttled groups */
#define MAX_DEBT_NS 10000000000ULL /* no group is throttled for longer than this to pay a debt */

struct patrol {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct patrol);
} patrols SEC(".maps");

__u64 next_patrol; /* when the timer fires */

/* The highest throttled group at or above this one; NO_GROUP: none is. */
GLOBAL_FUNC __u32 throttled_above(__u32 at)
{
	__u32 found = NO_GROUP;
	int i;

	if (!throttled_groups)
		return found;
	FOR(i, 0, MAX_DEPTH) {
		struct group *g = group_at(at);

		if (!g->limited)
			break;
		if (g->throttled)
			found = at;
		at = g->parent;
		if (at >= MAX_GROUPS)
			break;
	}
	return found;
}

/* The throttled group that holds the thread back. Exiting threads are never throttled: others may wait for their exit. */
static __always_inline __u32 throttled_by(struct task_struct *p, struct thread *t, __u64 now)
{
	if (!throttled_groups || t->overdue || (p->flags & PF_EXITING))
		return NO_GROUP;
	return throttled_above(group_of(p, t, now));
}

/* Adds the quota of the periods that began since, up to quota + burst. */
static __always_inline void refill_quota(struct group *g, __u64 now)
{
	__u64 began = g->began, period = g->period;

	if (!period || now < began + period)
		return;
	__u64 periods = (now - began) / period;

	if (__sync_val_compare_and_swap(&g->began, began, began + periods * period) != began)
		return;
	__s64 budget = g->budget, room = (__s64)(g->quota + g->burst) - budget;
	__s64 worst = -(__s64)(MAX_DEBT_NS / period * g->quota);
	/* More than a debt's worth of periods fills it anyway. */
	__s64 more = (periods < MAX_DEBT_NS / SHORTEST_NS ? periods : MAX_DEBT_NS / SHORTEST_NS) * g->quota;

	if (budget < worst)
		more += worst - budget;
	__sync_fetch_and_add(&g->budget, more < room ? more : room);
}

#define AGAIN 4 /* attempts, when other CPUs bring the patrol forward at the same time: else it comes at its regular time */

/* Brings the patrol forward to this time. Returns true if it was due later. */
static __always_inline bool advance_patrol(__u64 at)
{
	for (int i = 0; i < AGAIN; i++) {
		__u64 before = *(volatile __u64 *)&next_patrol;

		if (at >= before)
			return false;
		if (__sync_val_compare_and_swap(&next_patrol, before, at) == before)
			return true;
	}
	return true;
}

/* Sets the timer, then reads the time again: another CPU may have brought it forward, and set the timer before. */
static __always_inline void arm_patrol(struct patrol *patrol, __u64 now)
{
	for (int i = 0; i < AGAIN; i++) {
		__u64 at = *(volatile __u64 *)&next_patrol;

		bpf_timer_start(&patrol->timer, at > now + SHORTEST_NS ? at - now : SHORTEST_NS, 0);
		if (*(volatile __u64 *)&next_patrol == at)
			break;
	}
}

/* Has the patrol come at this time at the latest. */
static __always_inline void schedule_patrol(__u64 at, __u64 now)
{
	__u32 first = 0;
	struct patrol *patrol = bpf_map_lookup_elem(&patrols, &first);

	if (patrol && advance_patrol(at))
		arm_patrol(patrol, now);
}

/* Charges `ran` ns to the group and those above it, and throttles those whose budget is used up. */
GLOBAL_FUNC int charge_quota(__u32 at, __u64 ran, __u64 now)
{
	int i;

	FOR(i, 0, MAX_DEPTH) {
		struct group *g = group_at(at);

		if (!g->limited)
			break;
		if (g->quota) {
			refill_quota(g, now);
			__s64 left = __sync_fetch_and_sub(&g->budget, ran) - (__s64)ran;

			if (left <= 0 && !__sync_lock_test_and_set(&g->throttled, 1)) {
				__sync_fetch_and_add(&throttled_groups, 1);
				count(THROTTLED);
				schedule_patrol(g->began + g->period, now);
			}
		}
		at = g->parent;
		if (at >= MAX_GROUPS)
			break;
	}
	return 0;
}

/* Accounts what the thread has run since last time: to its workload, server, group and virtual time. */
static __always_inline void account(struct task_struct *p, struct thread *t, __u64 now)
{
	struct workload *w = workload_of(accounting_slot(t));
	__u64 ran = t->ran_at ? now - t->ran_at : 0;
	__u32 at = group_of(p, t, now);

	if (servers_on && t->served)
		charge_server(t, now);
	if (is_percpu_kthread(p) || t->boosted)
		charge_upkeep(scx_bpf_task_cpu(p), ran, now);
	t->ran_at = now;
	t->slice_left -= ran < t->slice_left ? ran : t->slice_left;
	__sync_fetch_and_add(&w->run_time, ran);
	if (!is_fifo(t->slot))
		t->unpriced += ran;
	if (weight_changed(p, t))
		reweigh(p, t, now);
	if (group_at(at)->limited)
		charge_quota(at, ran, now);
}

/* Is the thread's virtual time, which is by this queue's clock, still by that of the queue in which it would wait? */
static __always_inline bool is_clock_of(__u32 number, struct task_struct *p, const struct thread *t)
{
	if (slot_of_number(number) != t->slot)
		return false;
	if (number >= PART)
		return t->mask && masked_of(number)->mask == t->mask;
	return is_percpu_system(p, t->slot) == is_percpu_queue(number);
}

/* The queue's clock follows the thread that runs, and so does its slot's. */
static __always_inline void advance_clock(struct task_struct *p, struct thread *t, __u64 now)
{
	__u32 number = t->vtime_of - 1;

	if (is_fifo(t->slot) || number >= NUMBERS || !is_clock_of(number, p, t))
		return;
	__u64 *clock = clock_of(number);

	if ((__s64)(t->vtime - *clock) > 0)
		*clock = t->vtime;
	if (number < BOUND)
		return;
	if (number >= PART)
		note_use(masked_of(number), now);
	__u64 place = t->vtime + ahead_of(number);

	clock = clock_of(slot_of_number(number));
	if ((__s64)(place - *clock) > 0)
		*clock = place;
}

/* Moves the threads at the head of the queue whose group is throttled to that group's queue. */
GLOBAL_FUNC int throttle_head(__u32 number, __u64 now)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		struct thread *t = thread_of(p);

		if (!t)
			break;
		__u32 above = throttled_by(p, t, now);

		/* `___it` is the iterator that the macro declares. */
		if (above == NO_GROUP || !scx_bpf_dsq_move(&___it, p, THROTTLED_DSQ + above, 0))
			break;
		end_wait(p, t);
	}
	bpf_rcu_read_unlock();
	return 0;
}

#endif
