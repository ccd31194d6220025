/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads of deferrable servers. With budget they preempt all others on their CPU but those of a higher server;
 * without budget they wait in the server's own queue. The CPU's holder remains the holder.
 *
 * Problem: a time-sensitive service needs a part of a CPU at once when it wakes up, and no more than that part.
 *
 * Rule: a server with work and budget comes before everything else on its CPU, the highest priority first. Its
 * threads run in the order in which they woke up, a slice each: as those of a workload on a CPU of its own.
 *
 * Callers: the operations `enqueue` (`enqueue_on_server`), `select_cpu`, `running` and `stopping`; `hold/dispatch.h`;
 * `tend/patrol.h`.
 *
 * Limits: a timer ends budgets, so they are exceeded by its lateness. Starving threads, and the system's, have turns
 * of 0.5 ms beside a server. New terms count for a period, too, that has begun and was not read yet.
 */
#ifndef QUELL_SERVE_H
#define QUELL_SERVE_H

#include "hold/holders.h"
#include "groups/quota.h"

#define SERVER_DSQ (THROTTLED_DSQ + MAX_GROUPS) /* the first of the servers' queues */
/* A thread of a server's queue that cannot run here is not tried again within this time. */
#define IN_VAIN_NS 1000000ULL

static __always_inline __u64 queue_of_server(__u32 cpu, __u32 at)
{
	return SERVER_DSQ + server_number(cpu, at);
}

/*
 * The CPU on which a server is to run this thread: of several that with the fewest threads, and of those where it ran
 * last.
 */
static __noinline __u32 select_server_cpu(struct task_struct *p, __u32 slot)
{
	__u32 home = scx_bpf_task_cpu(p), best = NO_CPU, least = NO_CPU;
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		if (!serving_on(cpu)->servers || !is_cpu_allowed(p, cpu))
			continue;
		__u32 at = server_of(cpu, slot);

		if (at >= SERVERS)
			continue;
		__u32 threads = 2 * (scx_bpf_dsq_nr_queued(queue_of_server(cpu, at)) + (serving_on(cpu)->served == at + 1)) +
				(cpu != home);

		if (threads < least) {
			least = threads;
			best = cpu;
		}
	}
	return best;
}

/* The server's threads wait without a budget: reports that to the loader, once a period. */
static __always_inline void report_exhausted(struct server *s)
{
	if (s->reported_until == s->next_period)
		return;
	s->reported_until = s->next_period;
	__sync_fetch_and_add(&s->exhausted, 1);
	wake_loader();
}

/*
 * Do other threads have their turn here? Once it is over, the CPU does not always choose anew: a thread in the local
 * queue comes next, and must not have a turn that nothing ends.
 */
static __always_inline bool is_others_turn(const struct serving *v, __u64 now)
{
	return v->turn_until > now;
}

/* Does a server above the one that has the CPU have waiting threads and budget? */
GLOBAL_FUNC bool server_has_waiters(__u32 cpu, __u64 now)
{
	__u32 served, least = 0;
	int i;

	if (cpu >= MAX_CPUS || now < serving_on(cpu)->serve_at)
		return false;
	served = serving_on(cpu)->served;
	if (served)
		least = server_at(cpu, served - 1)->priority + 1;
	FOR(i, 0, serving_on(cpu)->servers) {
		__u32 at = i;

		if (at >= SERVERS)
			break;
		struct server *s = server_at(cpu, at);

		if (s->on && s->priority >= least && rule_server_has_budget(s, now) &&
		    scx_bpf_dsq_nr_queued(queue_of_server(cpu, at)))
			return true;
	}
	return false;
}

/* The thread's place in its server's queue, and what is left of its slice. */
static __always_inline void begin_turn(struct thread *t, __u32 slot, __u64 now)
{
	t->turn = now;
	t->slice_left = slice_of(t, slot);
}

/*
 * Enqueues the thread on its server: in the local queue where the server may have the CPU at once, else in the server's
 * queue. Returns false if there is no server for it. The rq lock of the CPU is held.
 */
static __noinline bool enqueue_on_server(struct task_struct *p, struct thread *t, __u32 cpu, bool migration_disabled,
					 __u64 enq_flags)
{
	if (!t || cpu >= MAX_CPUS)
		return false;
	__u32 slot = slot_of(p, t), home = cpu;

	t->served = 0;
	if (slot >= SYSTEM || !workload_of(slot)->servers)
		return false;
	__u32 at = server_of(cpu, slot);

	if (at >= SERVERS && !migration_disabled) {
		home = select_server_cpu(p, slot);
		at = server_of(home, slot);
	}
	if (at >= SERVERS || home >= MAX_CPUS || (p->flags & PF_EXITING)) {
		t->generation = 0;
		return false;
	}
	__u64 now = bpf_ktime_get_ns();
	struct serving *v = serving_on(home);
	struct server *s = server_at(home, at);
	bool has_budget = rule_server_has_budget(s, now);

	add_load(p, t, slot, now);
	/* A CPU may have taken it from its workload's queue, and lost it before it ran. */
	end_wait(p, t);
	t->was_runnable = 0;
	if (cpu_at(&shared, cpu)->kept == (__u32)p->pid)
		cpu_at(&shared, cpu)->kept = 0;
	if ((enq_flags & SCX_ENQ_WAKEUP) || !t->turn || t->slice_left < SHORTEST_NS)
		begin_turn(t, slot, now);
	t->served = server_number(home, at) + 1;
	bool is_free = !v->served || s->priority > server_at(home, v->served - 1)->priority;

	/*
	 * Only a wake-up: preempted threads that alternate in the local queue keep the CPU from choosing a higher
	 * server.
	 */
	if ((enq_flags & SCX_ENQ_WAKEUP) && home == cpu && has_budget && is_free && !is_others_turn(v, now) &&
	    !cpu_at(&shared, cpu)->away && !scx_bpf_dsq_nr_queued(queue_of_server(home, at))) {
		v->served = at + 1;
		v->comes = 1;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, t->slice_left, enq_flags | SCX_ENQ_PREEMPT);
		return true;
	}
	scx_bpf_dsq_insert_vtime(p, queue_of_server(home, at), t->slice_left, t->turn, enq_flags);
	if (home == cpu && !has_budget) {
		report_exhausted(s);
		if (s->next_period < v->waits_until)
			v->waits_until = s->next_period;
		if (!v->timer_at || s->next_period < v->timer_at)
			arm_bell(cpu, s->next_period);
	} else if (home != cpu || (is_free && !is_others_turn(v, now))) {
		scx_bpf_kick_cpu(home, SCX_KICK_PREEMPT);
	}
	return true;
}

/* Is the thread that ran here still runnable? */
static __always_inline bool is_still_runnable(struct task_struct *prev)
{
	return prev && (prev->scx.flags & SCX_TASK_QUEUED);
}

/*
 * The highest server of this CPU that has work and budget. `prev` is the one whose thread ran here and is still
 * runnable, plus one; 0: none. Refills budgets, and reports those that are exhausted.
 */
GLOBAL_FUNC __u32 pick_server(__u32 cpu, __u32 prev, __u64 now)
{
	__u32 best = NO_SERVER, highest = 0;
	__u64 waits_until = NEVER;
	int i;

	if (cpu >= MAX_CPUS)
		return NO_SERVER;
	/* With a fixed end: else 6.18's verifier follows what differs from turn to turn too far. */
	for (i = 0; i < SERVERS; i++) {
		__u32 at = i;
		struct server *s = server_at(cpu, at);

		if (!s->on || (prev != at + 1 && !scx_bpf_dsq_nr_queued(queue_of_server(cpu, at))))
			continue;
		if (!rule_server_left(s, now)) {
			report_exhausted(s);
			if (s->next_period < waits_until)
				waits_until = s->next_period;
		} else if (best == NO_SERVER || s->priority > highest) {
			best = at;
			highest = s->priority;
		}
	}
	serving_on(cpu)->waits_until = waits_until;
	return best;
}

/* The server's thread begins to run: sets the timer to the end of its budget, or to an earlier end. */
static __always_inline void arm_bell_for(__u32 cpu, __u32 at, __u64 now)
{
	__u64 ends = rule_server_ends(server_at(cpu, at), now), waits_until = serving_on(cpu)->waits_until;

	/* A time that is over was dealt with when this thread began to run. */
	arm_bell(cpu, ends < waits_until || waits_until <= now ? ends : waits_until);
}

/* The server has the CPU: its thread that ran here runs on, or the first of its queue is dispatched. */
static __always_inline bool dispatch_from_server(__u32 cpu, __u32 at, struct task_struct *prev, __u64 now)
{
	struct serving *v = serving_on(cpu);
	__u64 queue = queue_of_server(cpu, at);
	bool others_wait = scx_bpf_dsq_nr_queued(queue) > 0;

	if (is_still_runnable(prev)) {
		struct thread *t = thread_of(prev);

		if (t && t->served == server_number(cpu, at) + 1 && (t->slice_left >= SHORTEST_NS || !others_wait)) {
			if (t->slice_left < SHORTEST_NS)
				begin_turn(t, t->slot, now);
			prev->scx.slice = t->slice_left;
			v->served = at + 1;
			arm_bell_for(cpu, at, now);
			return true;
		}
	}
	if (others_wait && scx_bpf_dsq_move_to_local(queue)) {
		v->served = at + 1;
		v->comes = 1;
		return true;
	}
	v->serve_at = now + IN_VAIN_NS;
	return false;
}

/* The CPU chooses anew: no server has it. */
static __always_inline void stop_serving(__u32 cpu)
{
	struct serving *v = serving_on(cpu);

	v->served = v->comes = 0;
	v->turn_until = 0;
}

/* The thread begins to run, on a CPU that may have servers. */
static __always_inline void start_beside_servers(struct thread *t, __u32 cpu, __u64 now)
{
	struct serving *v = serving_on(cpu);
	__u32 number = t->served - 1;

	if (!v->servers)
		return;
	v->comes = 0;
	v->served = 0;
	if (t->served && number / SERVERS == cpu) {
		__u32 at = number % SERVERS;

		v->served = at + 1;
		rule_server_left(server_at(cpu, at), now);
		arm_bell_for(cpu, at, now);
	}
	/* It came while the CPU was choosing. */
	if (!is_others_turn(v, now) && server_has_waiters(cpu, now))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* What ran here stops. */
static __always_inline void stop_beside_servers(__u32 cpu)
{
	struct serving *v = serving_on(cpu);

	if (!v->comes)
		v->served = 0;
}

#endif
