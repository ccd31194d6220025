/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules: the CPU that a wake-up takes, the next holder at a yield, the end of a ban, the turn of the system.
 *
 * Problem: what a policy wants has to happen at the event, before the loader could know of it.
 *
 * Rule: each mirrors its reference function in quell-model's `rule` module. No kernel helper is called here, so that
 * tests can run these functions beside the reference. What they need beside that is in `lib/env.h`.
 *
 * Callers: `hold/holders.h`, `place/look.h`, `hold/dispatch.h`, `place/seek.h`; on the host quell-scx-rules.
 *
 * Limits: a choice may be stale when it is acted on: `try_hand_over` compares again. All waiting slots are visited if
 * each holds CPUs already or has a rank.
 */
#ifndef QUELL_RULES_H
#define QUELL_RULES_H

#include "place/kinds.h"
#include "hold/waiting.h"

/* Has this span passed since then? No, if `since` was read on another CPU after `now` was read here. */
static inline bool has_elapsed(__u64 since, __u64 now, __u64 span)
{
	return (__s64)(now - since) >= (__s64)span;
}

/* `ban_holds`: as long as the CPU works on the request for which the ban was imposed. */
static inline bool rule_ban_holds(__u64 banned_for, __u64 now_on)
{
	return now_on != 0 && now_on == banned_for;
}

/* Is this CPU parked by a sibling's ban? */
static __always_inline bool is_banned(const struct shared *s, __u32 cpu)
{
	if (!s->bans)
		return false;
	if (cpu >= MAX_CPUS)
		return true;
	for (int i = 0; i < SIBLINGS; i++) {
		__u32 sibling = cpu_at(s, cpu)->sibling[i];

		if (sibling < MAX_CPUS && rule_ban_holds(cpu_at(s, sibling)->banned_for, cpu_at(s, sibling)->request_start))
			return true;
	}
	return false;
}

/* May the CPU be handed over? */
static __always_inline bool is_available(const struct shared *s, __u32 cpu)
{
	if (cpu >= MAX_CPUS)
		return false;
	const struct cpu *c = cpu_at(s, cpu);

	return c->in_pool && c->online && !c->away && !SERVED(s, cpu) && !is_banned(s, cpu);
}

/* The class of the holder from which a CPU would be taken, the best first; and what its siblings run, the best first. */
enum from { FROM_NO_HOLDER, FROM_BEST_EFFORT, FROM_LATENCY_CRITICAL, FROM_NONE };
enum beside { BESIDE_NONE, BESIDE_OTHERS, BESIDE_ITSELF, BESIDES };
#define UNFIT (FROM_NONE * BESIDES)

static __always_inline __u32 rule_beside(const struct shared *s, __u32 cpu, __u32 slot)
{
	const struct cpu *c = cpu_at(s, cpu);
	__u32 worst = BESIDE_NONE;

	for (int i = 0; i < SIBLINGS; i++) {
		__u32 sibling = c->sibling[i];

		if (sibling >= MAX_CPUS)
			break;
		__u32 holder = cpu_at(s, sibling)->holder;

		if (holder == slot)
			return BESIDE_ITSELF;
		if (holder < SYSTEM)
			worst = BESIDE_OTHERS;
	}
	return worst;
}

/* Fitness of the CPU for one more of the workload's threads, the lower the better; UNFIT: the workload may not have it. */
static inline __u32 rule_fit(const struct shared *s, __u32 cpu, __u32 slot)
{
	if (slot >= SYSTEM || cpu >= MAX_CPUS || !is_available(s, cpu))
		return UNFIT;
	const struct workload *own = workload_at(s, slot);
	__u32 holder = cpu_at(s, cpu)->holder;
	__u32 from = FROM_NO_HOLDER;

	if (holder == slot)
		return UNFIT;
	if (holder < SYSTEM) {
		const struct workload *other = workload_at(s, holder);
		bool is_guaranteed = own->held < own->guaranteed;

		if (!other->lc && (is_guaranteed || own->held < own->burst))
			from = FROM_BEST_EFFORT;
		else if (other->lc && is_guaranteed && other->held > other->guaranteed)
			from = FROM_LATENCY_CRITICAL;
		else
			return UNFIT;
	}
	return from * BESIDES + rule_beside(s, cpu, slot);
}

/* Is the CPU where the workload's thread ran last the best of all? */
static inline bool rule_is_best(const struct shared *s, __u32 slot, __u32 last)
{
	return last < MAX_CPUS && workload_at(s, slot)->held < workload_at(s, slot)->limit && !FIT(s, last, slot);
}

/* `overtakes`: is the running thread further ahead in virtual time than the wake-up latency of the woken one? */
static inline bool rule_overtakes(__u64 running, __u64 woken, __u64 latency)
{
	return (__s64)(running - woken) > 0 && running - woken > latency;
}

/* The place in the line of a workload that holds this number of other CPUs: by rank, then by that number. */
static inline __u64 rule_place(const struct workload *w, __u32 held)
{
	return ((__u64)w->rank << 16) | (held & 0xffff);
}

/*
 * A place in the line for a CPU, no two the same. From the highest bit on: is it not an LC workload below its
 * guarantee, is it not an LC workload, rank, CPUs held, slot. None is 0.
 */
#define NOT_IN_LINE (~0ULL)
#define BEHIND_OWED (1ULL << 61)
#define BEHIND_LC (1ULL << 60)

static inline __u32 slot_in_line(__u64 place)
{
	return place == NOT_IN_LINE ? NO_SLOT : (place - 1) & (MAX_SLOTS - 1);
}

/* A workload's place in the line for a CPU. NOT_IN_LINE: it wants none, or may have no more. */
static inline __u64 rule_place_in_line(const struct shared *s, __u32 slot, __u32 holder)
{
	const struct workload *w = workload_at(s, slot);
	__u32 held = w->held - (holder == slot);

	if (!w->in_line || held >= w->limit)
		return NOT_IN_LINE;
	__u64 place = (rule_place(w, held) * MAX_SLOTS | slot) + 1;

	if (!w->lc)
		return place | BEHIND_OWED | BEHIND_LC;
	return held < w->guaranteed ? place : place | BEHIND_OWED;
}

/* The first place of a class after this one. */
static __always_inline __u64 rule_first_in_line(struct shared *s, __u32 lc, __u32 holder, __u64 after)
{
	struct set *set = &s->waiting[lc & 1];
	__u64 first = NOT_IN_LINE;
	__u32 slot;

	EACH_IN(set, slot) {
		if (!has_waiters(workload_at(s, slot))) {
			if (s->nr_slots > FEW_SLOTS)
				clear_slot_waiting(s, lc, slot);
			continue;
		}
		if (workload_at(s, slot)->lc != lc) {
			clear_slot_waiting(s, lc, slot);
			/* It is found among those of its class, which come next. */
			if (lc)
				continue;
		}
		__u64 place = rule_place_in_line(s, slot, holder);

		if (place <= after || place >= first)
			continue;
		first = place;
		/* No later slot of the class can come before one that holds nothing and has the first rank. */
		if (!((place - 1) % BEHIND_LC / MAX_SLOTS) && (!lc || place < BEHIND_LC))
			return first;
	}
	return first;
}

/*
 * Reference: `heir`. Place of the next holder: among the slots that wait and have a place in the line, first an LC
 * workload below its guarantee, then LC before BE, then the lowest rank, then the fewest other CPUs held, then the
 * lowest slot. None for a banned CPU, and no slot beyond its limit. Slots up to the place `after` turned out to have no
 * thread that may run on the CPU; 0: none did.
 */
static __always_inline __u64 rule_next_holder(struct shared *s, __u32 cpu, __u64 after)
{
	if (!is_available(s, cpu) || cpu >= MAX_CPUS)
		return NOT_IN_LINE;
	__u32 holder = cpu_at(s, cpu)->holder;
	__u64 first = s->waiting[1].words ? rule_first_in_line(s, 1, holder, after) : NOT_IN_LINE;

	return first == NOT_IN_LINE && s->waiting[0].words ? rule_first_in_line(s, 0, holder, after) : first;
}

/* Does the LC workload hold no more CPUs than it is guaranteed? */
static inline bool is_within_guarantee(const struct workload *w)
{
	return w->lc && w->held <= w->guaranteed;
}

/* Has it been a slice since the system's threads last ran on this CPU? Then their next turn begins. */
static inline bool rule_system_turn_begins(const struct shared *s, __u32 cpu, __u64 now)
{
	return has_elapsed(cpu_at(s, cpu)->system_until, now, s->be_slice_ns);
}

/*
 * Do the system's threads have their turn on this CPU, before all others? Always where it is parked; slice by slice
 * with a BE workload, and where the CPU has no holder; on an LC's CPU only when they have waited for `system_ns`, and
 * for twice that where the LC has no more than it is guaranteed, or where the loop polls: other CPUs come first.
 */
static inline bool rule_system_turn(const struct shared *s, __u32 cpu, bool polls, __u64 now, __u64 waiting_since)
{
	if (cpu >= MAX_CPUS)
		return true;
	__u32 holder = cpu_at(s, cpu)->holder;
	bool gives_way = false;

	if (!polls) {
		if (holder == PARKED)
			return true;
		if (holder == NO_SLOT || !workload_at(s, holder)->lc)
			return !has_elapsed(cpu_at(s, cpu)->system_since, now, s->be_slice_ns) || rule_system_turn_begins(s, cpu, now);
		gives_way = !is_within_guarantee(workload_at(s, holder));
	}
	return has_elapsed(cpu_at(s, cpu)->system_until, now, s->system_ns) &&
	       has_elapsed(waiting_since, now, gives_way ? s->system_ns : 2 * s->system_ns);
}

#endif
