/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The patrol: a timer for periods of quotas, changed settings and threads that waited for too long.
 *
 * Problem: the kernel reports some changes only, and on a CPU where nothing ends nothing is decided.
 *
 * Rule: every 50 ms, and at the end of a throttled group's period, it visits CPUs, groups and queues, and repairs
 * what it finds or kicks a CPU.
 *
 * Callers: the timer; `start_patrol`: the operation `init`; `schedule_patrol` (`groups/quota.h`) brings it forward.
 *
 * Limits: PATROL_PART of them are visited at once, and all within 50 ms: where there are more the timer fires more
 * often. What it repairs has lasted for up to 50 ms, for overdue threads 1 s.
 */
#ifndef QUELL_PATROL_H
#define QUELL_PATROL_H

#include "tend/cookies.h"
#include "tend/offline.h"
#include "tend/boost.h"
#include "tend/regroup.h"
#include "place/direct.h"

/* Starving threads on CPUs where nothing ends are found within this time, and changes of a cgroup's settings. */
#define PATROL_NS 50000000ULL
#define LOOK_FOR_OVERDUE_NS 1000000000ULL

#ifndef PATROL_PART
#define PATROL_PART 128 /* CPUs, groups and slots that are visited at once */
#endif

__u64 visited;            /* a part of them, last */
__u64 overdue_checked_at;
__u32 part_to_visit;
bool checks_overdue;   /* on this round? */

/* The end of the part that begins at `from`, of `of` elements. */
static __always_inline __u32 end_of_part(__u32 from, __u32 of)
{
	return from + PATROL_PART < of ? from + PATROL_PART : of;
}

/* The group's settings are read again; a cgroup that went leaves its place. */
GLOBAL_FUNC int visit(__u32 at, bool check_overdue, __u64 now)
{
	struct group *g = group_at(at);

	if (!g->id)
		return 0;
	if (g->gone) {
		unthrottle(at, now);
		g->load = 0;
		propagate_load(at);
		if (g->delegated)
			__sync_fetch_and_sub(&delegated_groups, 1);
		g->id = 0;
		return 0;
	}
	update_group(at, now);
	if (g->throttled && !g->quota)
		unthrottle(at, now);
	else if (g->limited && (!g->throttled || check_overdue))
		/* Also threads that were on their way into the group's queue when that was emptied. */
		requeue_throttled(at, g->throttled, now);
	return 0;
}

/* Unthrottles groups whose next period has begun. Returns when the next one does, or ~0. */
GLOBAL_FUNC __u64 end_periods(__u64 now)
{
	__u64 next = ~0ULL;
	int i;

	if (!throttled_groups)
		return next;
	FOR(i, 0, nr_groups) {
		__u32 at = i;
		struct group *g = group_at(at);

		if (at >= MAX_GROUPS)
			break;
		if (!g->throttled)
			continue;
		refill_quota(g, now);
		if (g->budget > 0)
			unthrottle(at, now);
		else if (g->began + g->period < next)
			next = g->began + g->period;
	}
	return next;
}

GLOBAL_FUNC int visit_groups(__u32 from, bool check_overdue, __u64 now)
{
	int i;

	FOR(i, from, end_of_part(from, nr_groups)) {
		visit(i, check_overdue, now);
	}
	return 0;
}

/*
 * CPUs that go offline: the kernel waits until no thread is on them, which it tests when they choose a thread, while
 * other CPUs take the last ones from our queues.
 */
GLOBAL_FUNC int visit_offline(__u32 from)
{
	int i;

	FOR(i, from, end_of_part(from, shared.nr_cpus)) {
		if (i >= MAX_CPUS)
			break;
		if (!cpu_at(&shared, i)->online)
			drain_offline_cpu(i);
	}
	return 0;
}

/* CPUs with a real-time thread that the kernel has not reported, and those that one does not give back. */
GLOBAL_FUNC int visit_cpus(__u32 from, __u64 now)
{
	int i;

	bpf_rcu_read_lock();
	FOR(i, from, end_of_part(from, shared.nr_cpus)) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		fetch_kept(cpu, now);
		fetch_sent_thread(cpu, now);
		if (!cpu_at(&shared, cpu)->online || cpu_at(&shared, cpu)->away == AWAY_REPORTED)
			continue;
		if (!yield_if_rt(cpu))
			clear_rt_found(cpu_at(&shared, cpu));
	}
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * Kicks idle CPUs if a thread starves. Threads that came into a slot's queue after its workload had changed are moved
 * to where they are looked for.
 */
GLOBAL_FUNC int visit_queues(__u32 from, bool check_overdue, __u64 now)
{
	bool starving = false;
	int i;

	FOR(i, from, end_of_part(from, shared.nr_slots + 1)) {
		__u32 at = (__u32)i < shared.nr_slots ? i : SYSTEM;

		/* Threads in a queue are counted before. */
		if (!has_waiters(workload_of(at)))
			continue;
		move_all(queue_in(at, !is_fifo(at)), now);
		move_parts(at, false, now);
		if (now - slot_waits_since(at, NO_CPU, now) > shared.starving_ns)
			starving = true;
		if (check_overdue) {
			expedite_overdue(at, now);
			expedite_parts(at, now);
		}
	}
	FOR(i, from, end_of_part(from, shared.nr_cpus)) {
		__u32 number = BOUND + i;

		if (now - queue_waits_since(number, NO_CPU, now) > shared.starving_ns)
			starving = true;
		if (check_overdue)
			expedite_overdue(number, now);
	}
	if (starving)
		kick_idle_cpus();
	return 0;
}

/* Threads in the queue of a removed server, and those whose CPU was kicked a moment before they were in the queue. */
GLOBAL_FUNC int visit_servers(__u32 from, __u64 now)
{
	int i;

	FOR(i, from * SERVERS, end_of_part(from, shared.nr_cpus) * SERVERS) {
		__u32 number = i, cpu = number / SERVERS, at = number % SERVERS;

		if (cpu >= MAX_CPUS)
			break;
		if (!serving_on(cpu)->servers || !scx_bpf_dsq_nr_queued(queue_of_server(cpu, at)))
			continue;
		if (!server_at(cpu, at)->on || !cpu_at(&shared, cpu)->online)
			move_all(queue_of_server(cpu, at), now);
		else if (!serving_on(cpu)->served && server_has_waiters(cpu, now))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* The number of parts in which all are visited. */
static __always_inline __u32 patrol_parts(void)
{
	__u32 most = shared.nr_slots + 1;

	if (shared.nr_cpus > most)
		most = shared.nr_cpus;
	if (nr_groups > most)
		most = nr_groups;
	return (most + PATROL_PART - 1) / PATROL_PART;
}

GLOBAL_FUNC int visit_part(__u32 part, bool check_overdue, __u64 now)
{
	__u32 from = part * PATROL_PART;

	visit_offline(from);
	visit_cpus(from, now);
	visit_groups(from, check_overdue, now);
	visit_queues(from, check_overdue, now);
	if (servers_on)
		visit_servers(from, now);
	return 0;
}

static int patrol(void *map, __u32 *key, struct patrol *timer)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 parts = patrol_parts(), part = part_to_visit;
	__u64 span = PATROL_NS / parts;

	__sync_lock_test_and_set(&next_patrol, now + span);
	if (now - visited >= span) {
		visited = now;
		check_core_scheduling();
		if (!part)
			checks_overdue = now - overdue_checked_at >= LOOK_FOR_OVERDUE_NS;
		visit_part(part, checks_overdue, now);
		part_to_visit = part + 1 < parts ? part + 1 : 0;
		if (!part_to_visit && checks_overdue)
			overdue_checked_at = now;
	}
	advance_patrol(end_periods(now));
	advance_patrol(boost_all(now));
	arm_patrol(timer, now);
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

#endif
