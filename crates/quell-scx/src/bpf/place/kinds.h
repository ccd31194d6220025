/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kinds of CPUs: sets that are searched for a CPU.
 *
 * Problem: on 512 CPUs a visit of each costs tens of thousands of instructions a wake-up.
 *
 * Rule: a CPU of the pool is in the set of its kind: by its holder (none, best-effort, latency-critical), and by
 * whether a workload holds one of its siblings. A change of the holder adds it to the set of its new kind. A search
 * that finds a CPU of another kind removes it, then tests again: it may be of this kind by now, and its writer have
 * found it still in.
 *
 * Callers: `hold/holders.h` after each exchange; CPU hotplug; `place/look.h` and `hold/keep.h` search; the loader
 * (kinds.rs).
 *
 * Limits: for a moment a CPU may be in several sets. It is in the right one before the CPU that changed its holder
 * looks for waiting threads, and a thread is counted as waiting before it looks for CPUs: one of the two finds the
 * other. CPUs that a higher class has, on which servers run or that are banned are not removed. On machines with a
 * few CPUs there are no such sets: to visit all costs less than to keep them.
 */
#ifndef QUELL_KINDS_H
#define QUELL_KINDS_H

#include "lib/sets.h"

#define NO_KIND CPU_KINDS
#define of_kind(s, kind) AT((s)->of_kind, kind, KIND_SETS)

/* Kinds in the order of the search: by the holder's class, then CPUs whose siblings have no holder first. */
static __always_inline __u32 rule_kind(const struct shared *s, __u32 cpu)
{
	const struct cpu *c = cpu_at(s, cpu);
	__u32 holder = *(volatile __u32 *)&c->holder, from = 0, beside = 0;

	if (!c->in_pool || !*(volatile __u32 *)&c->online)
		return NO_KIND;
	if (holder < SYSTEM)
		from = workload_at(s, holder)->lc ? 2 : 1;
	for (int i = 0; i < SIBLINGS; i++) {
		__u32 sibling = c->sibling[i];

		if (sibling >= MAX_CPUS)
			break;
		beside |= *(volatile __u32 *)&cpu_at(s, sibling)->holder < SYSTEM;
	}
	return 2 * from + beside;
}

/* The CPU is no longer of this kind, it seems: removes it, unless it is after all. */
static __always_inline void rule_leave_kind(struct shared *s, __u32 kind, __u32 cpu)
{
	set_remove(of_kind(s, kind), cpu);
	if (KIND(s, cpu) == kind)
		set_add(of_kind(s, kind), cpu);
}

/* Moves the CPU to the set of its kind. */
static __always_inline void rule_update_kind(struct shared *s, __u32 cpu)
{
	if (cpu >= MAX_CPUS)
		return;
	__u32 kind = KIND(s, cpu);

	if (kind < CPU_KINDS)
		set_add(of_kind(s, kind), cpu);
	/* It leaves the others at once, so that no search has many to remove. */
	for (__u32 other = 0; other < CPU_KINDS; other++)
		if (other != kind && set_contains(of_kind(s, other), cpu))
			LEAVE_KIND(s, other, cpu);
}

/* The CPU's holder has changed, or whether it is in the pool. */
static __always_inline void rule_update_core_kinds(struct shared *s, __u32 cpu)
{
	rule_update_kind(s, cpu);
	if (cpu >= MAX_CPUS)
		return;
	for (int i = 0; i < SIBLINGS; i++) {
		__u32 sibling = cpu_at(s, cpu)->sibling[i];

		if (sibling >= MAX_CPUS)
			break;
		rule_update_kind(s, sibling);
	}
}

#endif
