/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's interface: the fields that are read, found by name in the running kernel's BTF, and the kfuncs and
 * constants of sched_ext.
 *
 * Problem: the same object has to load on kernels with other fields, names and functions.
 *
 * Rule: fields are relocated by name when the program is loaded (CO-RE). A kfunc that some kernels lack is weak, and
 * tested for before it is called. Those that changed their names are in `lib/compat.h`.
 *
 * Callers: `lib/task.h` and `lib/state.h`, and through them every header.
 *
 * Limits: what BTF does not describe, as the meaning of a flag, is taken for constant.
 */
#ifndef QUELL_KERNEL_H
#define QUELL_KERNEL_H

#include <stdbool.h>
#include <linux/types.h>
/* Older installed headers lack this structure, newer ones have it: ours is taken in either case. */
#define bpf_iter_num bpf_iter_num_of_the_installed_headers
#include <linux/bpf.h>
#undef bpf_iter_num
struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define KEEP_NAMES __attribute__((preserve_access_index))

struct cpumask {
	unsigned long bits[1];
} KEEP_NAMES;

typedef struct {
	__u32 val;
} kuid_t;

struct kernfs_iattrs {
	kuid_t ia_uid;
} KEEP_NAMES;

struct kernfs_node {
	__u64 id;
	struct kernfs_iattrs *iattr; /* NULL: it is root's */
} KEEP_NAMES;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KEEP_NAMES;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} KEEP_NAMES;

struct css_set {
	struct cgroup *dfl_cgrp;
} KEEP_NAMES;

struct cfs_bandwidth {
	__s64 period;
	__u64 quota;
	__u64 burst;
} KEEP_NAMES;

/* A cgroup's cpu.weight, cpu.idle and cpu.max, which the kernel keeps whichever scheduler runs. */
struct task_group {
	struct cgroup_subsys_state css;
	int idle;
	unsigned long shares;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
} KEEP_NAMES;

struct sched_ext_entity {
	__u32 flags;
	__u32 weight;
	__u64 slice;
	__u64 dsq_vtime;
} KEEP_NAMES;

/* Of x86. */
struct thread_struct {
	unsigned long sp;
} KEEP_NAMES;

struct task_struct {
	int pid;
	unsigned int __state;
	unsigned int in_iowait : 1;
	struct thread_struct thread;
	char comm[16];
	unsigned int flags;
	int prio;
	unsigned int policy;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask; /* makes the type complete: a mere declaration does not match the kernel's functions */
	struct css_set *cgroups;
	struct task_group *sched_task_group;
	struct sched_ext_entity scx;
} KEEP_NAMES;

/* Does it wait for I/O? */
static __always_inline bool is_in_io(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, in_iowait);
}

#define STACK_BYTES 16384UL /* of the kernel's stack of a thread: stacks begin at multiples of it */

/* Bytes on the kernel stack of a thread that does not run; 0: unknown on this architecture. */
#define bytes_on_stack(p) \
	(bpf_core_field_exists((p)->thread.sp) ? STACK_BYTES - ((p)->thread.sp & (STACK_BYTES - 1)) : 0)

struct scx_init_task_args;
struct scx_cgroup_init_args;

struct scx_cpu_release_args {
	struct task_struct *task;
} KEEP_NAMES;

/* Of the numbers of one type some differ between kernels: these are found by name. */
enum scx_enq_flags___ours {
	SCX_ENQ_HEAD___ours = 1,
};

enum scx_exit_kind {
	EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	const char *msg;
	const char *dump;
} KEEP_NAMES;

struct scx_dump_ctx;

struct rt_rq {
	unsigned int rt_nr_running;
} KEEP_NAMES;

/* Of one CPU. */
struct rq {
	struct rt_rq rt;
	struct task_struct *curr;
	unsigned int core_enabled; /* where the kernel has core scheduling: does any thread have a cookie? */
} KEEP_NAMES;

extern const struct rq runqueues __ksym;

/* Does core scheduling apply to this CPU? */
static __always_inline bool is_scheduled_by_core(const struct rq *rq)
{
	return bpf_core_field_exists(rq->core_enabled) && rq->core_enabled;
}

struct socket_lock {
	int owned;
} KEEP_NAMES;

struct sock {
	struct socket_lock sk_lock;
	__u8 sk_shutdown;
} KEEP_NAMES;

struct tcp_sock {
	__u32 rcv_nxt;
	__u32 copied_seq;
} KEEP_NAMES;

enum pid_type {
	PIDTYPE_PID,
};

struct bpf_iter_scx_dsq {
	__u64 opaque[6];
} __attribute__((aligned(8)));

struct bpf_iter_task {
	__u64 opaque[3];
} __attribute__((aligned(8)));

/* The operations that are used, by the kernel's names. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags);
	void (*enqueue)(struct task_struct *p, __u64 enq_flags);
	void (*dispatch)(__s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, __u64 deq_flags);
	void (*update_idle)(__s32 cpu, bool idle);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpus);
	void (*cpu_release)(__s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(__s32 cpu);
	void (*cpu_offline)(__s32 cpu);
	__s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	__s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	void (*dump)(struct scx_dump_ctx *context);
	void (*dump_cpu)(struct scx_dump_ctx *context, __s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *context, struct task_struct *p);
	__u64 flags;
	__u32 timeout_ms;
	__u32 exit_dump_len;
	__u64 hotplug_seq;
	char name[128];
};

/* include/linux/sched/ext.h, kernel/sched/ext_internal.h: the same on every kernel with sched_ext. */
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DSQ_LOCAL_ON ((1ULL << 63) | (1ULL << 62))
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_HEAD bpf_core_enum_value(enum scx_enq_flags___ours, SCX_ENQ_HEAD___ours)
#define SCX_DEQ_SLEEP 1ULL
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_OPS_KEEP_BUILTIN_IDLE 1ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_ENQ_EXITING 4ULL
#define SCX_TASK_QUEUED 1U
#define MAX_RT_PRIO 100
#define SCHED_NORMAL 0
#define PF_EXITING 0x00000004U
#define PF_KTHREAD 0x00200000U
#define TASK_UNINTERRUPTIBLE 0x00000002U
#define TASK_NOLOAD 0x00000400U
#define BPF_TASK_ITER_ALL_THREADS 1
#define CLOCK_MONOTONIC 1
#define BPF_F_TIMER_ABS 1
#define BPF_F_TIMER_CPU_PIN 2
#define ENOMEM 12
#define EEXIST 17
#define RCV_SHUTDOWN 1
#define TCP_ESTABLISHED 1
#define TCP_CLOSE_WAIT 8

__s32 scx_bpf_create_dsq(__u64 dsq_id, __s32 node) __ksym;
__s32 scx_bpf_dsq_nr_queued(__u64 dsq_id) __ksym;
__s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus, __u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu) __ksym;
void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __ksym;
__s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
void scx_bpf_put_cpumask(const struct cpumask *cpus) __ksym;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *cpus) __ksym;
bool bpf_cpumask_empty(const struct cpumask *cpus) __ksym;
void scx_bpf_dump_bstr(char *format, unsigned long long *values, __u32 size) __ksym;
struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
void bpf_task_release(struct task_struct *p) __ksym __weak;
int bpf_send_signal_task(struct task_struct *p, int signal, enum pid_type to, __u64 value) __ksym __weak;
void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
bool bpf_cpumask_test_cpu(__u32 cpu, const struct cpumask *cpus) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, __u64 dsq_id, __u64 flags) __ksym __weak;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym __weak;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym __weak;
int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags) __ksym __weak;
struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym __weak;
void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym __weak;

#include "lib/compat.h"

/*
 * True until a loop has turned millions of times: with it in a loop's condition the verifier takes the loop for bounded,
 * at a tenth of an iterator's cost. The instruction is `may_goto` (Linux 6.9), written in numbers since not every compiler
 * knows it: its code, no registers, and the distance in instructions to where it may go.
 */
#define MAY_GOTO "0xe5"
#define can_loop                                                                          \
	({                                                                                \
		__label__ enough, settled;                                                \
		bool more = false;                                                        \
		asm volatile goto("0: .byte " MAY_GOTO ", 0\n"                            \
				  ".4byte ((%l0 - 0b) / 8 - 1) & 0xffff\n"              \
				  ".2byte 0"                                              \
				  : /* no outputs */                                      \
				  : /* no inputs */                                       \
				  : /* nothing clobbered */                               \
				  : enough);                                              \
		more = true;                                                              \
		goto settled;                                                             \
enough:                                                                                   \
settled:                                                                                  \
		more;                                                                     \
	})

/* Writes a line into the kernel's dump: numbers only. */
#define scx_bpf_dump(text, values...)                                           \
	({                                                                      \
		static char format_[] = text "\n";                              \
		unsigned long long values_[] = { values };                      \
		scx_bpf_dump_bstr(format_, values_, sizeof(values_));           \
	})

/* The user that owns the cgroup, by number. */
static __always_inline __u32 owner_of(struct cgroup *cgroup)
{
	struct kernfs_iattrs *attributes = BPF_CORE_READ(cgroup, kn, iattr);

	return attributes ? BPF_CORE_READ(attributes, ia_uid.val) : 0;
}

/* A global function: the verifier checks it once, for any arguments, and not once a call. */
#define GLOBAL_FUNC __noinline

/* A constant that the loader sets before the program is verified: the verifier drops the code that it turns off. */
#define SWITCH const volatile bool

#define OP(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define SLEEPABLE_OP(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

#endif
