/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a CPU runs next.
 *
 * Problem: a CPU that chooses has one holder and several others with a claim: servers, the system, starving threads.
 *
 * Rule: in this order: a server with budget; the system's turn; a starving thread's; a latency-critical workload that is
 * owed a CPU; the holder's next thread; whoever inherits the CPU, if the holder has none; the system.
 *
 * Limits: of a queue's first threads four are looked at for one that ran here last.
 */
#ifndef QUELL_DISPATCH_H
#define QUELL_DISPATCH_H

#include "queue/divided.h"
#include "hold/holders.h"
#include "place/seek.h"
#include "serve/serve.h"
#include "queue/starving.h"

/* The system's next thread comes here. */
APART bool dispatch_system(__u32 cpu, __u64 now)
{
	if (cpu >= MAX_CPUS)
		return false;
	if (consume_first(next_of_system(cpu, now), now))
		return true;
	return (queue_has_waiters(BOUND + cpu) && consume_first(BOUND + cpu, now)) || consume_any(SYSTEM, cpu, now);
}

/* Who starves is looked for on each CPU once in so many slices: together they cost at most this share of it. */
#define STARVING_SHARE 16

/* A latency-critical workload that has work, and no more than it is guaranteed, gives a turn after so many times as long. */
#define PATIENCE 4

/*
 * Somebody who waited too long, wherever that may be: their queue has its turn here, if a thread of it may run here. If the
 * holder has nothing to run, it yields the CPU: it takes it back when it has.
 */
APART bool scan_for_starving(__u32 cpu, bool prev_wants_on, __u64 now)
{
	__u64 oldest = now - shared.starving_ns;
	__u32 slot;

	if (cpu >= MAX_CPUS)
		return false;
	cpu_at(&shared, cpu)->look_at = now + STARVING_SHARE * shared.be_slice_ns;
	slot = oldest_slot(cpu, oldest, now);
	if (slot < SYSTEM)
		oldest = slot_waits_since(slot, cpu, now);
	__u64 system_since = system_waits_since(cpu, now);

	if (system_since < oldest) {
		oldest = system_since;
		slot = SYSTEM;
	}
	if (slot == NO_SLOT)
		return false;
	__u32 holder = cpu_at(&shared, cpu)->holder;
	bool has_work = prev_wants_on || holder >= SYSTEM || has_waiters(workload_of(holder));

	if (has_work && holder < SYSTEM && is_within_guarantee(workload_of(holder)) &&
	    now - oldest < PATIENCE * shared.starving_ns)
		return false;
	bool is_free = holder == NO_SLOT || (!has_work && yield_cpu(cpu, holder));

	if (!(slot == SYSTEM ? dispatch_system(cpu, now) : consume_oldest(slot, cpu, now)))
		return false;
	cpu_at(&shared, cpu)->starving = !is_free;
	count(STARVING);
	return true;
}

/* Has the holder just taken the CPU from whoever runs here? Then it has its turn first. */
static __always_inline bool is_preempting(__u32 cpu)
{
	__u32 holder = cpu_at(&shared, cpu)->holder, runs = cpu_at(&shared, cpu)->runs;

	return holder < SYSTEM && runs != NO_SLOT && runs != holder;
}

static __always_inline bool dispatch_starving(__u32 cpu, bool prev_wants_on, __u64 now)
{
	return now >= cpu_at(&shared, cpu)->look_at && !is_preempting(cpu) && scan_for_starving(cpu, prev_wants_on, now);
}

/* May it go on? Then it gets another slice. */
static __always_inline bool try_extend_slice(struct task_struct *prev, __u32 slot, __u64 now)
{
	if (!is_still_runnable(prev))
		return false;
	struct thread *t = thread_of(prev);

	if (!t || (servers_on && t->served) || slot_of(prev, t) != slot || throttled_by(prev, t, now) != NO_GROUP)
		return false;
	charge_vtime(t);
	advance_clock(prev, t);
	t->slice_left = prev->scx.slice = slice_of(t, slot);
	return true;
}

/*
 * Would a thread with this place in the order of this queue be the slot's first here? Where the slot has several queues that
 * is compared by the slot's clock.
 */
APART bool is_first_by_vtime(__u32 number, __u32 cpu, __u64 place, __u64 now)
{
	__u32 slot = slot_of_number(number);
	__u32 next = slot == SYSTEM ? next_of_system(cpu, now) : next_queue(slot, cpu, now);
	__u64 first = first_place(next, cpu);

	return first == NOWHERE || (__s64)(first - place - ahead_of(number)) > 0;
}

/* It is not in the queue while it runs. Does it go on because it is next by the queue's order? */
static __always_inline bool try_continue(__u32 cpu, struct task_struct *prev, __u32 slot, __u64 now)
{
	if (!is_still_runnable(prev) || is_fifo(slot))
		return false;
	struct thread *t = thread_of(prev);

	if (!t || (servers_on && t->served) || slot_of(prev, t) != slot)
		return false;
	__u32 number = number_of_queue(prev, t, slot);

	return is_first_by_vtime(number, cpu, place_thread(t, number), now) && try_extend_slice(prev, slot, now);
}

/* A thread is counted a moment before it is in the queue. */
#define LOOKS 64
/*
 * Not every such thread comes: one may have been sent to a CPU that a real-time thread took in that moment, of which the kernel
 * does not tell. So the CPU looks no more for a while.
 */
#define LOOKS_AGAIN_NS 1000000ULL

/*
 * No thread of the workload's queue may run here. Do more of them wait than are in the queue, which are on their way into
 * it? Then the CPU looks again at once: all the time it holds the lock that others need to pull a thread from here or to
 * wake one up here. So it does not for those who take a CPU by rule when they have come.
 */
APART bool await_enqueue(__u32 cpu, __u32 slot, __u64 now)
{
	struct workload *w = workload_of(slot);

	if (cpu >= MAX_CPUS || !has_waiters(w) || (w->lc && w->on_wake_up))
		return false;
	__s32 seen = in_queues(slot);

	/* Somebody may have come since it was looked last. */
	if (seen > 0 && consume_any(slot, cpu, now))
		return true;
	if ((__s64)(w->queued - w->taken) <= seen + (__s32)w->pulls)
		return false;
	struct cpu *c = cpu_at(&shared, cpu);

	if (!has_elapsed(c->awaits_from, now, 0))
		return false;
	if (c->awaits++ >= LOOKS) {
		c->awaits = 0;
		c->awaits_from = now + LOOKS_AGAIN_NS;
		return false;
	}
	scx_bpf_kick_cpu(cpu, 0);
	return true;
}

/* So many of a queue's first threads are looked at for one that ran here last. */
#define NEAR 4

/*
 * The workload's next thread comes here. Of BE threads that are within a slice of the first one, that which ran here last:
 * moving a thread between CPUs costs more than all the rest.
 */
APART bool dispatch_next(__u32 cpu, __u32 slot, __u64 now)
{
	struct task_struct *p;
	__u64 latest = 0;
	__u32 looked = 0;
	bool moved = false;

	if (slot >= SYSTEM)
		return false;
	__u32 number = next_queue(slot, cpu, now);

	if (is_fifo(slot))
		return consume_first(number, now) || (has_parts(slot) && consume_part(slot, cpu, now));
	if (throttled_groups)
		throttle_head(number, now);
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_in(number, false), 0) {
		if (!looked)
			latest = p->scx.dsq_vtime + shared.be_slice_ns;
		if (looked++ >= NEAR || (__s64)(p->scx.dsq_vtime - latest) > 0)
			break;
		if (scx_bpf_task_cpu(p) == cpu && is_cpu_allowed(p, cpu)) {
			/* `___it` is the iterator that the macro declares. */
			moved = scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0);
			break;
		}
	}
	bpf_rcu_read_unlock();
	return moved || consume(number) || (has_parts(slot) && consume_any(slot, cpu, now));
}

/* The CPU that nobody holds goes to whoever is next in line and has a thread that may run here. */
APART bool dispatch_next_holder(__u32 cpu, __u64 now)
{
	__u64 place = 0;
	int i;

	FOR(i, 0, shared.nr_slots) {
		place = next_in_line(cpu, place);
		__u32 next = slot_in_line(place);

		if (next >= SYSTEM || cpu_at(&shared, cpu)->holder != NO_SLOT)
			return false;
		if (!try_hand_over(cpu, NO_SLOT, next))
			continue;
		if (dispatch_next(cpu, next, now) || await_enqueue(cpu, next, now))
			return true;
		try_hand_over(cpu, next, NO_SLOT);
	}
	return false;
}

/*
 * A latency-critical workload that is owed a CPU took one when its thread came. That can fail: the CPU may have given up
 * waiting for a thread that was on its way into the queue (its old CPU may stand still for long, where a hypervisor took
 * it). It is made good where a best-effort workload's slice ends.
 */
APART bool dispatch_owed_lc(__u32 cpu, __u32 holder, __u64 now)
{
	__u32 next = next_holder(cpu);

	if (next >= SYSTEM || next == holder)
		return false;
	if (!is_owed_cpu(next) || !try_hand_over(cpu, holder, next))
		return false;
	if (dispatch_next(cpu, next, now)) {
		count(PREEMPTED);
		return true;
	}
	try_hand_over(cpu, next, holder);
	return false;
}

static __always_inline bool try_dispatch_owed_lc(__u32 cpu, __u64 now)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;

	return holder < SYSTEM && !workload_at(&shared, holder)->lc && dispatch_owed_lc(cpu, holder, now);
}

/* The holder's next thread. Without one the holder yields the CPU. */
static __always_inline bool dispatch_holder(__u32 cpu, struct task_struct *prev, __u64 now)
{
	if (cpu >= MAX_CPUS)
		return false;
	__u32 holder = cpu_at(&shared, cpu)->holder;

	if (holder >= SYSTEM || is_banned(&shared, cpu))
		return false;
	/* Who is in the queue is counted: where nobody waits, the queue need not be looked at. */
	if (has_waiters(workload_at(&shared, holder)) && (try_continue(cpu, prev, holder, now) || dispatch_next(cpu, holder, now)))
		return true;
	if (try_extend_slice(prev, holder, now) || await_enqueue(cpu, holder, now))
		return true;
	yield_cpu(cpu, holder);
	return false;
}

/*
 * Have the system's threads their turn here? Where that depends on how long the one has waited that may run here, it is
 * looked for once in a slice.
 */
static __always_inline bool check_system_turn(__u32 cpu, bool polled, __u64 now)
{
	struct cpu *c = cpu_at(&shared, cpu);

	if (rule_system_turn(&shared, cpu, polled, now, now) || (loop_waits && !is_held_by_lc(cpu)))
		return true;
	if (now < c->look_for_system_at || !rule_system_turn(&shared, cpu, polled, now, 0))
		return false;
	c->look_for_system_at = now + shared.be_slice_ns;
	return rule_system_turn(&shared, cpu, polled, now, system_waits_since(cpu, now));
}

/* On a server's CPU the turns of others end by the timer, so that its latency has no longer holes than this. */
#define TURN_BESIDE_SERVER_NS 500000ULL
/* The longest wait for a turn, for all budgets and periods. */
#define LONGEST_BLACKOUT_NS 15000000000ULL

/* Of a workload's threads that starve the first that may run here has a turn: no sooner than others are to wait anyway. */
APART bool scan_beside_server(__u32 cpu, __u32 at, __u64 now)
{
	__u64 blackout;
	__u32 slot;

	if (cpu >= MAX_CPUS)
		return false;
	struct server *s = server_at(cpu, at);

	blackout = 2 * s->budget;
	if (s->budget >= s->period || blackout > LONGEST_BLACKOUT_NS)
		blackout = LONGEST_BLACKOUT_NS;
	if (blackout < PATIENCE * shared.starving_ns)
		blackout = PATIENCE * shared.starving_ns;
	cpu_at(&shared, cpu)->look_at = now + STARVING_SHARE * shared.be_slice_ns;
	slot = oldest_slot(cpu, now - blackout, now);
	if (slot == NO_SLOT || !consume_oldest(slot, cpu, now))
		return false;
	cpu_at(&shared, cpu)->starving = 1;
	count(STARVING);
	return true;
}

/* A turn of other threads, though this server has work and budget: it ends soon. */
static __always_inline bool try_yield_turn(__u32 cpu, __u32 at, __u64 now)
{
	struct cpu *c = cpu_at(&shared, cpu);
	bool gives = false;

	if (system_has_waiters(cpu) && now >= c->look_for_system_at &&
	    has_elapsed(c->system_until, now, 2 * shared.system_ns)) {
		c->look_for_system_at = now + shared.be_slice_ns;
		gives = has_elapsed(system_waits_since(cpu, now), now, 2 * shared.system_ns) && dispatch_system(cpu, now);
	}
	if (!gives && now >= c->look_at)
		gives = scan_beside_server(cpu, at, now);
	if (!gives)
		return false;
	count(BESIDE_SERVER);
	serving_on(cpu)->turn_until = now + TURN_BESIDE_SERVER_NS;
	arm_bell(cpu, now + TURN_BESIDE_SERVER_NS);
	return true;
}

/* Runs the CPU's highest server that has work and budget, or a turn of other threads beside it. */
static __always_inline bool dispatch_server(__u32 cpu, struct task_struct *prev, __u64 now)
{
	struct thread *t = is_still_runnable(prev) ? thread_of(prev) : NULL;
	__u32 number = t ? t->served - 1 : 0;
	__u32 runs = t && t->served && number / SERVERS == cpu ? number % SERVERS + 1 : 0;

	stop_serving(cpu);
	__u32 at = pick_server(cpu, runs, now);

	if (at < SERVERS && (try_yield_turn(cpu, at, now) || dispatch_from_server(cpu, at, prev, now)))
		return true;
	arm_bell(cpu, serving_on(cpu)->waits_until);
	return false;
}

/* The first of those that wait in this queue get CPUs on which nothing runs. */
APART int kick_idle_for_queue(__u32 number)
{
	__u32 looked = 0, slot = slot_of_number(number);
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue_of(number)))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue_of(number), 0) {
		if (slot == SYSTEM)
			kick_cpu_for_system(p, false, 0);
		else
			take_unheld_cpu(p, slot, NO_CPU);
		if (++looked >= NEAR)
			break;
	}
	bpf_rcu_read_unlock();
	return 0;
}

APART int kick_idle_for_slot(__u32 slot)
{
	int i;

	kick_idle_for_queue(slot);
	if (!has_parts(slot))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		kick_idle_for_queue(number_of_part(slot, i));
	}
	return 0;
}

static __always_inline void pick_next(__u32 cpu, struct task_struct *prev, __u64 now)
{
	bool polled = is_still_runnable(prev) && is_polling_loop(prev);

	if (cpu >= MAX_CPUS)
		return;
	clear_away(cpu);
	cpu_at(&shared, cpu)->starving = 0;
	/* One that goes on does not stop: it is accounted for here. */
	if (is_still_runnable(prev)) {
		struct thread *t = thread_of(prev);

		if (t)
			account(prev, t, now);
		if (t && t->slot == SYSTEM && !polled)
			cpu_at(&shared, cpu)->system_until = now;
	}
	if (servers_on && serving_on(cpu)->servers && dispatch_server(cpu, prev, now))
		return;
	if (system_has_waiters(cpu) && check_system_turn(cpu, polled, now) &&
	    ((!polled && try_continue(cpu, prev, SYSTEM, now)) || dispatch_system(cpu, now)))
		return;
	if (dispatch_starving(cpu, is_still_runnable(prev), now) || try_dispatch_owed_lc(cpu, now) || dispatch_holder(cpu, prev, now))
		return;
	if (cpu_at(&shared, cpu)->holder == NO_SLOT && dispatch_next_holder(cpu, now))
		return;
	if (polled && try_extend_slice(prev, SYSTEM, now))
		return;
	if (!system_has_waiters(cpu) || (!try_continue(cpu, prev, SYSTEM, now) && !dispatch_system(cpu, now)))
		try_extend_slice(prev, SYSTEM, now);
}

/* Is there a CPU on which nothing runs? */
static __always_inline bool has_idle_cpu(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool has = !bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return has;
}

/*
 * A thread that was put into the CPU's own queue runs, without a choice, and the holder got the CPU meanwhile: whoever waits
 * for it is passed on.
 */
static __always_inline void kick_idle_for_holder(__u32 cpu)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;

	if (holder < SYSTEM && has_waiters(workload_of(holder)) && has_idle_cpu())
		kick_idle_for_slot(holder);
}

/*
 * A CPU that was found for one thread may have taken another one, which was before it in the queue and may run here alone, or has
 * its turn, or whose workload is owed a CPU. Then whoever waits still is passed on.
 */
static __always_inline void dispatch(__u32 cpu, struct task_struct *prev, __u64 now)
{
	if (cpu >= MAX_CPUS)
		return;
	__u32 had = cpu_at(&shared, cpu)->holder;

	pick_next(cpu, prev, now);
	__u32 has = cpu_at(&shared, cpu)->holder;
	bool had_waits = had < SYSTEM && had != has && has_waiters(workload_of(had));
	bool has_waits = has < SYSTEM && has_waiters(workload_of(has));
	bool system = has_waiters(workload_of(SYSTEM));

	if ((!had_waits && !has_waits && !system) || !has_idle_cpu())
		return;
	if (had_waits)
		kick_idle_for_slot(had);
	if (has_waits)
		kick_idle_for_slot(has);
	if (system)
		kick_idle_for_slot(SYSTEM);
}

#endif
