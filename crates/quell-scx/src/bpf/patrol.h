/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What happens by the clock: periods of quotas end, settings are read again, those who wait for too long have their turn.
 *
 * Problem: the kernel tells of some changes only, and on a CPU where nothing ends nothing is decided.
 *
 * Rule: a timer, every 50 ms or at the end of a throttled group's period, looks at CPUs, groups and queues. What it finds
 * it mends or has a CPU decide again.
 *
 * Limits: it looks at so many of them in one go, and at all within 50 ms: where there are more it rings so much more often.
 * What it repairs has lasted for up to 50 ms, for overdue threads 1 s.
 */
#ifndef QUELL_PATROL_H
#define QUELL_PATROL_H

#include "cookies.h"
#include "holders.h"
#include "passage.h"
#include "quota.h"
#include "send.h"
#include "serve.h"
#include "stay.h"

/* Starving threads on CPUs where nothing ends are found within this time, and changes of a cgroup's settings. */
#define PATROL_NS 50000000ULL
#define LOOK_FOR_OVERDUE_NS 1000000000ULL

#ifndef PATROL_PART
#define PATROL_PART 128 /* CPUs, groups and slots that are visited at once */
#endif

__u64 visited;            /* a part of them, last */
__u64 looked_for_overdue;
__u32 part_to_visit;
bool looks_for_overdue;   /* does it on this round? */

/* To the queue of its server, from the queue that is iterated over, if there is a server for the thread. */
#define move_to_server(it, p, t, slot, now)                                                           \
	({                                                                                            \
		__u32 home_ = NO_CPU, at_ = NO_SERVER;                                                \
		if (servers_on && workload_of(slot)->servers)                                         \
			home_ = cpu_of_server(p, slot);                                               \
		if (home_ < MAX_CPUS)                                                                 \
			at_ = server_of(home_, slot);                                                 \
		if (at_ < SERVERS) {                                                                  \
			ceases_to_wait(p, t);                                                         \
			begin_turn(t, slot, now);                                                     \
			t->served = server_number(home_, at_) + 1;                                    \
			scx_bpf_dsq_move_set_vtime(it, now);                                          \
			if (scx_bpf_dsq_move_vtime(it, p, queue_of_server(home_, at_), 0))            \
				scx_bpf_kick_cpu(home_, SCX_KICK_PREEMPT);                            \
		}                                                                                     \
		at_ < SERVERS;                                                                        \
	})

/* The threads that waited in this group's own queue go on, unless another group holds them back; only those overdue, if told. */
APART int unpark(__u32 at, bool only_overdue, __u64 now)
{
	struct task_struct *p;
	__u64 queue = PARKING + at;
	bool moved = false;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct thread *t = thread_of(p);

		/* One that still counts for its workload's queue is on its way here. */
		if (!t || t->waits_in)
			continue;
		if (only_overdue) {
			if (!t->wants_since || !lasts(t->wants_since, now, overdue_ns))
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
		if (move_to_server(&___it, p, t, slot, now)) {
			moved = true;
			continue;
		}
		/* Before it moves: it may run at once, and ceases to wait then. */
		__u32 number = number_of_queue(p, t, slot);

		waits_in_number(t, number, now, true);
		if (move_into(&___it, p, t, number))
			moved = true;
	}
	bpf_rcu_read_unlock();
	if (moved) {
		wake_idle_cpus();
		wake_loader();
	}
	return 0;
}

/* The group is throttled no more. */
static __always_inline void release(__u32 at, __u64 now)
{
	if (__sync_lock_test_and_set(&group_at(at)->throttled, 0))
		__sync_fetch_and_sub(&throttled_groups, 1);
	unpark(at, false, now);
}

/* Whoever is in this queue goes into that of the workload that has it now. */
APART int move_all(__u64 queue, __u64 now)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct thread *t = thread_of(p);

		if (!t)
			continue;
		__u32 slot = slot_of(p, t);

		if (move_to_server(&___it, p, t, slot, now))
			continue;
		if (servers_on)
			t->served = 0;
		__u32 number = number_of_queue(p, t, slot);

		waits_in_number(t, number, now, false);
		/* `___it` is the iterator that the macro declares. */
		move_into(&___it, p, t, number);
	}
	bpf_rcu_read_unlock();
	wake_idle_cpus();
	return 0;
}

/* Is the first of this queue one of another set? It came while the queue's place was given away. */
APART bool is_astray(__u32 number)
{
	struct task_struct *p;
	bool astray = false;

	if (!is_waiting_in(number))
		return false;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		struct thread *t = thread_of(p);

		astray = t && t->mask != masked_of(number)->mask;
		break;
	}
	bpf_rcu_read_unlock();
	return astray;
}

/*
 * Whoever is in another one of the slot's queues than its own and should not be: in one by set if the slot has none or the set is
 * another one, in one by cache of the class that the slot had; or all.
 */
APART int move_parts(__u32 slot, bool all, __u64 now)
{
	int i;

	if (slot > SYSTEM || (!caches_on && !*AT(has_masks, slot, MAX_SLOTS)))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);

		if (all || (is_of_cache(number) ? is_waiting_in(number) : is_first_come_first_served(slot) || is_astray(number)))
			move_all(queue_in(number, is_of_cache(number) && !is_first_come_first_served(slot)), now);
		if (all && is_of_cache(number))
			move_all(queue_of(number), now);
	}
	return 0;
}

/* Those in this queue that waited for too long come first. */
APART int hurry_overdue(__u32 number, __u64 now)
{
	struct task_struct *p;

	if (!is_waiting_in(number) || is_by_coming(number))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, false), 0) {
		struct thread *t = thread_of(p);

		if (!t || t->overdue || !t->wants_since || !lasts(t->wants_since, now, overdue_ns))
			continue;
		t->overdue = 1;
		move_into(&___it, p, t, number);
	}
	bpf_rcu_read_unlock();
	return 0;
}

APART int hurry_parts(__u32 slot, __u64 now)
{
	int i;

	if (!is_divided(slot))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		hurry_overdue(number_of_part(slot, i), now);
	}
	return 0;
}

/* Where the part ends that begins there, of so many. */
static __always_inline __u32 end_of_part(__u32 from, __u32 of)
{
	return from + PATROL_PART < of ? from + PATROL_PART : of;
}

/* The group's settings are read again; a cgroup that went leaves its place. */
APART int visit(__u32 at, bool look_for_overdue, __u64 now)
{
	struct group *g = group_at(at);

	if (!g->id)
		return 0;
	if (g->gone) {
		release(at, now);
		g->load = 0;
		settle(at);
		if (g->delegated)
			__sync_fetch_and_sub(&delegated_groups, 1);
		g->id = 0;
		return 0;
	}
	refresh(at, now);
	if (g->throttled && !g->quota)
		release(at, now);
	else if (g->limited && (!g->throttled || look_for_overdue))
		/* Also who was on its way into the group's queue when that was emptied. */
		unpark(at, g->throttled, now);
	return 0;
}

/* Throttled groups go on when their next period begins. Returns when the next one does, or ~0. */
APART __u64 end_periods(__u64 now)
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
		refill(g, now);
		if (g->budget > 0)
			release(at, now);
		else if (g->began + g->period < next)
			next = g->began + g->period;
	}
	return next;
}

APART int visit_groups(__u32 from, bool look_for_overdue, __u64 now)
{
	int i;

	FOR(i, from, end_of_part(from, nr_groups)) {
		visit(i, look_for_overdue, now);
	}
	return 0;
}

/* Threads of this queue whose CPU goes offline go to it: the kernel sends them elsewhere, and waits until it could. */
APART int bring_home(__u64 queue, __u32 cpu)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		/* `___it` is the iterator that the macro declares. */
		if (scx_bpf_task_cpu(p) == (__s32)cpu)
			scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

APART int bring_parts_home(__u32 slot, __u32 cpu)
{
	int i;

	if (slot > SYSTEM || (!caches_on && !*AT(has_masks, slot, MAX_SLOTS)))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);

		bring_home(queue_in(number, false), cpu);
		if (is_of_cache(number))
			bring_home(queue_in(number, true), cpu);
	}
	return 0;
}

/*
 * A CPU that goes offline asks for no thread any more. Other CPUs take those of its that may run there; one that is bound to it
 * would keep the kernel waiting, which ends a scheduler under which a thread waits.
 */
APART int empty(__u32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool has_gone = !bpf_cpumask_test_cpu(cpu, online);
	int i;

	scx_bpf_put_cpumask(online);
	if (has_gone)
		return 0;
	FOR(i, 0, shared.nr_slots + 1) {
		__u32 at = (__u32)i < shared.nr_slots ? i : SYSTEM;

		bring_home(queue_in(at, false), cpu);
		bring_home(queue_in(at, true), cpu);
		bring_parts_home(at, cpu);
	}
	bring_home(queue_in(BOUND + cpu, false), cpu);
	FOR(i, 0, nr_groups) {
		if (i >= MAX_GROUPS)
			break;
		if (group_at(i)->throttled)
			bring_home(PARKING + i, cpu);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * CPUs that go offline: the kernel waits until no thread is on them, looks when they choose a thread, and other CPUs take the
 * last ones from our queues.
 */
APART int visit_offline(__u32 from)
{
	int i;

	FOR(i, from, end_of_part(from, shared.nr_cpus)) {
		if (i >= MAX_CPUS)
			break;
		if (!cpu_at(&shared, i)->online)
			empty(i);
	}
	return 0;
}

/* CPUs on which a real-time thread runs of which the kernel has not told, and those that one does not give back. */
APART int visit_cpus(__u32 from, __u64 now)
{
	int i;

	bpf_rcu_read_lock();
	FOR(i, from, end_of_part(from, shared.nr_cpus)) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		fetch(cpu, now);
		fetch_sent(cpu, now);
		if (!cpu_at(&shared, cpu)->online || cpu_at(&shared, cpu)->away == TOOK)
			continue;
		if (!is_hogged(cpu))
			seems_back(cpu_at(&shared, cpu));
	}
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * Wakes the CPUs on which nothing ends, if somebody starves. Who came into a slot's queue after its workload had changed is
 * brought to where it is looked for.
 */
APART int visit_queues(__u32 from, bool look_for_overdue, __u64 now)
{
	bool starving = false;
	int i;

	FOR(i, from, end_of_part(from, shared.nr_slots + 1)) {
		__u32 at = (__u32)i < shared.nr_slots ? i : SYSTEM;

		/* Those who are in a queue are counted before. */
		if (!is_waiting(workload_of(at)))
			continue;
		move_all(queue_in(at, !is_first_come_first_served(at)), now);
		move_parts(at, false, now);
		if (now - slot_waits_since(at, NO_CPU, now) > shared.starving_ns)
			starving = true;
		if (look_for_overdue) {
			hurry_overdue(at, now);
			hurry_parts(at, now);
		}
	}
	FOR(i, from, end_of_part(from, shared.nr_cpus)) {
		__u32 number = BOUND + i;

		if (now - first_waits_since(number, NO_CPU, now) > shared.starving_ns)
			starving = true;
		if (look_for_overdue)
			hurry_overdue(number, now);
	}
	if (starving)
		wake_idle_cpus();
	return 0;
}

/* Threads in the queue of a server that went, and those whose CPU was told of them a moment before they were in the queue. */
APART int visit_servers(__u32 from, __u64 now)
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
		else if (!serving_on(cpu)->served && waits_for_cpu(cpu, now))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* In so many parts all of them are visited. */
static __always_inline __u32 patrol_parts(void)
{
	__u32 most = shared.nr_slots + 1;

	if (shared.nr_cpus > most)
		most = shared.nr_cpus;
	if (nr_groups > most)
		most = nr_groups;
	return (most + PATROL_PART - 1) / PATROL_PART;
}

APART int visit_part(__u32 part, bool look_for_overdue, __u64 now)
{
	__u32 from = part * PATROL_PART;

	visit_offline(from);
	visit_cpus(from, now);
	visit_groups(from, look_for_overdue, now);
	visit_queues(from, look_for_overdue, now);
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
		look_for_cookies();
		if (!part)
			looks_for_overdue = now - looked_for_overdue >= LOOK_FOR_OVERDUE_NS;
		visit_part(part, looks_for_overdue, now);
		part_to_visit = part + 1 < parts ? part + 1 : 0;
		if (!part_to_visit && looks_for_overdue)
			looked_for_overdue = now;
	}
	comes_by(end_periods(now));
	comes_by(let_all_pass(now));
	set_timer(timer, now);
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
