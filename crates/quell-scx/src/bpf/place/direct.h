/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread that wakes up is put onto its CPU where that is chosen, and not only when it comes there.
 *
 * Problem: a wake-up that goes through `enqueue` costs one callback more, and looks at the CPU twice.
 *
 * Rule: `select_cpu` takes the CPU for the thread's workload, by compare-and-swap of the holder, and inserts the thread there. A
 * latency-critical one preempts what runs there. A best-effort one goes to an idle CPU alone, and preempts no thread: by
 * the time it comes, a latency-critical one may run there. `running` looks at the holder again, for the CPU may have been yielded or taken
 * in between: it is given to the thread's workload if it has none, else it decides anew.
 *
 * Limits: the kernel's lock of the CPU is not held yet. So it stays `enqueue`'s where the CPU may have servers, whose budgets
 * a mistake would cost, and where what runs there has a grace, which a thread that comes later would not wait for. A real-time thread that
 * takes the CPU in between is not seen, and the kernel does not give the thread back from behind it: the patrol has the loader
 * fetch it, after 50 to 100 ms, and the loader can fetch normal threads only.
 */
#ifndef QUELL_DIRECT_H
#define QUELL_DIRECT_H

#include "hold/keep.h"

struct sent {
	__u32 pid; /* the thread that was sent to this CPU last and has not run there yet; 0: none */
} __attribute__((aligned(64)));

struct sent sents[MAX_CPUS];

#define sent_to(cpu) AT(sents, cpu, MAX_CPUS)

/* It goes to this CPU, and is in no queue of ours. */
static __always_inline void direct_dispatch(struct task_struct *p, struct thread *t, __u32 slot, __u32 cpu, __u64 flags)
{
	t->woke = 1;
	sent_to(cpu)->pid = p->pid;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t, slot), flags);
}

/* It runs. Was it sent here? */
static __always_inline bool test_and_clear_sent(struct task_struct *p, __u32 cpu)
{
	struct sent *sent = sent_to(cpu);
	bool was_sent = sent->pid == (__u32)p->pid;

	if (was_sent)
		sent->pid = 0;
	return was_sent;
}

/* A thread that wakes up takes the CPU that was chosen for it, if that is sound before it comes there. */
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
		/* It is to count as idle again. */
		if (is_idle)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return false;
	}
	direct_dispatch(p, t, slot, cpu, w->lc ? SCX_ENQ_PREEMPT : 0);
	return true;
}

/* Has a latency-critical thread been sent here that is to run next? */
static __always_inline bool is_lc_pending(__u32 cpu)
{
	return sent_to(cpu)->pid && is_held_by_lc(cpu) && !runs_lc(cpu);
}

/* A real-time thread took the CPU before the thread came there: the loader has the kernel enqueue it anew. */
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
