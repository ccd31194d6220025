/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State for the kernel's dump, at an error exit and at SysRq-D.
 *
 * Problem: after that it is too late to see which thread waited in which queue.
 *
 * Rule: a line for all, for each workload that holds a CPU or has waiting threads, for each CPU, and for each
 * runnable thread; the kernel puts the last two below its own lines about the same CPU or thread.
 *
 * Callers: the operations `dump`, `dump_cpu` and `dump_task`.
 *
 * Limits: the kernel cuts the text at DUMP_BYTES. NO_SLOT is -1 and PARKED is -2; times are in ms, up to now.
 */
#ifndef QUELL_DUMP_H
#define QUELL_DUMP_H

#include "lib/state.h"

#define DUMP_BYTES 16384

static __always_inline __u64 ms_before(__u64 now, __u64 then)
{
	return then && (__s64)(now - then) > 0 ? (now - then) / 1000000 : 0;
}

GLOBAL_FUNC int dump_slot(__u32 slot)
{
	struct workload *w = workload_of(slot);

	if (w->held || has_waiters(w))
		scx_bpf_dump("slot %lld: lc=%llu leads=%llu held=%llu guaranteed=%llu burst=%llu limit=%lld waiting=%llu", slot,
			     w->lc, w->leads, w->held, w->guaranteed, w->burst, (__s32)w->limit, w->queued - w->taken);
	return 0;
}

void OP(grant_dump, struct scx_dump_ctx *context)
{
	int i;

	scx_bpf_dump("quell: slots=%llu unplaced=%llu", shared.nr_slots, shared.unplaced);
	FOR(i, 0, shared.nr_slots) {
		dump_slot(i);
	}
	dump_slot(SYSTEM);
}

#define AS_FORMAT(decision, name) " " name "=%llu"
#define AS_VALUE(decision, name) n[decision],
#define AS_NOTHING(decision, name)

void OP(grant_dump_cpu, struct scx_dump_ctx *context, __s32 cpu, bool idle)
{
	if (cpu < 0 || cpu >= MAX_CPUS)
		return;
	struct cpu *c = cpu_at(&shared, cpu);

	scx_bpf_dump("quell: holder=%lld runs=%lld away=%llu hog=%llu stays=%llu starving=%llu online=%llu",
		     (__s32)c->holder, (__s32)c->runs, c->away, c->hog, c->kept, c->starving, c->online);
	const __u64 *n = AT(counts, (__u32)cpu, MAX_CPUS)->of;

	scx_bpf_dump("quell:" EACH_DECISION(AS_FORMAT, AS_NOTHING), EACH_DECISION(AS_VALUE, AS_NOTHING));
}

void OP(grant_dump_task, struct scx_dump_ctx *context, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	__u64 now = bpf_ktime_get_ns();

	if (t)
		scx_bpf_dump("quell: slot=%llu waits_in=%lld for=%llums wants_for=%llums overdue=%llu group=%llu served=%lld",
			     t->slot, (__s32)t->waits_in - 1, t->waits_in ? ms_before(now, t->waits_since) : 0,
			     ms_before(now, t->runnable_since), t->overdue, t->group, (__s32)t->served - 1);
}

#endif
