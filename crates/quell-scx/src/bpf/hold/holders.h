/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holders of CPUs: taken at a wake-up, yielded when nothing is left to run, handed to the next in line.
 *
 * Problem: several CPUs and the loader hand over the same CPU concurrently, and none may wait for another.
 *
 * Rule: the holder is one word, exchanged by compare-and-swap from the holder that was read; `held` is counted up
 * before and down after, so that no workload exceeds its limit at any moment. Then the CPU is moved to the set of its
 * kind, where searches find it. A CPU on which a real-time thread runs is yielded.
 *
 * Callers: `place/seek.h` and `place/direct.h` at a wake-up, `hold/dispatch.h` at a choice, `hold/keep.h`,
 * `tend/patrol.h`.
 *
 * Limits: a workload that loses the exchange tries three times, then takes a CPU without a holder, or its thread
 * waits in the queue.
 */
#ifndef QUELL_HOLDERS_H
#define QUELL_HOLDERS_H

#include "queue/queues.h"

/* The time, on the CPU itself. Where a thread has just stopped it is that time: to read the clock costs more. */
static __always_inline __u64 time_on(const struct cpu *c)
{
	return c->stopped_at ? c->stopped_at : bpf_ktime_get_ns();
}

/* Hands the CPU from one holder to another. Returns false if `from` holds it no more, or `to` is at its limit. */
static __always_inline bool try_hand_over(__u32 cpu, __u32 from, __u32 to)
{
	if (cpu >= MAX_CPUS)
		return false;
	if (to < SYSTEM) {
		struct workload *w = workload_at(&shared, to);

		if (__sync_fetch_and_add(&w->held, 1) >= w->limit) {
			__sync_fetch_and_sub(&w->held, 1);
			return false;
		}
	}
	if (__sync_val_compare_and_swap(&cpu_at(&shared, cpu)->holder, from, to) != from) {
		if (to < SYSTEM)
			__sync_fetch_and_sub(&workload_at(&shared, to)->held, 1);
		return false;
	}
	if (from < SYSTEM)
		__sync_fetch_and_sub(&workload_at(&shared, from)->held, 1);
	if (sets_on)
		update_core_kinds(cpu);
	/*
	 * The CPU may have gone offline since it was chosen: either `cpu_offline` finds the new holder, or this finds
	 * it offline.
	 */
	if (to < SYSTEM && !*(volatile __u32 *)&cpu_at(&shared, cpu)->online) {
		if (__sync_val_compare_and_swap(&cpu_at(&shared, cpu)->holder, to, NO_SLOT) == to)
			__sync_fetch_and_sub(&workload_at(&shared, to)->held, 1);
		if (sets_on)
			update_core_kinds(cpu);
		return false;
	}
	return true;
}

/* Idle CPUs choose again. */
static __always_inline void kick_idle_cpus(void)
{
	int i;

	FOR(i, 0, shared.nr_cpus)
		scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
}

/* The holder yields the CPU: for the loader. */
static __always_inline void note_yield(__u32 cpu, __u32 holder)
{
	cpu_at(&shared, cpu)->yielder = holder;
	__sync_fetch_and_add(&cpu_at(&shared, cpu)->yields, 1);
	if (shared.listening & YIELDS)
		wake_loader();
}

/*
 * Takes the CPU from its holder, which has nothing to run here. Where that was at its limit, its waiting threads may use
 * another CPU now: idle ones are kicked.
 */
static __always_inline bool yield_cpu(__u32 cpu, __u32 holder)
{
	if (cpu >= MAX_CPUS || !try_hand_over(cpu, holder, NO_SLOT))
		return false;
	note_yield(cpu, holder);
	if (holder < SYSTEM && has_waiters(workload_of(holder)) && workload_of(holder)->held + 1 == workload_of(holder)->limit)
		kick_idle_cpus();
	return true;
}

/* Times that a latency-critical thread came and got no CPU, or may have lost the one that it got. */
__u64 unserved;

/*
 * Marks and unmarks a CPU on which another CPU found a real-time thread. What the kernel reports (AWAY_REPORTED) has
 * precedence.
 */
static __always_inline void mark_rt_found(struct cpu *c)
{
	__sync_val_compare_and_swap(&c->away, 0, AWAY_FOUND);
}

static __always_inline void clear_rt_found(struct cpu *c)
{
	__sync_val_compare_and_swap(&c->away, AWAY_FOUND, 0);
}

/* A higher scheduling class has the CPU: marks it away, and yields it unless a thread is kept on it. */
static __always_inline void yield_to_class(__u32 cpu, __u32 to, __u32 how, bool is_kept)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 holder = c->holder;

	if (how == AWAY_REPORTED)
		c->away = AWAY_REPORTED;
	else
		mark_rt_found(c);
	c->away_since = time_on(c);
	c->stopped_at = 0;
	c->hog = to;
	if (holder >= SYSTEM || is_kept)
		return;
	yield_cpu(cpu, holder);
	if (workload_of(holder)->lc)
		__sync_fetch_and_add(&unserved, 1);
}

/* The CPU calls dispatch, runs a thread of ours, or goes idle: no higher class has it any more. */
static __always_inline void clear_away(__u32 cpu)
{
	if (cpu_at(&shared, cpu)->away)
		cpu_at(&shared, cpu)->away = 0;
}

/*
 * A real-time thread runs on the CPU, which the kernel has not reported: marks the CPU away, and takes it from its
 * holder.
 */
GLOBAL_FUNC int yield_to_rt(__u32 cpu, __u32 pid)
{
	if (cpu < MAX_CPUS && (!cpu_at(&shared, cpu)->away || cpu_at(&shared, cpu)->hog != pid))
		yield_to_class(cpu, pid, AWAY_FOUND, false);
	return 0;
}

static __always_inline bool is_rt(const struct task_struct *p)
{
	return p->prio < MAX_RT_PRIO;
}

/* Takes the CPU from its holder if a real-time thread runs there. Returns true then. */
static __always_inline bool yield_if_rt(__u32 cpu)
{
	struct task_struct *p = scx_bpf_cpu_curr(cpu);

	if (!p || !is_rt(p))
		return false;
	yield_to_rt(cpu, p->pid);
	return true;
}

#define TRIES 3 /* when another CPU is faster, or a real-time thread turns out to have it */
#define TRIED MAX_CPUS /* no CPU, but after as many tries: there may be one */

/* The search of each CPU, which does one at a time: interrupts are off. */
struct look looks[MAX_CPUS];

/* Prepares this CPU's search for a CPU for the thread. Returns this CPU. */
static __always_inline __u32 init_look(struct task_struct *p, __u32 slot)
{
	__u32 here = bpf_get_smp_processor_id(), bytes = (shared.nr_cpus + 63) / 64 * sizeof(__u64);
	struct look *look = AT(looks, here, MAX_CPUS);

	look->slot = slot;
	look->last = scx_bpf_task_cpu(p);
	look->some = (__u32)p->nr_cpus_allowed < shared.nr_cpus || p->migration_disabled;
	if (look->some && (bytes > sizeof(look->cpus) || bpf_probe_read_kernel(look->cpus, bytes, untrusted(p)->cpus_ptr)))
		look->some = false;
	return here;
}

GLOBAL_FUNC __u32 look_on_wake_up(__u32 here)
{
	return rule_on_wake_up(&shared, AT(looks, here, MAX_CPUS));
}

GLOBAL_FUNC __u32 look_for_unheld(__u32 here, __u32 except)
{
	return rule_unheld(&shared, AT(looks, here, MAX_CPUS), except);
}

/* The CPU, if the thread may use it. One that is bound to a CPU that never existed seems to use all. */
static __always_inline __u32 cpu_if_allowed(struct task_struct *p, __u32 cpu)
{
	return cpu < MAX_CPUS && is_cpu_allowed(p, cpu) ? cpu : NO_CPU;
}

/* A thread of the workload comes: the CPU that the rules let it take; NO_CPU: there is none. */
static __noinline __u32 choose_cpu(struct task_struct *p, __u32 slot)
{
	__u32 last = scx_bpf_task_cpu(p);

	if (slot >= SYSTEM || !workload_at(&shared, slot)->on_wake_up)
		return NO_CPU;
	if (rule_is_best(&shared, slot, last) && is_cpu_allowed(p, last))
		return last;
	return cpu_if_allowed(p, look_on_wake_up(init_look(p, slot)));
}

/*
 * The CPU to which a thread that wakes up is sent: not one that a real-time thread has or gets. The kernel does not
 * report a real-time thread that takes an idle CPU, and one that preempts a thread of ours not before it does so: then
 * the woken thread would have to look for another CPU.
 */
static __always_inline __u32 choose_free_cpu(struct task_struct *p, __u32 slot)
{
	__u32 cpu = choose_cpu(p, slot);

	if (cpu >= MAX_CPUS || !has_rt_task(cpu))
		return cpu;
	mark_rt_found(cpu_at(&shared, cpu));
	return choose_cpu(p, slot);
}

/* Takes the CPU from its holder for the workload. Returns false if another CPU was faster. */
static __always_inline bool try_take_cpu(__u32 cpu, __u32 slot)
{
	__u32 from = cpu_at(&shared, cpu)->holder;

	if (from == slot || !try_hand_over(cpu, from, slot))
		return false;
	if (from < SYSTEM)
		count(PREEMPTED);
	return true;
}

/* A thread of the workload waits: takes a CPU for it by the rules. NO_CPU or TRIED, if there is none. */
static __always_inline __u32 take_cpu(struct task_struct *p, __u32 slot)
{
	int i;

	FOR(i, 0, TRIES) {
		__u32 cpu = choose_cpu(p, slot);

		if (cpu >= MAX_CPUS)
			return NO_CPU;
		if (!yield_if_rt(cpu) && try_take_cpu(cpu, slot))
			return cpu;
	}
	return TRIED;
}

/* Takes a CPU without a holder for the workload and kicks it, if there is one for the thread. */
static __always_inline void take_unheld_cpu(struct task_struct *p, __u32 slot, __u32 except)
{
	if (!workload_of(slot)->on_wake_up)
		return;
	__u32 cpu = cpu_if_allowed(p, look_for_unheld(init_look(p, slot), except));

	if (cpu < MAX_CPUS && !yield_if_rt(cpu) && try_hand_over(cpu, NO_SLOT, slot))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * A thread of the workload has come to this CPU, which was chosen for it. The kernel's lock of the CPU is held: from
 * here on the CPU neither decides nor goes to a higher class before the thread is in its queue. Takes it if the rules
 * allow that.
 */
static __always_inline bool try_take_chosen(__u32 cpu, __u32 slot)
{
	return workload_of(slot)->on_wake_up && cpu_fit(cpu, slot) < UNFIT && !yield_if_rt(cpu) && try_take_cpu(cpu, slot);
}

/* The place in the line of the next holder, after this place; NOT_IN_LINE: there is none. */
GLOBAL_FUNC __u64 next_in_line(__u32 cpu, __u64 after)
{
	return rule_next_holder(&shared, cpu, after);
}

/* The slot that is next in line for the CPU; NO_SLOT: none is. */
static __always_inline __u32 next_holder(__u32 cpu)
{
	return slot_in_line(next_in_line(cpu, 0));
}

/* May the workload take one more CPU from best-effort work? */
static __always_inline bool is_owed_cpu(__u32 slot)
{
	struct workload *w = workload_of(slot);

	return w->lc && (w->held < w->guaranteed || w->held < w->burst);
}

/*
 * A thread runs on a CPU that another workload holds: the holder changed while the CPU chose the thread, and the kernel
 * loses a kick of a CPU that is choosing. A latency-critical thread's workload takes it if it may; else the CPU is
 * kicked.
 */
static __always_inline void resolve_holder(__u32 cpu, __u32 holder, __u32 slot)
{
	bool is_best_effort = holder < SYSTEM && !workload_of(holder)->lc;

	if (!is_best_effort || !is_owed_cpu(slot) || !try_hand_over(cpu, holder, slot))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Is there a CPU of this kind without a holder? */
GLOBAL_FUNC bool has_free_cpu_of(__u32 kind)
{
	struct set *set = of_kind(&shared, kind);
	__u32 cpu;

	EACH_IN(set, cpu)
		if (cpu_at(&shared, cpu)->holder == NO_SLOT && is_available(&shared, cpu))
			return true;
	return false;
}

/* The same of all, where there are a few. */
GLOBAL_FUNC bool has_free_cpu_anywhere(void)
{
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		if (cpu_at(&shared, cpu)->holder == NO_SLOT && is_available(&shared, cpu))
			return true;
	}
	return false;
}

/* Is there a CPU without a holder? */
static __always_inline bool has_free_cpu(void)
{
	return sets_on ? has_free_cpu_of(0) || has_free_cpu_of(1) : has_free_cpu_anywhere();
}

/* The CPU's request ends, and with it the ban of its siblings: they are kicked. */
static __always_inline void end_request(__u32 cpu)
{
	if (cpu >= MAX_CPUS)
		return;
	struct cpu *c = cpu_at(&shared, cpu);
	__u64 start = c->request_start;

	c->request_start = 0;
	if (!rule_ban_holds(c->banned_for, start))
		return;
	c->banned_for = NO_REQUEST;
	for (int i = 0; i < SIBLINGS; i++) {
		__u32 sibling = c->sibling[i];

		if (sibling < MAX_CPUS)
			scx_bpf_kick_cpu(sibling, SCX_KICK_PREEMPT);
	}
}

#endif
