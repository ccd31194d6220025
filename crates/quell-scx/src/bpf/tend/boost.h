/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boost lock holders: a best-effort thread that was preempted or throttled in the kernel runs on briefly while a
 * latency-critical thread is blocked there.
 *
 * Problem: such a thread may hold a lock of the kernel. A latency-critical thread that waits for the lock waits for
 * the quota's next period, or for all threads before the holder.
 *
 * Rule: a latency-critical thread in uninterruptible sleep that is not I/O is blocked. Once that has lasted for
 * BLOCKED_NS, threads that were preempted in the kernel run at once on their CPU, for BOOST_NS, within its budget for
 * kernel threads; and so again, after a quarter of the time for which the longest has lasted, until none is blocked.
 * Their run time is charged to their quota as ever.
 *
 * Callers: the operation `quiescent` (`note_uninterruptible_sleep`); `tend/patrol.h` (`boost_all`).
 *
 * Limits: nothing says which thread holds which lock, or whether it is a lock (a parent's vfork looks alike): all
 * that were preempted in the kernel may run on, MAX_BOOSTS at a time, and the longer it is in vain the rarer. In the
 * kernel is a thread with more than FROM_USER_BYTES on its kernel stack, on x86; elsewhere none is. A CPU remembers
 * only the last thread that began such a sleep there.
 */
#ifndef QUELL_BOOST_H
#define QUELL_BOOST_H

#include "hold/holders.h"
#include "groups/quota.h"

#define BLOCKED_NS 2000000ULL
#define BOOST_NS 1000000ULL
#define MAX_BOOSTS 8
/* User space's registers, and the frames of the kernel's way back there until another thread runs. */
#define FROM_USER_BYTES 640

/* The latency-critical thread that last began an uninterruptible sleep on a CPU, by number; 0: none. */
__u32 blocked_lc[MAX_CPUS];
__u64 boosts_checked_at;
__u32 boosts; /* since that */

static __always_inline bool is_blocked(struct task_struct *p)
{
	return (p->__state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE && !is_in_io(p);
}

/*
 * The thread begins to sleep: notes it, and schedules the patrol, if it is latency-critical and the sleep
 * uninterruptible.
 */
static __always_inline void note_uninterruptible_sleep(struct task_struct *p, struct thread *t, __u64 deq_flags)
{
	__u32 slot = t->slot, cpu = scx_bpf_task_cpu(p);

	if (!(deq_flags & SCX_DEQ_SLEEP) || slot >= SYSTEM || !workload_of(slot)->lc || !is_blocked(p))
		return;
	__u64 now = bpf_ktime_get_ns();

	t->blocked_since = now;
	if (cpu < MAX_CPUS)
		blocked_lc[cpu] = p->pid;
	schedule_patrol(now + BLOCKED_NS, now);
}

/* Since when a latency-critical thread that began to sleep on this CPU is blocked; 0: none is. Forgets one that is not. */
GLOBAL_FUNC __u64 blocked_lc_since(__u32 cpu)
{
	__u32 *number = AT(blocked_lc, cpu, MAX_CPUS);
	__u64 since = 0;

	if (!*number)
		return 0;
	struct task_struct *p = bpf_task_from_pid(*number);

	if (p) {
		struct thread *t = thread_of(p);

		if (t && is_blocked(p))
			since = t->blocked_since;
		bpf_task_release(p);
	}
	if (!since)
		*number = 0;
	return since;
}

/* Boosts the threads of this queue that were preempted in the kernel. */
GLOBAL_FUNC int boost_queue(__u64 queue, __u64 now)
{
	struct task_struct *p;

	if (boosts >= MAX_BOOSTS || !scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct thread *t = thread_of(p);
		__u32 cpu = scx_bpf_task_cpu(p);

		if (boosts >= MAX_BOOSTS)
			break;
		if (!t || cpu >= MAX_CPUS || bytes_on_stack(p) <= FROM_USER_BYTES || !is_cpu_allowed(p, cpu))
			continue;
		struct cpu *c = cpu_at(&shared, cpu);

		if (!c->online || c->away || SERVED(&shared, cpu) || !refill_upkeep(cpu, now))
			continue;
		t->boosted = 1;
		/* No other thread is to be sent to the CPU if it is idle. */
		bool idles = scx_bpf_test_and_clear_cpu_idle(cpu);

		/* `___it` is the iterator that the macro declares. */
		scx_bpf_dsq_move_set_slice(&___it, BOOST_NS);
		if (!scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | cpu, SCX_ENQ_PREEMPT)) {
			if (idles)
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			continue;
		}
		boosts++;
		count(PASSED);
	}
	bpf_rcu_read_unlock();
	return 0;
}

GLOBAL_FUNC int boost_slot(__u32 slot, __u64 now)
{
	int i;

	if (slot > SYSTEM || (slot < SYSTEM && is_fifo(slot)))
		return 0;
	boost_queue(queue_in(slot, false), now);
	if (!has_parts(slot))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		boost_queue(queue_of(number_of_part(slot, i)), now);
	}
	return 0;
}

/*
 * The same for all queues, if latency-critical work has been blocked for BLOCKED_NS. Returns when to check again, or
 * ~0.
 */
GLOBAL_FUNC __u64 boost_all(__u64 now)
{
	__u64 since = 0;
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u64 its = blocked_lc_since(i);

		if (its && (!since || its < since))
			since = its;
	}
	if (!since)
		return ~0ULL;
	__u64 pause = has_elapsed(since, now, 4 * BLOCKED_NS) ? (now - since) / 4 : BLOCKED_NS;

	if (!has_elapsed(since, now, BLOCKED_NS))
		return since + BLOCKED_NS;
	if (!has_elapsed(boosts_checked_at, now, pause))
		return boosts_checked_at + pause;
	boosts_checked_at = now;
	boosts = 0;
	FOR(i, 0, nr_groups) {
		if (i >= MAX_GROUPS)
			break;
		if (group_at(i)->throttled)
			boost_queue(THROTTLED_DSQ + i, now);
	}
	FOR(i, 0, shared.nr_slots + 1) {
		boost_slot((__u32)i < shared.nr_slots ? i : SYSTEM, now);
	}
	return now + pause;
}

#endif
