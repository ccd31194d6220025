/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The workloads' queues: first come, first served for LC, by weighted run time for BE and the system.
 *
 * Problem: latency-critical threads are to run in the order of their wake-ups, all others by their shares; and a
 * thread that sleeps is to gain nothing from it.
 *
 * Rule: place = max(virtual time, the queue's clock - a slice) for a thread that comes; virtual time = run time over
 * share. The clock follows the thread that runs. Threads under cpu.idle come after all others, overdue ones before.
 *
 * Callers: the operations `enqueue`, `running` and `quiescent`; whatever moves threads between queues
 * (`tend/regroup.h`, `queue/reweigh.h`).
 *
 * Limits: a queue has one order for all CPUs. Threads with an affinity mask have queues of their own
 * (`queue/masked.h`); those of a fifth set of CPUs can run ahead of others or behind them by 10 s of virtual time at
 * most; then their share is void.
 */
#ifndef QUELL_QUEUES_H
#define QUELL_QUEUES_H

#include "lib/state.h"
#include "queue/numbers.h"
#include "groups/groups.h"
#include "groups/slots.h"
#include "hold/line.h"

/* cpu.idle's threads come after all others of the queue. */
#define IDLE_BEHIND (1ULL << 60)
/* An overdue thread comes before all others, and one that overtakes before all but those. */
#define OVERDUE_BEFORE (1ULL << 60)
#define OVERTAKING_BEFORE (1ULL << 59)
/*
 * A sleeper's credit where workloads hold CPUs as one: half of Linux's `sched_latency_ns` before EEVDF, on 8 CPUs and
 * more.
 */
#define CREDIT_NS 12000000ULL
/* No thread's virtual time is further ahead of the queue's clock than this. */
#define MAX_AHEAD_NS 10000000000ULL
#define SHORTEST_NS 100000ULL /* of slices and timers */

/*
 * A slot has a queue for each class of workload: the kernel ends a scheduler that has threads in the order of coming and
 * threads by time in one queue, and a thread may be on its way into the queue while the slot changes its workload.
 */
#define BY_TIME NUMBERS /* the first of the queues by time; before them are those in the order of coming */

static __always_inline __u64 queue_in(__u32 number, bool fifo)
{
	return fifo ? number : BY_TIME + number;
}

static __always_inline __u64 queue_of(__u32 number)
{
	return queue_in(number, is_fifo_queue(number));
}

/*
 * It waits in this queue from now on, or in none: 0. Several CPUs may say so of a thread at once, one that moves it and
 * one that takes it; each beginning is counted once, and its end is.
 */
static __always_inline void set_waits_in(struct thread *t, __u32 queue)
{
	__u32 before = __sync_lock_test_and_set(&t->waits_in, queue);

	if (!before)
		return;
	__u32 number = before - 1;

	if (is_percpu_queue(number)) {
		__sync_fetch_and_add(&bound_on(number - BOUND)->taken, 1);
		return;
	}
	if (is_cache_queue(number))
		__sync_fetch_and_add(&cached_of(number)->taken, 1);
	else if (number >= PART)
		__sync_fetch_and_add(&masked_of(number)->taken, 1);
	if (is_of_system_everywhere(number))
		__sync_fetch_and_add(&system_everywhere.taken, 1);
	__sync_fetch_and_add(&workload_of(slot_of_number(number))->taken, 1);
}

/* Does the loop wait, having woken up where latency-critical work runs? It may run anywhere, before best-effort work. */
bool loop_waits;

/* The thread runs, or is no longer runnable: its wait ends. */
static __always_inline void end_wait(struct task_struct *p, struct thread *t)
{
	if (loop_waits && is_loop(p))
		loop_waits = false;
	if (t->waits_in)
		set_waits_in(t, 0);
}

static __always_inline void begin_wait_in_set(__u32 number)
{
	__u64 bit = 1ULL << (number - PART) % PARTS;

	__sync_fetch_and_add(&masked_of(number)->queued, 1);
	if (slot_of_number(number) == SYSTEM && !(*(volatile __u64 *)&system_sets & bit))
		__sync_fetch_and_or(&system_sets, bit);
}

/* A thread begins to wait. Returns true if a workload's queue formed: not by one that only lost its CPU. */
GLOBAL_FUNC bool begin_wait(struct thread *t, __u32 number, __u64 now, bool came)
{
	if (!t)
		return false;
	if (is_percpu_queue(number)) {
		__sync_fetch_and_add(&bound_on(number - BOUND)->queued, 1);
		t->waits_since = now;
		set_waits_in(t, number + 1);
		return false;
	}
	if (is_cache_queue(number))
		__sync_fetch_and_add(&cached_of(number)->queued, 1);
	else if (number >= PART)
		begin_wait_in_set(number);
	if (is_of_system_everywhere(number))
		__sync_fetch_and_add(&system_everywhere.queued, 1);
	struct workload *w = workload_of(slot_of_number(number));
	__u64 place = __sync_fetch_and_add(&w->queued, 1);
	bool formed = came && place == w->taken;

	if (!set_contains(&shared.waiting[w->lc & 1], slot_of_number(number)))
		add_waiting_slot(slot_of_number(number));
	if (slot_of_number(number) < SYSTEM)
		change_line();
	w->since[place & (QUEUE_TIMES - 1)] = now;
	t->waits_since = now;
	set_waits_in(t, number + 1);
	if (formed)
		__sync_fetch_and_add(&w->formed, 1);
	return formed;
}

/*
 * Enqueue time of the queue's first thread that may run on `cpu` (NO_CPU: on any); `now` if there is none. By any order
 * the longest waiting thread comes to be the first, since the others' virtual time goes on.
 */
GLOBAL_FUNC __u64 queue_waits_since(__u32 number, __u32 cpu, __u64 now)
{
	struct task_struct *p;
	__u64 since = now;

	if (!queue_has_waiters(number))
		return now;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		struct thread *t = thread_of(p);

		if (!t || (cpu != NO_CPU && !is_cpu_allowed(p, cpu)))
			continue;
		if (t->waits_since < now)
			since = t->waits_since;
		break;
	}
	bpf_rcu_read_unlock();
	return since;
}

/* The same of all queues of this slot that this CPU may use. */
GLOBAL_FUNC __u64 slot_waits_since(__u32 slot, __u32 cpu, __u64 now)
{
	__u64 since = queue_waits_since(slot, cpu, now);
	int i;

	if (!has_parts(slot))
		return since;
	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);

		if (cpu != NO_CPU && !may_consume_from(number, cpu))
			continue;
		__u64 its = queue_waits_since(number, cpu, now);

		if (its < since)
			since = its;
	}
	return since;
}

/* The same of the system's threads, those that are bound to this CPU included. */
GLOBAL_FUNC __u64 system_waits_since(__u32 cpu, __u64 now)
{
	__u64 of_all = slot_waits_since(SYSTEM, cpu, now), bound = queue_waits_since(BOUND + cpu, cpu, now);

	return bound < of_all ? bound : of_all;
}

static __always_inline void wake_loader(void)
{
	__u32 nothing = 0;

	if (shared.listening)
		bpf_ringbuf_output(&wakeups, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

/* Charges what the thread ran to its virtual time: when that is needed, and not at each stop. */
static __always_inline void charge_vtime(struct thread *t)
{
	__u64 ran = t->unpriced;

	t->unpriced = 0;
	if (ran)
		t->vtime += virtual_time(t->group, t->counted > 0 ? t->counted : WEIGHT_ONE, ran);
}

/* A thread that slept for long, or was kept behind a real-time thread, has no more than one slice's credit. */
static __always_inline void limit_credit(struct thread *t, __u32 number)
{
	bool is_leaders = is_leader(slot_of_number(number)), is_new = t->vtime_of != clock_queue_of(number) + 1;
	__u64 earliest = *clock_of(number) - (is_leaders ? CREDIT_NS : shared.be_slice_ns);
	/* Where its cache is crowded it has fallen back by this, and CPUs of other caches have begun to help. */
	__u64 more = is_cache_queue(number) && !t->woke ? 2 * AWAY_SLICES * shared.be_slice_ns : is_leaders ? CREDIT_NS : 0;

	/* The credit in virtual time is no shorter: it is computed only for threads that might exceed it. */
	if (more && ((__s64)(t->vtime - earliest) < 0 || is_new))
		earliest = *clock_of(number) - virtual_time(t->group, WEIGHT_ONE, more);
	if ((__s64)(t->vtime - earliest) < 0 || is_new)
		t->vtime = earliest;
	t->vtime_of = clock_queue_of(number) + 1;
}

/* Charges the thread's virtual time, limits its credit, and returns its place in a queue by virtual time. */
static __always_inline __u64 place_thread(struct thread *t, __u32 number)
{
	__u64 clock = *clock_of(number);
	__u64 latest = clock + MAX_AHEAD_NS;

	if (clock_queue_of(number) >= BOUND)
		limit_lag(number, virtual_time(t->group, WEIGHT_ONE, LAG * shared.be_slice_ns));
	charge_vtime(t);
	if (t->overdue)
		return clock - OVERDUE_BEFORE;
	if (together_on && t->first)
		return clock - OVERTAKING_BEFORE;
	limit_credit(t, number);
	if ((__s64)(t->vtime - latest) > 0)
		t->vtime = latest;
	return t->vtime + (group_at(t->group)->idle ? IDLE_BEHIND : 0);
}

/* The same as a global function: the verifier checks it once, not wherever it is called. */
GLOBAL_FUNC __u64 place_thread_in(struct thread *t, __u32 number)
{
	return t ? place_thread(t, number) : 0;
}

/* The thread's slice in ns: no longer than its group's quota lasts. */
static __always_inline __u64 slice_of(struct thread *t, __u32 slot)
{
	__u64 slice = is_fifo(slot) && !is_by_progress(slot) ? shared.lc_slice_ns : shared.be_slice_ns;
	struct group *g = group_at(t->group);

	if (!g->limited)
		return slice;
	if (slice > shared.be_slice_ns)
		slice = shared.be_slice_ns;
	if (g->quota && g->budget > 0 && (__u64)g->budget < slice)
		slice = g->budget;
	return slice < SHORTEST_NS ? SHORTEST_NS : slice;
}

/* Inserts the thread into the queue. */
static __always_inline void enqueue_thread(struct task_struct *p, struct thread *t, __u32 slot, __u32 number, __u64 flags)
{
	if (is_fifo_queue(number))
		scx_bpf_dsq_insert(p, queue_in(number, true), slice_of(t, slot), flags);
	else
		scx_bpf_dsq_insert_vtime(p, queue_in(number, false), slice_of(t, slot), place_thread_in(t, number), flags);
}

/* Moves the thread from the queue that is iterated over to another one, or to another place in it. */
#define move_into(it, p, t, number)                                                                     \
	({                                                                                            \
		bool moved_;                                                                          \
		if (is_fifo_queue(number)) {                                                           \
			moved_ = scx_bpf_dsq_move(it, p, queue_in(number, true), 0);                  \
		} else {                                                                              \
			scx_bpf_dsq_move_set_vtime(it, place_thread_in(t, number));                    \
			moved_ = scx_bpf_dsq_move_vtime(it, p, queue_in(number, false), 0);           \
		}                                                                                     \
		moved_;                                                                               \
	})

#endif
