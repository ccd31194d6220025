/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Grace: a signal to a thread before it loses its CPU.
 *
 * Problem: a runtime that is preempted while it holds a lock stops all its other threads.
 *
 * Rule: the signal of the workload's `grace` is sent to the thread that runs, and a timer preempts it after the grace
 * unless it yields before. The CPU is handed over at once: the new holder's thread comes next.
 *
 * Callers: `begin_grace` in place of a kick or of SCX_ENQ_PREEMPT: `place/seek.h`, the operation `enqueue`,
 * `kick_cpus`.
 *
 * Limits: kernels without `bpf_send_signal_task` (before 6.13) give no grace.
 */
#ifndef QUELL_GRACE_H
#define QUELL_GRACE_H

#include "lib/state.h"

struct notice {
	struct bpf_timer timer;
};

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, __u32);
	__type(value, struct notice);
} notices SEC(".maps");

static int end_grace(void *map, __u32 *key, struct notice *notice)
{
	__u32 cpu = *key;

	if (cpu < MAX_CPUS && __sync_lock_test_and_set(&cpu_at(&shared, cpu)->leaving, 0))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

static __always_inline bool send_signal(__u32 tid, __u32 signal)
{
	if (!bpf_ksym_exists(bpf_send_signal_task))
		return false;
	struct task_struct *p = bpf_task_from_pid(tid);

	if (!p)
		return false;
	int error = bpf_send_signal_task(p, signal, PIDTYPE_PID, 0);

	bpf_task_release(p);
	return !error;
}

GLOBAL_FUNC bool send_grace_signal(__u32 cpu, __u32 slot)
{
	if (cpu >= MAX_CPUS)
		return false;
	if (cpu_at(&shared, cpu)->leaving)
		return true;
	struct notice *notice = bpf_map_lookup_elem(&notices, &cpu);

	if (!notice || !send_signal(cpu_at(&shared, cpu)->tid, workload_of(slot)->grace_signal))
		return false;
	cpu_at(&shared, cpu)->leaving = 1;
	return !bpf_timer_start(&notice->timer, workload_of(slot)->grace_ns, 0);
}

/* Begins the grace of the thread that runs here. Returns false if it has none: then the caller preempts it at once. */
static __always_inline bool begin_grace(__u32 cpu)
{
	__u32 slot = cpu_at(&shared, cpu)->runs;

	return slot < SYSTEM && workload_of(slot)->grace_ns && send_grace_signal(cpu, slot);
}

/* The kernel does not initialise a timer twice. */
static __always_inline void init_notice(__u32 cpu)
{
	struct notice *notice = bpf_map_lookup_elem(&notices, &cpu);

	if (!notice)
		return;
	bpf_timer_init(&notice->timer, &notices, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&notice->timer, end_grace);
}

static __always_inline void init_notices(void)
{
	int i;

	bpf_for(i, 0, shared.nr_cpus)
		init_notice(i);
}

#endif
