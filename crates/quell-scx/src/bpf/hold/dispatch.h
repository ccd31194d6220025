/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The next thread of a CPU.
 *
 * Problem: a CPU that chooses has one holder and several others with a claim: servers, the system, starving threads.
 *
 * Rule: in this order: a server with budget; the system's turn; a starving thread's; a latency-critical workload that
 * is owed a CPU; the holder's next thread; the next holder in line, if there is none; the system.
 *
 * Callers: `dispatch`: the operation of that name. `kick_idle_for_holder`: the operation `running`.
 *
 * Limits: of a queue's first threads four are tested for one that ran here last.
 */
#ifndef QUELL_DISPATCH_H
#define QUELL_DISPATCH_H

#include "queue/divided.h"
#include "queue/progress.h"
#include "hold/holders.h"
#include "place/seek.h"
#include "serve/serve.h"
#include "queue/starving.h"

/* Dispatches the system's next thread to this CPU. */
GLOBAL_FUNC bool dispatch_system(__u32 cpu, __u64 now)
{
	if (cpu >= MAX_CPUS)
		return false;
	if (consume_first(next_of_system(cpu, now), now))
		return true;
	return (queue_has_waiters(BOUND + cpu) && consume_first(BOUND + cpu, now)) || consume_any(SYSTEM, cpu, now);
}

/* A CPU scans for starving threads once in this number of slices: at most 1/16 of its time. */
#define STARVING_SHARE 16

/* An LC workload within its guarantee yields a starvation turn only after PATIENCE * starving_ns. */
#define PATIENCE 4

/*
 * Scans all slots for the thread that has waited for the longest, and dispatches from its queue if it starves. A holder
 * that has nothing to run yields the CPU: it takes one again when it has.
 */
GLOBAL_FUNC bool scan_for_starving(__u32 cpu, bool prev_wants_on, __u64 now)
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

/* Has the holder just taken the CPU from the thread that runs here? Then its own thread comes first. */
static __always_inline bool is_preempting(__u32 cpu)
{
	__u32 holder = cpu_at(&shared, cpu)->holder, runs = cpu_at(&shared, cpu)->runs;

	return holder < SYSTEM && runs != NO_SLOT && runs != holder;
}

static __always_inline bool dispatch_starving(__u32 cpu, bool prev_wants_on, __u64 now)
{
	return now >= cpu_at(&shared, cpu)->look_at && !is_preempting(cpu) && scan_for_starving(cpu, prev_wants_on, now);
}

/* Gives the previous thread another slice, if it is runnable and may run on. Returns true if so. */
static __always_inline bool try_extend_slice(struct task_struct *prev, __u32 slot, __u64 now)
{
	if (!is_still_runnable(prev))
		return false;
	struct thread *t = thread_of(prev);

	if (!t || (servers_on && t->served) || slot_of(prev, t) != slot || throttled_by(prev, t, now) != NO_GROUP)
		return false;
	charge_vtime(t);
	advance_clock(prev, t, now);
	t->slice_left = prev->scx.slice = slice_of(t, slot);
	return true;
}

/*
 * Is a thread with this place in this queue first among the slot's that may run here? Several queues are compared by
 * the slot's clock.
 */
GLOBAL_FUNC bool is_first_by_vtime(__u32 number, __u32 cpu, __u64 place, __u64 now)
{
	__u32 slot = slot_of_number(number);
	__u32 next = slot == SYSTEM ? next_of_system(cpu, now) : next_queue(slot, cpu, now);
	__u64 first = first_place(next, cpu);

	return first == NOWHERE || (__s64)(first - place - ahead_of(number)) > 0;
}

/* The running thread is in no queue. Lets it run on if it is first by the queue's order. Returns true if so. */
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

/* A thread is counted a moment before it is in the queue: so often a CPU looks for it. */
#define LOOKS 64
/*
 * Not every such thread comes: a real-time thread may have taken the CPU to which it was sent, which the kernel does
 * not report. So the CPU stops looking for this time.
 */
#define LOOKS_AGAIN_NS 1000000ULL

/*
 * No thread in the workload's queue may run here. If more are counted than are in the queue, some are on their way into
 * it: kicks this CPU to choose again. Meanwhile it holds the rq lock that others need to move a thread from here or to
 * wake one up here; so not for workloads whose threads take a CPU by rule when they have come. Returns true if it has
 * work, or looks again.
 */
GLOBAL_FUNC bool await_enqueue(__u32 cpu, __u32 slot, __u64 now)
{
	struct workload *w = workload_of(slot);

	if (cpu >= MAX_CPUS || !has_waiters(w) || (w->lc && w->on_wake_up))
		return false;
	__s32 seen = in_queues(slot);

	/* A thread may have come since the queue was examined last. */
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

/* Of a queue's first threads this number are tested for one that ran here last. */
#define NEAR 4

/*
 * Dispatches the workload's next thread to this CPU. Of BE threads that are within a slice of the first one, the one
 * that ran here last: to move a thread between CPUs costs more than all the rest.
 */
GLOBAL_FUNC bool dispatch_next(__u32 cpu, __u32 slot, __u64 now)
{
	struct task_struct *p;
	__u64 latest = 0;
	__u32 looked = 0;
	bool moved = false;

	if (slot >= SYSTEM)
		return false;
	__u32 number = next_queue(slot, cpu, now);

	if (is_by_progress(slot) && take_by_progress(number, cpu, now))
		return true;
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

/* Hands a CPU without a holder to the next in line that has a thread which may run here. */
GLOBAL_FUNC bool dispatch_next_holder(__u32 cpu, __u64 now)
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
 * A latency-critical workload that is owed a CPU took one when its thread came. That can fail: the CPU may have given
 * up waiting for a thread that was on its way into the queue (a hypervisor may have stopped its old CPU). Then it takes
 * this one where a best-effort slice ends.
 */
GLOBAL_FUNC bool dispatch_owed_lc(__u32 cpu, __u32 holder, __u64 now)
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

/* Dispatches the holder's next thread. A holder without one yields the CPU. */
static __always_inline bool dispatch_holder(__u32 cpu, struct task_struct *prev, __u64 now)
{
	if (cpu >= MAX_CPUS)
		return false;
	__u32 holder = cpu_at(&shared, cpu)->holder;

	if (holder >= SYSTEM || is_banned(&shared, cpu))
		return false;
	/* Threads in the queue are counted: without any the queue need not be examined. */
	if (has_waiters(workload_at(&shared, holder)) && (try_continue(cpu, prev, holder, now) || dispatch_next(cpu, holder, now)))
		return true;
	if (try_extend_slice(prev, holder, now) || await_enqueue(cpu, holder, now))
		return true;
	yield_cpu(cpu, holder);
	return false;
}

/*
 * Tests whether the system's threads have their turn here. Where that depends on how long the first of them has waited,
 * the queue is examined once a slice, which `look_for_system_at` records.
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

/* On a server's CPU the timer ends the turns of others after this, so that they delay the server by no more. */
#define TURN_BESIDE_SERVER_NS 500000ULL
/* The longest wait for a turn, for all budgets and periods. */
#define LONGEST_BLACKOUT_NS 15000000000ULL

/* Gives a starving thread a turn beside a server: not before it has waited for the server's longest blackout. */
GLOBAL_FUNC bool scan_beside_server(__u32 cpu, __u32 at, __u64 now)
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

/* Gives other threads a short turn, if one is due, though this server has work and budget. Returns true if so. */
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

/* Dispatches from the CPU's highest server that has work and budget, or gives others a turn beside it. */
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

/* Finds idle CPUs for the first threads of this queue. */
GLOBAL_FUNC int kick_idle_for_queue(__u32 number)
{
	__u32 looked = 0, slot = slot_of_number(number);
	struct task_struct *p;

	if (!queue_has_waiters(number) || !scx_bpf_dsq_nr_queued(queue_of(number)))
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

/* The same for all queues of the slot from which this CPU takes: for threads of others it was not found. */
GLOBAL_FUNC int kick_idle_for_slot(__u32 slot, __u32 cpu)
{
	int i;

	kick_idle_for_queue(slot);
	if (!has_parts(slot))
		return 0;
	FOR(i, first_part(slot), last_part()) {
		__u32 number = number_of_part(slot, i);

		if (may_consume_from(number, cpu))
			kick_idle_for_queue(number);
	}
	return 0;
}

/* `system`: did a thread of the system wait for this CPU when it began to choose? What comes later finds it idle. */
static __always_inline void pick_next(__u32 cpu, struct task_struct *prev, bool system, __u64 now)
{
	bool polled = is_still_runnable(prev) && is_polling_loop(prev);

	if (cpu >= MAX_CPUS)
		return;
	clear_away(cpu);
	cpu_at(&shared, cpu)->starving = 0;
	/* `stopping` is not called for a thread that runs on: it is accounted here. */
	if (is_still_runnable(prev)) {
		struct thread *t = thread_of(prev);

		if (t)
			account(prev, t, now);
		if (t && t->slot == SYSTEM && !polled)
			cpu_at(&shared, cpu)->system_until = now;
	}
	if (servers_on && serving_on(cpu)->servers && dispatch_server(cpu, prev, now))
		return;
	if (system && check_system_turn(cpu, polled, now) &&
	    ((!polled && try_continue(cpu, prev, SYSTEM, now)) || dispatch_system(cpu, now)))
		return;
	if (dispatch_starving(cpu, is_still_runnable(prev), now) || try_dispatch_owed_lc(cpu, now) ||
	    dispatch_holder(cpu, prev, now))
		return;
	if (cpu_at(&shared, cpu)->holder == NO_SLOT && cpu_at(&shared, cpu)->in_pool && dispatch_next_holder(cpu, now))
		return;
	if (polled && try_extend_slice(prev, SYSTEM, now))
		return;
	if (!system || (!try_continue(cpu, prev, SYSTEM, now) && !dispatch_system(cpu, now)))
		try_extend_slice(prev, SYSTEM, now);
}

/* Is any CPU idle? */
static __always_inline bool has_idle_cpu(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool has = !bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return has;
}

/*
 * A thread from the local queue runs, without a choice, and the CPU's holder changed meanwhile: idle CPUs are kicked
 * for the holder's waiting threads.
 */
static __always_inline void kick_idle_for_holder(__u32 cpu)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;

	if (holder < SYSTEM && has_waiters(workload_of(holder)) && has_free_cpu() && has_idle_cpu())
		kick_idle_for_slot(holder, cpu);
}

/* Does the CPU go idle without a search? No workload may have it, and no thread of the system waits for it. */
static __always_inline bool is_left_idle(const struct cpu *c, struct task_struct *prev, bool system, __u64 now)
{
	return !system && !c->in_pool && c->holder >= SYSTEM && !is_still_runnable(prev) && now < c->look_at;
}

/*
 * A CPU that was found for one thread may have dispatched another one, which was before it in the queue and may run
 * only here, or has its turn, or whose workload is owed a CPU. Then idle CPUs are kicked for the threads that still
 * wait.
 */
static __always_inline void dispatch(__u32 cpu, struct task_struct *prev, __u64 now)
{
	if (cpu >= MAX_CPUS)
		return;
	__u32 had = cpu_at(&shared, cpu)->holder;
	bool system = system_has_waiters(cpu);

	if (!servers_on && is_left_idle(cpu_at(&shared, cpu), prev, system, now)) {
		clear_away(cpu);
		cpu_at(&shared, cpu)->starving = 0;
		return;
	}
	pick_next(cpu, prev, system, now);
	__u32 has = cpu_at(&shared, cpu)->holder;
	bool had_waits = had < SYSTEM && had != has && has_waiters(workload_of(had));
	bool has_waits = has < SYSTEM && has_waiters(workload_of(has));

	system = system && system_waits_for(cpu);
	/* Workloads' threads take CPUs without a holder only: to visit a few CPUs costs less than to visit queues. */
	if ((had_waits || has_waits) && !has_free_cpu())
		had_waits = has_waits = false;
	if ((!had_waits && !has_waits && !system) || !has_idle_cpu())
		return;
	if (had_waits)
		kick_idle_for_slot(had, cpu);
	if (has_waits)
		kick_idle_for_slot(has, cpu);
	if (system)
		kick_idle_for_slot(SYSTEM, cpu);
}

#endif
