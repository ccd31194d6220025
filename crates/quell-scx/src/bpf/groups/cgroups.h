/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Creation and removal of cgroups.
 *
 * Problem: the table of cgroups is finite, and an ordinary user can make cgroups without end.
 *
 * Rule: a cgroup takes a place of the table (`groups/groups.h`), with a queue for when it is throttled. One for which
 * no place is left belongs to the group above, and is under its limits; ordinary users have a part of the places.
 *
 * Callers: the operations `cgroup_init` and `cgroup_exit`.
 *
 * Limits: the place of a removed cgroup is free after the next patrol.
 */
#ifndef QUELL_CGROUPS_H
#define QUELL_CGROUPS_H

#include "groups/quota.h"

/* A free place for a cgroup below this one; NO_GROUP: there is none. */
static __always_inline __u32 find_free_place(__u32 parent, bool delegated)
{
	int i;

	if (parent < MAX_GROUPS && group_at(parent)->depth + 1 >= MAX_DEPTH)
		return NO_GROUP;
	if (delegated && delegated_groups >= MAX_DELEGATED)
		return NO_GROUP;
	FOR(i, 0, MAX_GROUPS) {
		__u32 place = i;

		if (!group_at(place)->id)
			/* The first one is the root's. */
			return parent < MAX_GROUPS || !place ? place : NO_GROUP;
	}
	return NO_GROUP;
}

/* A cgroup is created: it takes a place, or belongs to the group above. Called one at a time, parents first. */
static __always_inline __s32 add_group(__u64 id, __u64 parent_id, bool delegated)
{
	__u32 *above = parent_id ? bpf_map_lookup_elem(&places, &parent_id) : NULL;
	__u32 parent = above ? *above : NO_GROUP;
	__u32 at = find_free_place(parent, delegated);

	if (at >= MAX_GROUPS) {
		__sync_fetch_and_add(&shared.unplaced, 1);
		return 0;
	}
	__s32 error = scx_bpf_create_dsq(THROTTLED_DSQ + at, -1);
	struct group *g = group_at(at);

	if (error && error != -EEXIST)
		return error;
	__builtin_memset(g, 0, sizeof(*g));
	g->parent = parent;
	g->depth = parent < MAX_GROUPS ? group_at(parent)->depth + 1 : 0;
	g->delegated = delegated;
	if (delegated)
		__sync_fetch_and_add(&delegated_groups, 1);
	g->weight = WEIGHT_ONE;
	g->id = id;
	bpf_map_update_elem(&places, &id, &at, BPF_ANY);
	if (at >= nr_groups)
		nr_groups = at + 1;
	groups_generation++;
	return 0;
}

/* A cgroup is removed; only exiting threads may still be in it. The next patrol frees its place. */
static __always_inline void remove_group(__u64 id)
{
	__u32 *place = bpf_map_lookup_elem(&places, &id);

	if (!place) {
		__sync_fetch_and_sub(&shared.unplaced, 1);
		return;
	}
	group_at(*place)->tg = 0;
	group_at(*place)->limited = 0;
	group_at(*place)->gone = 1;
	bpf_map_delete_elem(&places, &id);
	groups_generation++;
}

#endif
