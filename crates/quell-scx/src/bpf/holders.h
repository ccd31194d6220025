/* SPDX-License-Identifier: GPL-2.0-only */
/* Who holds which CPU: taken at a wake-up, yielded when nothing is left to run, inherited. */
#ifndef QUELL_HOLDERS_H
#define QUELL_HOLDERS_H

#include "state.h"

/* The CPU goes from one holder to another, if the one still has it and the other may have one more. */
static __always_inline bool hand(__u32 cpu, __u32 from, __u32 to)
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
	return true;
}

/* The holder has nothing to run here. */
static __always_inline bool yield_cpu(__u32 cpu, __u32 holder)
{
	if (cpu >= MAX_CPUS || !hand(cpu, holder, NOBODY))
		return false;
	cpu_at(&shared, cpu)->yielder = holder;
	__sync_fetch_and_add(&cpu_at(&shared, cpu)->yields, 1);
	return true;
}

/* A higher scheduling class has the CPU: it is yielded. */
static __always_inline void lose_cpu(__u32 cpu, struct task_struct *to, __u32 how)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 holder = c->holder;

	c->away = how;
	c->away_since = bpf_ktime_get_ns();
	c->hog = to->pid;
	if (holder < SYSTEM)
		yield_cpu(cpu, holder);
}

/* The CPU asks us for a thread, runs one of ours, or nobody. */
static __always_inline void is_back(__u32 cpu)
{
	if (cpu_at(&shared, cpu)->away)
		cpu_at(&shared, cpu)->away = 0;
}

/* Has a real-time thread the CPU, though the kernel has not told so? Then that is known from now on. */
static __always_inline bool is_hogged(__u32 cpu)
{
	if (!bpf_ksym_exists(scx_bpf_cpu_curr))
		return false;
	struct task_struct *p = scx_bpf_cpu_curr(cpu);

	if (!p || p->prio >= MAX_RT_PRIO)
		return false;
	if (cpu < MAX_CPUS && (!cpu_at(&shared, cpu)->away || cpu_at(&shared, cpu)->hog != p->pid))
		lose_cpu(cpu, p, FOUND);
	return true;
}

#define TRIES 3 /* when another CPU is faster */

/* A thread of the workload waits: the CPU that the workload gets at once, if there is one. */
static __noinline __u32 take_cpu(struct task_struct *p, __u32 slot)
{
	int i;

	if (slot >= SYSTEM || !workload_at(&shared, slot)->on_wake_up)
		return NO_CPU;
	FOR(i, 0, TRIES) {
		__u32 cpu = rule_on_wake_up(&shared, slot, p->cpus_ptr);

		if (cpu >= MAX_CPUS)
			break;
		if (is_hogged(cpu))
			continue;
		__u32 from = cpu_at(&shared, cpu)->holder;

		if (from == slot || !hand(cpu, from, slot))
			continue;
		if (from < SYSTEM)
			__sync_fetch_and_add(&shared.preemptions, 1);
		return cpu;
	}
	return NO_CPU;
}

/* Who inherits the CPU, these excepted. */
APART __u32 heir_of(__u32 cpu, __u32 first, __u32 second, __u32 third)
{
	struct passed_over except = { { first, second, third } };

	return rule_heir(&shared, cpu, &except);
}

/* The CPU's request is over, and with it the ban of its siblings: they look for work again. */
static __always_inline void end_request(__u32 cpu)
{
	if (cpu >= MAX_CPUS)
		return;
	__u64 start = cpu_at(&shared, cpu)->request_start;

	cpu_at(&shared, cpu)->request_start = 0;
	if (!rule_ban_holds(cpu_at(&shared, cpu)->banned_for, start))
		return;
	cpu_at(&shared, cpu)->banned_for = NO_REQUEST;
	for (int i = 0; i < SIBLINGS; i++) {
		__u32 sibling = cpu_at(&shared, cpu)->sibling[i];

		if (sibling < MAX_CPUS)
			scx_bpf_kick_cpu(sibling, SCX_KICK_PREEMPT);
	}
}

#endif
