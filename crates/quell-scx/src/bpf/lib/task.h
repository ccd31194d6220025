/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pointers in a thread's task_struct.
 *
 * Problem: wherever the verifier meets one that is read, it looks up by name whether it may be trusted, and goes
 * through all of the kernel's types for that, up to three times. Read wherever they are needed, they were half of the
 * time of loading.
 *
 * Rule: they are read in these functions, which the verifier checks once; or as plain numbers, which need no trust.
 *
 * Callers: all code that needs a thread's affinity, cgroup or another pointer.
 *
 * Limits: a call costs some instructions, and so does rcu_read_lock, which sleepable programs do not hold by
 * themselves.
 */
#ifndef QUELL_TASK_H
#define QUELL_TASK_H

#include "lib/kernel.h"

/* May the thread run on this CPU? False for a CPU that does not exist. */
GLOBAL_FUNC bool is_cpu_allowed(struct task_struct *p __arg_trusted, __u32 cpu)
{
	bpf_rcu_read_lock();
	bool may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);

	bpf_rcu_read_unlock();
	return may;
}

/* Claims an idle CPU that the thread may use, and clears its idle mark; negative: there is none. */
GLOBAL_FUNC __s32 pick_idle_cpu(struct task_struct *p __arg_trusted)
{
	bpf_rcu_read_lock();
	__s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	bpf_rcu_read_unlock();
	return cpu;
}

/* The number of its cgroup, which is its directory's inode. */
GLOBAL_FUNC __u64 cgroup_number_of(struct task_struct *p __arg_trusted)
{
	return p->cgroups->dfl_cgrp->kn->id;
}

/*
 * The task_struct as untrusted memory: its pointers are numbers, or are followed at one's own risk; a fault reads as
 * zero.
 */
static __always_inline const struct task_struct *untrusted(const struct task_struct *p)
{
	return bpf_rdonly_cast(p, bpf_core_type_id_kernel(struct task_struct));
}

#endif
