/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Request clock of threads that do not sleep between two requests: it starts again when a system call gives the
 * thread something to work on.
 *
 * Problem: a busy thread reads its next request without sleeping, and no event of the scheduler shows it.
 *
 * Rule: the clock starts at the return, above zero, of a system call that can give a request. Attached only while a
 * policy asks for it; for a thread that wakes up it is not needed.
 *
 * Callers: the tracepoint sys_exit.
 *
 * Limits: x86-64 and arm64. A request that comes by shared memory, or by io_uring, is missed.
 */
#ifndef QUELL_REQUESTS_H
#define QUELL_REQUESTS_H

#include "hold/holders.h"

#define MAX_CALLS 512 /* numbers of system calls; a power of two */

/* The calls that may give a request when they return more than zero, as bits: the loader's. */
__u64 giving_calls[MAX_CALLS / 64];

struct pt_regs___x86 {
	unsigned long orig_ax;
} KEEP_NAMES;

struct pt_regs___arm64_call {
	int syscallno;
} KEEP_NAMES;

static __always_inline __u64 call_number(struct pt_regs *registers)
{
	struct pt_regs___x86 *x86 = (void *)registers;
	struct pt_regs___arm64_call *arm64 = (void *)registers;

	if (bpf_core_field_exists(x86->orig_ax))
		return BPF_CORE_READ(x86, orig_ax);
	if (bpf_core_field_exists(arm64->syscallno))
		return (__u32)BPF_CORE_READ(arm64, syscallno);
	return MAX_CALLS;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(request_given, struct pt_regs *registers, long result)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (result <= 0 || cpu >= MAX_CPUS)
		return 0;
	__u32 slot = cpu_at(&shared, cpu)->runs;

	if (slot >= SYSTEM || !workload_of(slot)->lc)
		return 0;
	__u64 call = call_number(registers);

	if (call >= MAX_CALLS || !(*AT(giving_calls, call / 64, MAX_CALLS / 64) >> (call % 64) & 1))
		return 0;
	struct thread *t = thread_of(bpf_get_current_task_btf());

	if (!t)
		return 0;
	t->request = bpf_ktime_get_ns();
	end_request(cpu);
	cpu_at(&shared, cpu)->request_start = t->request;
	return 0;
}

#endif
