/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tree of cgroups: the share of each one's threads in the virtual time of a queue.
 *
 * Problem: shares are nested, and a queue has one order.
 *
 * Rule: the hierarchy is flattened. A thread's share is its weight among what is runnable right below its cgroup,
 * times its cgroup's among what is runnable right below the parent, and so on to the root. The sum of runnable
 * weights is the `load`, kept without locks: a group's contribution to its parent is exchanged, and the difference
 * added.
 *
 * Callers: `add_load` and `remove_load`: the operations `enqueue`, `running` and `quiescent`; `virtual_time`:
 * `queue/queues.h`; `update_group`: the patrol.
 *
 * Limits: 4,096 cgroups with the cpu controller, 64 levels; half of the places for those below cgroups of ordinary
 * users. Those beyond belong to the group of the nearest ancestor that has a place. A share counts from the moment at
 * which run time is charged, not from its change.
 */
#ifndef QUELL_GROUPS_H
#define QUELL_GROUPS_H

#include "queue/together.h"

/*
 * Cgroups with the cpu controller that have a place; what is beyond, or deeper, belongs to the group of what is above,
 * and is under its limit. Of those below a cgroup that an ordinary user owns at most MAX_DELEGATED have one: they take
 * none from others.
 */
#define MAX_GROUPS 4096
#define MAX_DELEGATED (MAX_GROUPS / 2)
#define MAX_DEPTH 64
#define NO_GROUP 0xffffffffU
#define MAX_LOAD (1 << 20)
#define MAX_VIRTUAL (1ULL << 42) /* keeps the products below in 64 bits */
#define NO_QUOTA (~0ULL)

struct group {
	__u64 id;     /* the cgroup's; 0: the place is free */
	__u64 tg;     /* the address of its task_group; 0: no thread of it has come yet */
	__u32 parent; /* its place; NO_GROUP: the root has none */
	__u32 weight; /* cpu.weight */
	__u32 idle;   /* has it, or one above it, cpu.idle? */
	__u32 limited; /* has it, or one above it, cpu.max? */
	__s64 load;   /* weights of runnable threads and groups right below it */
	__s64 counts; /* what it adds to its parent's load */

	__u64 quota;  /* ns a period; 0: none */
	__u64 period;
	__u64 burst;
	__u64 began;  /* this period */
	__s64 budget; /* what is left in it; below zero: a debt */
	__u32 throttled;
	__u32 gone;   /* the cgroup was removed: the place becomes free */
	__u32 depth;  /* of places above it */
	__u32 delegated; /* does an ordinary user own the cgroup above it? */
};

struct group groups[MAX_GROUPS];
__u32 nr_groups;         /* places that were ever taken */
__u32 groups_generation; /* a change makes every thread look its group up again */
__u32 throttled_groups;
__u32 delegated_groups;

/* From a cgroup's number to its group's place. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} places SEC(".maps");

#define group_at(i) AT(groups, i, MAX_GROUPS)

static __always_inline struct task_group *task_group_at(__u64 address)
{
	return bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct task_group));
}

/* After a change of a group's load or weight: updates its contribution to its parent's load, and so on upwards. */
GLOBAL_FUNC int propagate_load(__u32 at)
{
	int i;

	FOR(i, 0, MAX_DEPTH) {
		struct group *g = group_at(at);
		__u32 parent = g->parent;
		__s64 wanted = g->load > 0 ? g->weight : 0;

		if (parent >= MAX_GROUPS)
			break;
		__s64 change = wanted - __sync_lock_test_and_set(&g->counts, wanted);

		if (!change)
			break;
		__sync_fetch_and_add(&group_at(parent)->load, change);
		at = parent;
	}
	return 0;
}

/* Reads the cgroup's settings again. The kernel reports some changes only, and those not in all versions. */
GLOBAL_FUNC int update_group(__u32 at, __u64 now)
{
	struct group *g = group_at(at);
	struct group *above = group_at(g->parent);
	bool root = g->parent >= MAX_GROUPS;

	if (!g->tg)
		return 0;
	struct task_group *tg = task_group_at(g->tg);
	__u64 weight = tg->shares * WEIGHT_ONE >> 20;
	__u64 quota = tg->cfs_bandwidth.quota;

	g->weight = weight ? weight : 1;
	g->idle = tg->idle > 0 || (!root && above->idle);
	g->period = tg->cfs_bandwidth.period;
	g->burst = tg->cfs_bandwidth.burst;
	if (quota == NO_QUOTA || !g->period || root)
		quota = 0;
	if (quota && !g->quota) {
		g->began = now;
		g->budget = quota;
	}
	g->quota = quota;
	g->limited = quota || (!root && above->limited);
	propagate_load(at);
	return 0;
}

/* The group of the nearest cgroup upwards that has one. */
GLOBAL_FUNC __u32 find_group(__u64 address, __u64 now)
{
	__u32 found = NO_GROUP;
	int i;

	FOR(i, 0, ANY_DEPTH) {
		struct task_group *tg = task_group_at(address);
		struct cgroup *cgroup = tg->css.cgroup;

		/* A session's own group (autogroup) has no cgroup. */
		if (cgroup) {
			__u64 id = cgroup->kn->id;
			__u32 *place = bpf_map_lookup_elem(&places, &id);

			if (place) {
				struct group *g = group_at(*place);
				bool is_new = g->tg != address;

				g->tg = address;
				if (is_new)
					update_group(*place, now);
				if (found == NO_GROUP)
					found = *place;
			}
		}
		address = (__u64)tg->parent;
		if (!address)
			break;
	}
	return found == NO_GROUP ? 0 : found;
}

/* The thread's group: remembered, and looked up again when it moved or a cgroup came or went. */
static __always_inline __u32 group_of(struct task_struct *p, struct thread *t, __u64 now)
{
	__u64 tg = (__u64)untrusted(p)->sched_task_group;

	if (t->tg != tg || t->groups_generation != groups_generation) {
		t->groups_generation = groups_generation;
		t->tg = tg;
		/* Read back, it is a number to the verifier, which takes no pointers across this call. */
		t->group = find_group(*(volatile __u64 *)&t->tg, now);
	}
	return t->group;
}

/* The thread is runnable: adds its weight to its group's load. Latency-critical ones have none. */
static __always_inline void add_load(struct task_struct *p, struct thread *t, __u32 slot, __u64 now)
{
	if (t->counted || is_fifo(slot))
		return;
	__u32 at = group_of(p, t, now);
	struct group *g = group_at(at);

	t->counted = weight_of(p, t, slot);
	t->counted_at = at;
	t->counted_in = g->id;
	if (__sync_fetch_and_add(&g->load, t->counted) <= 0)
		propagate_load(at);
}

/* The thread is no longer runnable. */
static __always_inline void remove_load(struct thread *t)
{
	struct group *g = group_at(t->counted_at);

	if (t->counted && g->id == t->counted_in && __sync_fetch_and_sub(&g->load, t->counted) <= t->counted)
		propagate_load(t->counted_at);
	t->counted = 0;
}

static __always_inline __u64 load_of(const struct group *g, __u64 at_least)
{
	__s64 load = g->load;

	if (load < (__s64)at_least)
		return at_least;
	return load < MAX_LOAD ? load : MAX_LOAD;
}

/* `ran` ns in virtual time: the time over the thread's share. */
GLOBAL_FUNC __u64 virtual_time(__u32 at, __u64 weight, __u64 ran)
{
	__u64 time = ran;
	int i;

	weight = weight ? weight : 1;
	FOR(i, 0, MAX_DEPTH) {
		struct group *g = group_at(at);

		if (time > MAX_VIRTUAL)
			time = MAX_VIRTUAL;
		time = time * load_of(g, weight) / weight;
		weight = g->weight;
		at = g->parent;
		if (at >= MAX_GROUPS)
			break;
	}
	return time;
}

#endif
