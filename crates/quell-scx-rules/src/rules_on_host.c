/* SPDX-License-Identifier: GPL-2.0-only */
/* The rules, callable by the tests. */
#include <stdbool.h>
#include <string.h>
#include "place/look.h"
#include "queue/coming.h"
#include "serve/budget.h"

/* Are there sets of CPUs, for this thread's tests? */
void quell_has_sets(bool has)
{
	sets_on = has;
}

/* As `choose_cpu` does. */
__u32 quell_rule_on_wake_up(struct shared *s, __u32 slot, __u32 last, const __u64 *cpus)
{
	struct look look;

	if (rule_is_best(s, slot, last) && cpus[last / 64] >> last % 64 & 1)
		return last;
	look.slot = slot;
	look.last = last;
	look.some = true;
	memcpy(look.cpus, cpus, sizeof(look.cpus));
	return rule_on_wake_up(s, &look);
}

/* A thread of it waits. */
void quell_slot_waits(struct shared *s, __u32 slot)
{
	mark_slot_waiting(s, slot);
}

__u64 quell_rule_heir(struct shared *s, __u32 cpu, __u64 after)
{
	return rule_next_holder(s, cpu, after);
}

__u32 quell_slot_in_line(__u64 place)
{
	return slot_in_line(place);
}

bool quell_rule_ban_holds(__u64 banned_for, __u64 now_on)
{
	return rule_ban_holds(banned_for, now_on);
}

bool quell_rule_system_turn(const struct shared *s, __u32 cpu, bool polls, __u64 now, __u64 since)
{
	return rule_system_turn(s, cpu, polls, now, since);
}

__u64 quell_rule_server_left(struct server *s, __u64 now)
{
	return rule_server_left(s, now);
}

bool quell_rule_server_has_budget(const struct server *s, __u64 now)
{
	return rule_server_has_budget(s, now);
}

__u64 quell_rule_server_ran(struct server *s, __u64 since, __u64 now)
{
	return rule_server_ran(s, since, now);
}

__u64 quell_rule_server_ends(const struct server *s, __u64 now)
{
	return rule_server_ends(s, now);
}

bool quell_rule_overtakes(__u64 running, __u64 woken, __u64 latency)
{
	return rule_overtakes(running, woken, latency);
}

/* As `take_by_progress` does: the place of the next thread; `count`: there is none. */
__u32 quell_next_by_progress(const struct coming *all, __u32 count, struct bounds by)
{
	__u32 picked = count;
	__u64 most = 0;

	for (__u32 i = 0; i < count; i++)
		if (!i || rule_used_less(all[i].used, by.least))
			by.least = all[i].used;
	for (__u32 i = 0; i < count; i++) {
		enum pick pick = rule_pick(&all[i], &by, most);

		if (pick == IS_BEHIND)
			continue;
		picked = i;
		most = all[i].blocked + 1;
		if (pick == IS_NEXT)
			break;
	}
	return picked;
}

/* The same two again and again, for measurements; the sum of their results. */
__u64 quell_wakes_up_times(struct shared *s, __u32 slot, __u32 last, const __u64 *cpus, __u64 times)
{
	__u64 sum = 0;

	for (; times; times--) {
		__asm__ volatile("" ::: "memory");
		sum += quell_rule_on_wake_up(s, slot, last, cpus);
	}
	return sum;
}

__u64 quell_yields_times(struct shared *s, __u32 cpu, __u64 times)
{
	__u64 sum = 0;

	for (; times; times--) {
		__asm__ volatile("" ::: "memory");
		sum += rule_next_holder(s, cpu, 0);
	}
	return sum;
}
