/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kinds of CPUs: the sets in which who looks for one finds it.
 *
 * Problem: on 512 CPUs a look at each costs tens of thousands of instructions a wake-up.
 *
 * Rule: a CPU that may be handed out is in the set of its kind: by who holds it (none, best-effort, latency-critical), and by
 * whether a workload holds one of its siblings. Whoever changes a holder puts the CPU into the set. Who looks and finds one of
 * another kind takes it out, then looks again: it may be of this kind by now, and have been seen still in.
 *
 * Limits: for a moment a CPU may be in several sets. It is in the right one before whoever changed its holder looks for threads
 * that wait, which those have said before they look for CPUs: one of the two sees the other. CPUs that a higher class has, that
 * servers run on or that are banned stay in. On a machine with a few CPUs there are no such sets: to look at all costs less there
 * than to keep them.
 */
#ifndef QUELL_KINDS_H
#define QUELL_KINDS_H

#include "lib/sets.h"

#define NO_KIND CPU_KINDS
#define of_kind(s, kind) AT((s)->of_kind, kind, KIND_SETS)

/* In the order in which they are looked at: from whom a CPU would be taken, the best siblings first. */
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

/* It is not of this kind any more, it seems. */
static __always_inline void rule_leave_kind(struct shared *s, __u32 kind, __u32 cpu)
{
	set_remove(of_kind(s, kind), cpu);
	if (KIND(s, cpu) == kind)
		set_add(of_kind(s, kind), cpu);
}

/* What this CPU's kind depends on has changed. */
static __always_inline void rule_update_kind(struct shared *s, __u32 cpu)
{
	if (cpu >= MAX_CPUS)
		return;
	__u32 kind = KIND(s, cpu);

	if (kind < CPU_KINDS)
		set_add(of_kind(s, kind), cpu);
	/* The others are left at once: no look has many to take out. */
	for (__u32 other = 0; other < CPU_KINDS; other++)
		if (other != kind && set_contains(of_kind(s, other), cpu))
			LEAVE_KIND(s, other, cpu);
}

/* Its holder has changed, or whether it may be handed out. */
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
