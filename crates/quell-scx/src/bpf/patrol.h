/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens by the clock: periods of quotas end, settings are read again, those who wait for too long have their turn. */
#ifndef QUELL_PATROL_H
#define QUELL_PATROL_H

#include "quota.h"
#include "seek.h"

/* Starving threads on CPUs where nothing ends are found within this time, and changes of a cgroup's settings. */
#define PATROL_NS 50000000ULL
/* The kernel ends a scheduler under which a thread waits for 30 s: whoever waited for half of that has its turn. */
#define OVERDUE_NS 15000000000ULL
#define LOOK_FOR_OVERDUE_NS 1000000000ULL

struct patrol {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct patrol);
} patrols SEC(".maps");

__u64 looked_for_overdue;

/* The threads that waited in this group's own queue go on, unless another group holds them back; only those overdue, if told. */
APART int unpark(__u32 at, bool only_overdue, __u64 now)
{
	struct task_struct *p;
	__u64 queue = PARKING + at;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct thread *t = thread_of(p);

		if (!t)
			continue;
		if (only_overdue) {
			if (!t->wants_since || now - t->wants_since < OVERDUE_NS)
				continue;
			t->overdue = 1;
		}
		__u32 slot = slot_of(p, t);
		__u32 above = throttled_by(p, t, now);

		/* `___it` is the iterator that the macro declares. */
		if (above != NO_GROUP) {
			if (above != at)
				scx_bpf_dsq_move(&___it, p, PARKING + above, 0);
			continue;
		}
		if (move_into(&___it, p, t, slot))
			seek_cpu(p, t, slot, begins_to_wait(t, slot, now), now);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* The group is throttled no more. */
static __always_inline void release(__u32 at, __u64 now)
{
	if (__sync_lock_test_and_set(&group_at(at)->throttled, 0))
		__sync_fetch_and_sub(&throttled_groups, 1);
	unpark(at, false, now);
}

/* A period of a throttled group has ended. */
static int period_ends(void *map, __u32 *key, struct period *period)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 at = *key;
	struct group *g = group_at(at);

	if (!g->throttled)
		return 0;
	refill(g, now);
	if (g->budget > 0 || !g->quota)
		release(at, now);
	else
		await_period(at, now);
	return 0;
}

/* Those in this queue that waited for too long come first. */
APART int hurry_overdue(__u32 slot, __u64 now)
{
	struct task_struct *p;

	if (!is_waiting(workload_of(slot)) || is_first_come_first_served(slot))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, slot, 0) {
		struct thread *t = thread_of(p);

		if (!t || t->overdue || !t->wants_since || now - t->wants_since < OVERDUE_NS)
			continue;
		t->overdue = 1;
		move_into(&___it, p, t, slot);
	}
	bpf_rcu_read_unlock();
	return 0;
}

APART int visit_groups(bool look_for_overdue, __u64 now)
{
	int i;

	FOR(i, 0, nr_groups) {
		__u32 at = i;
		struct group *g = group_at(at);

		if (at >= MAX_GROUPS)
			break;
		if (!g->id)
			continue;
		refresh(at, now);
		if (!g->limited && !g->throttled && !g->quota)
			continue;
		if (g->throttled && !g->quota)
			release(at, now);
		/* Who was on its way into the group's queue when that was emptied. */
		if (!g->throttled || look_for_overdue)
			unpark(at, g->throttled, now);
	}
	return 0;
}

/* Wakes the CPUs on which nothing ends, if somebody starves. */
APART int wake_for_starving(bool look_for_overdue, __u64 now)
{
	bool starving = false;
	int i;

	FOR(i, 0, shared.nr_slots + 1) {
		__u32 at = (__u32)i < shared.nr_slots ? i : SYSTEM;

		if (now - waiting_since(workload_at(&shared, at), now) > shared.starving_ns)
			starving = true;
		if (look_for_overdue)
			hurry_overdue(at, now);
	}
	if (!starving)
		return 0;
	FOR(i, 0, shared.nr_cpus)
		scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
	return 0;
}

static int patrol(void *map, __u32 *key, struct patrol *timer)
{
	__u64 now = bpf_ktime_get_ns();
	bool look_for_overdue = now - looked_for_overdue >= LOOK_FOR_OVERDUE_NS;

	if (look_for_overdue)
		looked_for_overdue = now;
	visit_groups(look_for_overdue, now);
	wake_for_starving(look_for_overdue, now);
	bpf_timer_start(&timer->timer, PATROL_NS, 0);
	return 0;
}

static __always_inline void start_patrol(void)
{
	__u32 first = 0;
	struct patrol *timer = bpf_map_lookup_elem(&patrols, &first);

	if (!timer)
		return;
	bpf_timer_init(&timer->timer, &patrols, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, patrol);
	bpf_timer_start(&timer->timer, PATROL_NS, 0);
}

/* A cgroup comes: it takes a place. Called one at a time, parents first. */
static __always_inline __s32 begin_group(__u64 id, __u64 parent_id)
{
	__u32 *parent = parent_id ? bpf_map_lookup_elem(&places, &parent_id) : NULL;
	__u32 at = NO_GROUP;
	int i;

	FOR(i, 0, MAX_GROUPS) {
		__u32 place = i;

		if (!group_at(place)->id) {
			at = place;
			break;
		}
	}
	/* Full: its threads belong to the group above. */
	if (at >= MAX_GROUPS || (!parent && at))
		return 0;
	__s32 error = scx_bpf_create_dsq(PARKING + at, -1);
	struct period *period = bpf_map_lookup_elem(&periods, &at);
	struct group *g = group_at(at);

	if (error && error != -EEXIST)
		return error;
	if (period) {
		bpf_timer_init(&period->timer, &periods, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&period->timer, period_ends);
	}
	__builtin_memset(g, 0, sizeof(*g));
	g->parent = parent ? *parent : NO_GROUP;
	g->weight = WEIGHT_ONE;
	g->id = id;
	bpf_map_update_elem(&places, &id, &at, BPF_ANY);
	if (at >= nr_groups)
		nr_groups = at + 1;
	groups_generation++;
	return 0;
}

/* A cgroup goes; all that may still be in it are threads that end. */
static __always_inline void end_group(__u64 id)
{
	__u32 *place = bpf_map_lookup_elem(&places, &id);
	__u64 now = bpf_ktime_get_ns();

	if (!place)
		return;
	__u32 at = *place;
	struct group *g = group_at(at);

	bpf_map_delete_elem(&places, &id);
	groups_generation++;
	g->quota = 0;
	g->limited = 0;
	g->tg = 0;
	release(at, now);
	g->load = 0;
	settle(at);
	g->id = 0;
}

#endif
