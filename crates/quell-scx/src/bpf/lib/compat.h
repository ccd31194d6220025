/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kfuncs of sched_ext that have other names, or other arguments, on other kernels.
 *
 * Problem: Linux 6.13 renamed what 6.12 called dispatch and consume; 6.19 has second versions of those that returned
 * nothing or had five arguments, and deprecates the first; 7.1 gave move_to_local flags. The second version of
 * reenqueue_local may be called anywhere, and takes the place of `cpu_release`, which goes.
 *
 * Rule: each form is declared by its name and its types, and is weak: a form that the running kernel lacks, or has
 * with other types, is zero, and the verifier drops the call. The present form is taken where the kernel has it, then
 * later ones, then that of 6.12. Tests choose another order by `prefers`. The part of a name after three underscores
 * is ours: libbpf leaves it out.
 *
 * Callers: included by `lib/kernel.h` alone; its functions are called by the kernel's names.
 *
 * Limits: a kernel that has none of the forms is refused by the loader (`kernel::missing`), which has the same table.
 */
#ifndef QUELL_COMPAT_H
#define QUELL_COMPAT_H

#define IF_THERE __ksym __weak

/* For tests, by the loader: the later forms, or the earliest, where the kernel has them beside the present ones. */
enum forms { PRESENT, LATER, EARLIEST };
const volatile __u32 prefers = PRESENT;

#define present(function) (prefers == PRESENT && bpf_ksym_exists(function))
#define later(function) (prefers != EARLIEST && bpf_ksym_exists(function))

struct scx_bpf_dsq_insert_vtime_args {
	__u64 dsq_id;
	__u64 slice;
	__u64 vtime;
	__u64 enq_flags;
};

void scx_bpf_dsq_insert___void(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) IF_THERE;
bool scx_bpf_dsq_insert___bool(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) IF_THERE;
bool scx_bpf_dsq_insert___v2___ours(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) IF_THERE;
void scx_bpf_dispatch___ours(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) IF_THERE;

static __always_inline void scx_bpf_dsq_insert(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags)
{
	if (present(scx_bpf_dsq_insert___void))
		scx_bpf_dsq_insert___void(p, queue, slice, flags);
	else if (later(scx_bpf_dsq_insert___v2___ours))
		scx_bpf_dsq_insert___v2___ours(p, queue, slice, flags);
	else if (later(scx_bpf_dsq_insert___bool))
		scx_bpf_dsq_insert___bool(p, queue, slice, flags);
	else
		scx_bpf_dispatch___ours(p, queue, slice, flags);
}

void scx_bpf_dsq_insert_vtime___five(struct task_struct *p, __u64 queue, __u64 slice, __u64 vtime, __u64 flags) IF_THERE;
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) IF_THERE;
void scx_bpf_dispatch_vtime___ours(struct task_struct *p, __u64 queue, __u64 slice, __u64 vtime, __u64 flags) IF_THERE;

static __always_inline void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 queue, __u64 slice, __u64 vtime,
						     __u64 flags)
{
	if (present(scx_bpf_dsq_insert_vtime___five)) {
		scx_bpf_dsq_insert_vtime___five(p, queue, slice, vtime, flags);
	} else if (later(__scx_bpf_dsq_insert_vtime)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = queue, .slice = slice, .vtime = vtime, .enq_flags = flags
		};

		__scx_bpf_dsq_insert_vtime(p, &args);
	} else {
		scx_bpf_dispatch_vtime___ours(p, queue, slice, vtime, flags);
	}
}

bool scx_bpf_dsq_move_to_local___one(__u64 queue) IF_THERE;
bool scx_bpf_dsq_move_to_local___two(__u64 queue, __u64 flags) IF_THERE;
bool scx_bpf_dsq_move_to_local___v2___ours(__u64 queue, __u64 flags) IF_THERE;
bool scx_bpf_consume___ours(__u64 queue) IF_THERE;

static __always_inline bool scx_bpf_dsq_move_to_local(__u64 queue)
{
	if (present(scx_bpf_dsq_move_to_local___one))
		return scx_bpf_dsq_move_to_local___one(queue);
	if (later(scx_bpf_dsq_move_to_local___v2___ours))
		return scx_bpf_dsq_move_to_local___v2___ours(queue, 0);
	if (later(scx_bpf_dsq_move_to_local___two))
		return scx_bpf_dsq_move_to_local___two(queue, 0);
	return scx_bpf_consume___ours(queue);
}

bool scx_bpf_dsq_move___ours(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 queue, __u64 flags) IF_THERE;
bool scx_bpf_dispatch_from_dsq___ours(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 queue, __u64 flags) IF_THERE;

#define scx_bpf_dsq_move(it, p, queue, flags)                                          \
	(later(scx_bpf_dsq_move___ours) ?                                    \
		 scx_bpf_dsq_move___ours(it, p, queue, flags) :                        \
		 scx_bpf_dispatch_from_dsq___ours(it, p, queue, flags))

bool scx_bpf_dsq_move_vtime___ours(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 queue, __u64 flags) IF_THERE;
bool scx_bpf_dispatch_vtime_from_dsq___ours(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 queue, __u64 flags)
	IF_THERE;

#define scx_bpf_dsq_move_vtime(it, p, queue, flags)                                    \
	(later(scx_bpf_dsq_move_vtime___ours) ?                              \
		 scx_bpf_dsq_move_vtime___ours(it, p, queue, flags) :                  \
		 scx_bpf_dispatch_vtime_from_dsq___ours(it, p, queue, flags))

void scx_bpf_dsq_move_set_vtime___ours(struct bpf_iter_scx_dsq *it, __u64 vtime) IF_THERE;
void scx_bpf_dispatch_from_dsq_set_vtime___ours(struct bpf_iter_scx_dsq *it, __u64 vtime) IF_THERE;

#define scx_bpf_dsq_move_set_vtime(it, vtime)                                          \
	({                                                                             \
		if (later(scx_bpf_dsq_move_set_vtime___ours))                \
			scx_bpf_dsq_move_set_vtime___ours(it, vtime);                  \
		else                                                                   \
			scx_bpf_dispatch_from_dsq_set_vtime___ours(it, vtime);         \
	})

void scx_bpf_dsq_move_set_slice___ours(struct bpf_iter_scx_dsq *it, __u64 slice) IF_THERE;
void scx_bpf_dispatch_from_dsq_set_slice___ours(struct bpf_iter_scx_dsq *it, __u64 slice) IF_THERE;

#define scx_bpf_dsq_move_set_slice(it, slice)                                          \
	({                                                                             \
		if (later(scx_bpf_dsq_move_set_slice___ours))                \
			scx_bpf_dsq_move_set_slice___ours(it, slice);                  \
		else                                                                   \
			scx_bpf_dispatch_from_dsq_set_slice___ours(it, slice);         \
	})

__u32 scx_bpf_reenqueue_local___count(void) IF_THERE;
void scx_bpf_reenqueue_local___v2___ours(void) IF_THERE;
void scx_bpf_reenqueue_local___void(void) IF_THERE;

/* In `cpu_release` only, where that is there. */
static __always_inline void scx_bpf_reenqueue_local(void)
{
	if (bpf_ksym_exists(scx_bpf_reenqueue_local___count))
		scx_bpf_reenqueue_local___count();
}

/* Anywhere. */
static __always_inline void reenqueue_local_later(void)
{
	if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___ours))
		scx_bpf_reenqueue_local___v2___ours();
	else if (bpf_ksym_exists(scx_bpf_reenqueue_local___void))
		scx_bpf_reenqueue_local___void();
}

struct task_struct *scx_bpf_cpu_curr___ours(__s32 cpu) IF_THERE;

/* Before Linux 6.18 the run queue is read. The caller reads it under RCU, or at its own risk: reads cannot fail. */
static __always_inline struct task_struct *scx_bpf_cpu_curr(__s32 cpu)
{
	if (bpf_ksym_exists(scx_bpf_cpu_curr___ours))
		return scx_bpf_cpu_curr___ours(cpu);
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	return rq ? rq->curr : NULL;
}

#endif
