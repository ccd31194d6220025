/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What both programs read of a task. */
#ifndef QUELL_TASK_H
#define QUELL_TASK_H

/* The few fields that are read, by name: they are found in the running kernel's type information. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct thread_info {
	__u32 cpu;
	__u64 preempt_count; /* arm64 */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int cpu; /* before 5.16 */
	unsigned int __state;
	unsigned int on_cpu; /* a byte in later kernels: of unsigned fields the size is adjusted */
	unsigned int on_rq;
	int pid;
	struct task_struct *group_leader;
	char comm[16];
};

struct bpf_iter__task {
	struct task_struct *task;
};
#pragma clang attribute pop

#define MAX_CPUS 1024

static __u32 cpu_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return task->cpu;
}

#endif
