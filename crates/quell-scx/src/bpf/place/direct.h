/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Direct dispatch: a thread that wakes up is inserted into its CPU's local queue in `select_cpu`.
 *
 * Problem: a wake-up that goes through `enqueue` costs one callback more, and examines the CPU twice.
 *
 * Rule: `select_cpu` takes the CPU for the thread's workload, by compare-and-swap of the holder, and inserts the
 * thread there. A latency-critical one preempts what runs there. A best-effort one goes to an idle CPU only, and
 * preempts nothing: by the time it comes, a latency-critical one may run there. `running` compares the holder again,
 * since the CPU may have been yielded or taken in between: the thread's workload takes it if it has none, else the
 * CPU is kicked.
 *
 * Callers: the operations `select_cpu` and `running`; `tend/patrol.h` (`fetch_sent_thread`).
 *
 * Limits: the rq lock of the CPU is not held yet. So `enqueue` does it where the CPU may have servers, whose budgets
 * a mistake would cost, and where what runs there has a grace, for which a thread that comes later would not wait. A
 * real-time thread that takes the CPU in between is not noticed, and the kernel does not give the thread back from
 * behind it: the patrol has the loader fetch it, after 50 to 100 ms, and the loader can fetch normal threads only.
 */
#ifndef QUELL_DIRECT_H
#define QUELL_DIRECT_H

#include "hold/keep.h"

struct sent {
	__u32 pid; /* the thread that was sent to this CPU last and has not run there yet; 0: none */
} __attribute__((aligned(64)));

struct sent sents[MAX_CPUS];

#define sent_to(cpu) AT(sents, cpu, MAX_CPUS)

/* Inserts the thread into the CPU's local queue. */
static __always_inline void direct_dispatch(struct task_struct *p, struct thread *t, __u32 slot, __u32 cpu, __u64 flags)
{
	t->woke = 1;
	sent_to(cpu)->pid = p->pid;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t, slot), flags);
}

/* The thread runs: was it dispatched here directly? */
static __always_inline bool test_and_clear_sent(struct task_struct *p, __u32 cpu)
{
	struct sent *sent = sent_to(cpu);
	bool was_sent = sent->pid == (__u32)p->pid;

	if (was_sent)
		sent->pid = 0;
	return was_sent;
}

/*
 * Takes the CPU that was chosen for a thread that wakes up and dispatches it there, where that is safe without the rq
 * lock.
 */
static __always_inline bool try_direct_dispatch(struct task_struct *p, struct thread *t, __u32 slot, __u32 cpu)
{
	struct workload *w = workload_of(slot);
	__u32 runs = cpu_at(&shared, cpu)->runs;

	if (servers_on || p->policy != SCHED_NORMAL || (runs < SYSTEM && workload_of(runs)->grace_ns) || yield_if_rt(cpu))
		return false;
	bool is_idle = runs == NO_SLOT && scx_bpf_test_and_clear_cpu_idle(cpu);

	if (!w->lc && !is_idle)
		return false;
	if (!try_take_cpu(cpu, slot)) {
		/* It has to be marked idle again. */
		if (is_idle)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return false;
	}
	direct_dispatch(p, t, slot, cpu, w->lc ? SCX_ENQ_PREEMPT : 0);
	return true;
}

/* Was a latency-critical thread dispatched here that has not begun to run? */
static __always_inline bool is_lc_pending(__u32 cpu)
{
	return sent_to(cpu)->pid && is_held_by_lc(cpu) && !runs_lc(cpu);
}

/* A real-time thread took the CPU before the dispatched thread ran there: the loader has the kernel enqueue it anew. */
static __always_inline void fetch_sent_thread(__u32 cpu, __u64 now)
{
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 pid = sent_to(cpu)->pid;

	if (!pid || c->fetch || !c->away || !has_elapsed(c->away_since, now, shared.be_slice_ns))
		return;
	sent_to(cpu)->pid = 0;
	request_fetch(cpu, pid);
}

#endif
