/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Search for a CPU at a wake-up: by kind (`place/kinds.h`), then by distance.
 *
 * Problem: the fittest CPU, of equals the nearest, among a thousand, at the cost of a few.
 *
 * Rule: kind by kind, in the order of their fitness; of a kind the CPU where the thread ran last, then those of its
 * last-level cache, of its socket, all; of those the lowest number. A CPU beside which the workload itself runs is
 * taken if the kind has no other: within a kind that is the only difference.
 *
 * Callers: `hold/holders.h` (`look_on_wake_up`, `look_for_unheld`); on the host quell-scx-rules.
 *
 * Limits: all CPUs of a kind are visited if the workload itself runs beside each, if latency-critical workloads hold
 * no more than they are guaranteed, or if a higher class has them. Beyond SETS places all CPUs count as equally far.
 */
#ifndef QUELL_LOOK_H
#define QUELL_LOOK_H

#include "hold/rules.h"

/* A search for a thread of this workload. */
struct look {
	__u32 slot;
	__u32 last;   /* the CPU where it ran last; NO_CPU: none */
	__u32 except; /* not this one */
	__u32 idle;   /* only CPUs without a holder on which nothing runs? */
	__u32 some;   /* does it have an affinity mask? */
	__u32 second; /* the best beside which the workload itself runs */
	__u64 cpus[SET_WORDS]; /* its affinity mask, if `some` */
};

/* Is it one of the CPUs of this search? */
static __always_inline bool rule_is_looked_at(const struct shared *s, const struct look *l, __u32 cpu)
{
	const struct cpu *c = cpu_at(s, cpu);

	return !l->idle || (cpu != l->except && c->holder == NO_SLOT && c->runs == NO_SLOT && !HAS_RT_TASK(cpu));
}

static __always_inline bool rule_may_use(const struct look *l, __u32 cpu)
{
	return !l->some || *AT(l->cpus, cpu / 64, SET_WORDS) >> cpu % 64 & 1;
}

/* Distance of the CPU from the one where the thread ran last. */
enum distance { NOT_AT_ALL, IN_CACHE, ON_SOCKET, FAR, DISTANCES };

static __always_inline __u32 rule_distance(const struct shared *s, __u32 cpu, __u32 last)
{
	if (last >= MAX_CPUS)
		return FAR;
	if (cpu == last)
		return NOT_AT_ALL;
	if (cpu_at(s, cpu)->place[0] == cpu_at(s, last)->place[0])
		return IN_CACHE;
	return cpu_at(s, cpu)->place[1] == cpu_at(s, last)->place[1] ? ON_SOCKET : FAR;
}

/* Fitness, of equals the nearer the better. */
#define UNFIT_FROM (UNFIT * DISTANCES)

static __always_inline __u32 rule_fit_from(const struct shared *s, const struct look *l, __u32 cpu)
{
	if (cpu >= MAX_CPUS || !rule_may_use(l, cpu) || !rule_is_looked_at(s, l, cpu))
		return UNFIT_FROM;
	__u32 fit = FIT(s, cpu, l->slot);

	return fit < UNFIT ? fit * DISTANCES + rule_distance(s, cpu, l->last) : UNFIT_FROM;
}

/* The search without sets: of a few CPUs all are visited. */
static __always_inline __u32 rule_look_at_all(const struct shared *s, struct look *l)
{
	__u32 best = NO_CPU, least = UNFIT_FROM;
	int i;

	FOR(i, 0, s->nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		__u32 fit = FIT_FROM(s, l, cpu);

		if (fit < least) {
			least = fit;
			best = cpu;
		}
		if (fit <= IN_CACHE)
			break;
	}
	return best;
}

/* Examines the CPU. Returns true if it suits; one beside which the workload itself runs is noted as second best. */
static __always_inline bool rule_consider(const struct shared *s, struct look *l, __u32 cpu)
{
	if (!rule_is_looked_at(s, l, cpu))
		return false;
	__u32 fit = FIT(s, cpu, l->slot);

	if (fit >= UNFIT)
		return false;
	if (fit % BESIDES != BESIDE_ITSELF)
		return true;
	if (l->second == NO_CPU)
		l->second = cpu;
	return false;
}

/* A CPU of a kind within the place `in`, but not within `but`. */
static __always_inline __u32 rule_in_place(struct shared *s, struct look *l, __u32 kind, __u32 in, __u32 but)
{
	struct set *set = of_kind(s, kind), *near = AT(s->at_place, in, SETS), *nearer = AT(s->at_place, but, SETS);
	__u64 words = set->words & near->words;

	WHILE(words) {
		__u32 at = first_bit(words);
		__u64 bits = *AT(set->word, at, SET_WORDS) & *AT(near->word, at, SET_WORDS) & ~*AT(nearer->word, at, SET_WORDS);

		words &= words - 1;
		if (l->some)
			bits &= *AT(l->cpus, at, SET_WORDS);
		WHILE(bits) {
			__u32 cpu = at * 64 + first_bit(bits);

			bits &= bits - 1;
			if (KIND(s, cpu) != kind) {
				LEAVE_KIND(s, kind, cpu);
				continue;
			}
			if (rule_consider(s, l, cpu))
				return cpu;
		}
	}
	return NO_CPU;
}

static __always_inline __u32 rule_in_kind(struct shared *s, struct look *l, __u32 kind)
{
	__u32 last = l->last, cpu, cache, socket;

	if (!of_kind(s, kind)->words)
		return NO_CPU;
	if (last >= MAX_CPUS)
		return IN_PLACE(s, l, kind, ANYWHERE, NO_PLACE);
	if (KIND(s, last) == kind && rule_may_use(l, last) && rule_consider(s, l, last))
		return last;
	cache = cpu_at(s, last)->place[0];
	socket = cpu_at(s, last)->place[1];
	cpu = IN_PLACE(s, l, kind, cache, NO_PLACE);
	if (cpu >= MAX_CPUS)
		cpu = IN_PLACE(s, l, kind, socket, cache);
	if (cpu >= MAX_CPUS)
		cpu = IN_PLACE(s, l, kind, ANYWHERE, socket);
	return cpu;
}

#define KINDS_FREE 2       /* the kinds of CPUs without a holder */
#define KINDS_WITH_BURST 4 /* and of those that best-effort workloads hold */

/* The best CPU of the first `kinds` kinds. */
static __always_inline __u32 rule_look(struct shared *s, struct look *l, __u32 kinds)
{
	if (!SETS_ON)
		return rule_look_at_all(s, l);
	for (__u32 kind = 0; kind < CPU_KINDS; kind++) {
		if (kind >= kinds)
			break;
		l->second = NO_CPU;
		__u32 cpu = rule_in_kind(s, l, kind);

		if (cpu >= MAX_CPUS)
			cpu = l->second;
		if (cpu < MAX_CPUS)
			return cpu;
	}
	return NO_CPU;
}

/*
 * `on_wake_up`: a CPU without a holder; below the guarantee or within the burst one of a BE workload; below the
 * guarantee also one of an LC workload that holds more than it is guaranteed. Of equals the one with the best siblings,
 * then the nearest to where the thread ran last, then the lowest number. NO_CPU at the limit, or when there is none.
 * Mostly the caller has found the last CPU to be the best by `rule_is_best`.
 */
static __always_inline __u32 rule_on_wake_up(struct shared *s, struct look *l)
{
	if (l->slot >= SYSTEM)
		return NO_CPU;
	const struct workload *own = workload_at(s, l->slot);

	if (own->held >= own->limit)
		return NO_CPU;
	l->idle = false;
	return rule_look(s, l, own->held < own->guaranteed ? CPU_KINDS : own->held < own->burst ? KINDS_WITH_BURST : KINDS_FREE);
}

/* Of the CPUs without a holder on which nothing runs the fittest for the thread, of equals the nearest; not `except`. */
static __always_inline __u32 rule_unheld(struct shared *s, struct look *l, __u32 except)
{
	l->idle = true;
	l->except = except;
	return rule_look(s, l, KINDS_FREE);
}

#endif
