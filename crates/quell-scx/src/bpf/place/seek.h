/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread that waits looks for a CPU.
 *
 * Problem: a thread that comes must neither wait beside a CPU that it may use, nor take one for nothing.
 *
 * Rule: in this order: a CPU by the workload's rules, which is kicked; else the loader is woken, if it may grant one.
 * A preempted thread takes a CPU without a holder on which nothing runs. The system's threads take idle CPUs, or
 * their turn where best-effort work runs.
 *
 * Callers: the operations `enqueue` and `select_cpu`; `hold/dispatch.h` for waiting threads while CPUs idle.
 *
 * Limits: a workload's threads search as in `place/look.h`; for the loop all CPUs are visited, in the order of their
 * numbers.
 */
#ifndef QUELL_SEEK_H
#define QUELL_SEEK_H

#include "hold/grace.h"
#include "hold/holders.h"
#include "queue/queues.h"

/* Claims an idle CPU for one of the system's threads, unless a ban parks it; -1: there is none. */
static __always_inline __s32 claim_idle_cpu(struct task_struct *p, __s32 first)
{
	__s32 cpu = first;

	if (first < 0 || !is_cpu_allowed(p, first) || !scx_bpf_test_and_clear_cpu_idle(first))
		cpu = pick_idle_cpu(p);
	return cpu >= 0 && !is_banned(&shared, cpu) ? cpu : -1;
}

/* Does a latency-critical thread run here? */
static __always_inline bool runs_lc(__u32 cpu)
{
	__u32 slot = cpu_at(&shared, cpu)->runs;

	return slot < SYSTEM && workload_of(slot)->lc;
}

static __always_inline bool is_held_by_lc(__u32 cpu)
{
	__u32 holder = cpu_at(&shared, cpu)->holder;

	return holder < SYSTEM && workload_of(holder)->lc;
}

/*
 * The kernel's own threads and the loop go before best-effort work; they wait for latency-critical work as all the
 * system.
 */
static __always_inline bool preempts_best_effort(struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) || is_loop(p);
}

/*
 * A thread of the system wakes up: the slice in ns for which it may run here at once, whatever runs; 0: none. A per-CPU
 * kernel thread is noted as coming. One that may run elsewhere does not come to a real-time thread's CPU, which is
 * yielded.
 */
static __always_inline __u64 claim_slice_at_once(struct task_struct *p, __u32 cpu, __u64 now)
{
	if (!preempts_best_effort(p) || SERVED(&shared, cpu) || (p->nr_cpus_allowed != 1 && yield_if_rt(cpu)))
		return 0;
	if (is_percpu_kthread(p) && (runs_lc(cpu) || is_held_by_lc(cpu))) {
		__u64 left = refill_upkeep(cpu, now);

		upkeep_on(cpu)->comes = left;
		return left;
	}
	return runs_lc(cpu) ? 0 : shared.be_slice_ns;
}

/* A CPU on which the thread may preempt best-effort work. CPUs of real-time threads that it finds are yielded. */
static __noinline __u32 find_best_effort_cpu(struct task_struct *p)
{
	int i;

	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		if (cpu_at(&shared, cpu)->runs < SYSTEM && !runs_lc(cpu) && is_cpu_allowed(p, cpu) &&
		    !yield_if_rt(cpu))
			return cpu;
	}
	return NO_CPU;
}

/*
 * A thread of the system waits: kicks an idle CPU, or, if it has just come, its last CPU where BE work runs and its
 * turn is due.
 */
static __always_inline void kick_cpu_for_system(struct task_struct *p, bool came, __u64 now)
{
	__s32 home = scx_bpf_task_cpu(p);
	__s32 cpu = claim_idle_cpu(p, home);

	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (!came || home < 0 || !is_cpu_allowed(p, home))
		return;
	/* A thread of the system is not preempted: each such preemption would cause the next one. */
	if (cpu_at(&shared, home)->runs < SYSTEM && !SERVED(&shared, home) && rule_system_turn(&shared, home, false, now, now))
		scx_bpf_kick_cpu(home, SCX_KICK_PREEMPT);
}

/* On its last CPU a thread of its own workload runs that is under cpu.idle: that one is preempted. */
static __always_inline void preempt_cpu_idle(struct task_struct *p, struct thread *t, __u32 slot)
{
	__u32 home = scx_bpf_task_cpu(p);

	if (group_at(t->group)->idle || home >= MAX_CPUS || !cpu_at(&shared, home)->runs_idle)
		return;
	if (cpu_at(&shared, home)->runs == slot && is_cpu_allowed(p, home))
		scx_bpf_kick_cpu(home, SCX_KICK_PREEMPT);
}

/*
 * A queue formed that the rules did not serve: may the loader grant a CPU? Not beyond the limit; and below the
 * guarantee it is no decision that is missing, but a CPU.
 */
static __always_inline bool loader_may_grant(__u32 slot)
{
	struct workload *w = workload_of(slot);

	return !w->on_wake_up || (w->held >= w->guaranteed && w->held >= w->burst && w->held < w->limit);
}

/* Best-effort work in line gets yielded CPUs without the loader, which asks for such news only now and then (CALM). */
static __always_inline bool should_wake_loader(struct workload *w)
{
	return w->lc || !w->in_line || !(shared.listening & CALM);
}

/*
 * A thread has come to wait: looks for a CPU for it. Where the system has its turn on the CPU that it got, it would
 * wait for the end of that: an idle CPU is taken as well. Returns true if its workload got a CPU.
 */
static __always_inline bool seek_cpu(struct task_struct *p, struct thread *t, __u32 slot, bool formed, __u64 now)
{
	preempt_cpu_idle(p, t, slot);
	if (slot == SYSTEM) {
		kick_cpu_for_system(p, true, now);
		return false;
	}
	__u32 cpu = take_cpu(p, slot);

	if (cpu < MAX_CPUS) {
		if (!begin_grace(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		if (cpu_at(&shared, cpu)->runs == SYSTEM)
			take_unheld_cpu(p, slot, NO_CPU);
		return true;
	}
	struct workload *w = workload_of(slot);

	if (cpu == TRIED)
		take_unheld_cpu(p, slot, NO_CPU);
	if (w->on_wake_up)
		count(REFUSED);
	if (w->lc) {
		__sync_fetch_and_add(&unserved, 1);
		if (w->held)
			w->crowded_at = now;
	}
	if (formed && loader_may_grant(slot) && should_wake_loader(w))
		wake_loader();
	return false;
}

#endif
