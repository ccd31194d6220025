/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler uses of the kernel, as far as tests need it, in this process: in place of `kernel.h`. One thing
 * happens at a time. What other CPUs do in between, a test says with a hook: it is called once, at that place.
 */
#ifndef QUELL_KERNEL_H
#define QUELL_KERNEL_H

#include <stdbool.h>
#include <string.h>
#include <linux/types.h>

#define HOST_CPUS 8
#define HOST_THREADS 64
#define HOST_QUEUES 131072
#define HOST_ENTRIES 8192 /* of all maps */

#define SEC(name)
#define __noinline __attribute__((noinline))
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define barrier_var(i) __asm__ volatile("" : "+r"(i))
#define can_loop 1
#define GLOBAL_FUNC __noinline
#define __arg_trusted
#define SWITCH bool
#define BPF_F_TIMER_ABS 1
#define BPF_F_TIMER_CPU_PIN 2
#define OP(name, args...) name(args)
#define SLEEPABLE_OP(name, args...) name(args)

#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DSQ_LOCAL_ON ((1ULL << 63) | (1ULL << 62))
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_HEAD (1ULL << 4)
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
#define ENOMEM 12
#define EEXIST 17
#define PIDTYPE_PID 0
#define BPF_ANY 0
#define BPF_RB_FORCE_WAKEUP 2
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_F_NO_PREALLOC 1
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_TASK_STORAGE };
#define __uint(name, value) int (*name)[value]
#define __type(name, value) __typeof__(value) *name

struct cpumask {
	unsigned long bits[1];
};

struct kernfs_node {
	__u64 id;
	__u32 owner;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_group {
	struct cgroup_subsys_state css;
	int idle;
	unsigned long shares;
	struct task_group *parent;
	struct {
		__s64 period;
		__u64 quota;
		__u64 burst;
	} cfs_bandwidth;
};

struct task_struct {
	int pid;
	unsigned int __state;
	__u32 stack; /* bytes of the kernel's stack that are in use while it does not run */
	char comm[16];
	unsigned int flags;
	int prio;
	unsigned int policy;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	struct css_set *cgroups;
	struct task_group *sched_task_group;
	struct {
		__u32 flags;
		__u32 weight;
		__u64 slice;
		__u64 dsq_vtime;
	} scx;
	/* The tests' own. */
	__u32 cpu;
	__u64 queue; /* plus one; 0: in none */
	__s64 came;  /* the number of its last insertion; below zero: at the head */
	struct {
		__u64 queue, flags;
		bool is_due, timed;
	} direct; /* where it goes when the callback returns, if this kernel defers that */
	__u64 storage[64];
};

#define is_in_io(p) false
#define bytes_on_stack(p) ((p)->stack)

struct scx_init_task_args;
struct scx_cgroup_init_args;

struct scx_cpu_release_args {
	struct task_struct *task;
};

struct scx_exit_info {
	int kind;
	__s64 exit_code;
	const char *reason;
	const char *msg;
	const char *dump;
};

struct scx_dump_ctx;

struct rq {
	struct {
		unsigned int rt_nr_running;
	} rt;
	unsigned int core_enabled;
};

#define is_scheduled_by_core(rq) ((rq)->core_enabled)

struct bpf_timer {
	__u64 at;
};

struct sched_ext_ops {
	void *select_cpu, *enqueue, *dispatch, *running, *stopping, *quiescent, *update_idle, *set_cpumask, *cpu_release, *cpu_online,
		*cpu_offline, *init_task, *cgroup_init, *cgroup_exit, *init, *exit,
		*dump, *dump_cpu, *dump_task;
	__u64 flags, hotplug_seq;
	__u32 timeout_ms, exit_dump_len;
	char name[128];
};

/* Where a test may have something happen in between. */
enum place { AT_LOOK_FOR_REAL_TIME, AT_LOOK_AT_CURRENT, AT_TIMER_START, AT_INSERT, AT_MOVE, AT_CHOICE, PLACES };

static struct {
	__u64 now;
	__u32 here; /* the CPU on which the scheduler's code runs */
	struct task_struct thread[HOST_THREADS];
	struct task_struct *current, *runs[HOST_CPUS];
	struct rq rq[HOST_CPUS];
	__u64 idle, kicked, preempted, kicked_if_idle; /* CPUs, as bits */
	bool exists[HOST_QUEUES];
	/* Both errors to the kernel: a queue has threads by time and in the order of coming; a queue that there is not. */
	bool mixed, missing;
	__s64 came, came_first;
	void (*hook[PLACES])(void);
	void (*between)(enum place); /* at each place, every time */
	void (*reenqueue_local)(void);
	bool defers; /* a thread is in its queue only when the callback that put it there has returned, as in the kernel */
	struct {
		void *map;
		__u64 key, value[4];
	} entry[HOST_ENTRIES];
	__u32 entries;
	__u64 told; /* how often the loader was woken up */
} host;

static struct rq runqueues;

static void passes(enum place place)
{
	void (*hook)(void) = host.hook[place];

	host.hook[place] = NULL;
	if (hook)
		hook();
	if (host.between)
		host.between(place);
}

/* Reading the kernel's memory. */
#define bpf_rdonly_cast(address, type) ((void *)(address))
#define bpf_core_type_id_kernel(type) 0
#define READ_OF_1(from, a) ((from)->a)
#define READ_OF_2(from, a, b) ((from)->a->b)
#define READ_OF(from, a, b, which, ...) which
#define BPF_CORE_READ(from, ...) READ_OF(from, ##__VA_ARGS__, READ_OF_2, READ_OF_1)(from, __VA_ARGS__)
#define BPF_CORE_READ_INTO(to, from, ...) (*(to) = (__u64)BPF_CORE_READ(from, __VA_ARGS__))
static __u32 owner_of(const struct cgroup *cgroup)
{
	return cgroup->kn ? cgroup->kn->owner : 0;
}
#define bpf_probe_read_kernel(to, size, from) (memcpy(to, from, size), 0)
#define bpf_get_prandom_u32() 0x9e3779b9U
#define bpf_probe_read_kernel_str(to, size, from) strncpy(to, from, (size) - 1)
#define bpf_per_cpu_ptr(variable, cpu) ((void)(variable), passes(AT_LOOK_FOR_REAL_TIME), &host.rq[(cpu) % HOST_CPUS])
#define bpf_ksym_exists(function) 1
#define bpf_rcu_read_lock() ((void)0)
#define bpf_rcu_read_unlock() ((void)0)
#define bpf_for(i, from, to) for ((i) = (from); (i) < (int)(to); (i)++)
#define bpf_ktime_get_ns() (host.now)
#define bpf_get_smp_processor_id() (host.here)
#define bpf_get_current_task_btf() (host.current)
#define bpf_cpumask_test_cpu(cpu, cpus) ((cpus)->bits[0] >> (cpu) & 1)

/* Maps: entries by map and key. */
static void *entry_of(void *map, __u64 key, bool create)
{
	for (__u32 i = 0; i < host.entries; i++)
		if (host.entry[i].map == map && host.entry[i].key == key)
			return host.entry[i].value;
	if (!create || host.entries >= HOST_ENTRIES)
		return NULL;
	memset(&host.entry[host.entries], 0, sizeof(host.entry[0]));
	host.entry[host.entries].map = map;
	host.entry[host.entries].key = key;
	return host.entry[host.entries++].value;
}
#define bpf_map_lookup_elem(map_, key_)                                                       \
	((__typeof__((map_)->value))entry_of(map_, *(key_), sizeof(*(map_)->type) == 4 * BPF_MAP_TYPE_ARRAY))
#define bpf_map_update_elem(map_, key_, value_, flags) memcpy(entry_of(map_, *(key_), true), value_, sizeof(*(value_)))
#define bpf_map_delete_elem(map_, key_) delete_entry(map_, *(key_))
static void delete_entry(void *map, __u64 key)
{
	for (__u32 i = 0; i < host.entries; i++)
		if (host.entry[i].map == map && host.entry[i].key == key)
			host.entry[i] = host.entry[--host.entries];
}
#define bpf_task_storage_get(map_, p, initial, flags) ((__typeof__((map_)->value))(p)->storage)
#define bpf_ringbuf_output(ring, data, size, flags) ((void)(data), host.told++)

/* Timers. */
#define bpf_timer_init(timer, map, clock) ((void)(timer))
#define bpf_timer_set_callback(timer, callback) ((void)(timer))
#define bpf_timer_start(timer, in, flags) timer_start(timer, (flags) & BPF_F_TIMER_ABS ? (in) - host.now : (in))
static int timer_start(struct bpf_timer *timer, __u64 in)
{
	passes(AT_TIMER_START);
	timer->at = host.now + in;
	return 0;
}

/* Nothing reads a dump. */
#define scx_bpf_dump(text, values...) ((void)(text))

/* Signals: nobody gets one. */
#define bpf_task_from_pid(pid) ((pid) > 0 && (pid) <= HOST_THREADS ? &host.thread[(pid) - 1] : NULL)
#define bpf_task_release(p) ((void)(p))
#define bpf_send_signal_task(p, signal, to, value) 1

/* Queues. A thread knows in which one it is. */
#define LOCAL_OF(cpu) (HOST_QUEUES + (cpu))

static __u64 queue_number(struct task_struct *p, __u64 id)
{
	if (id == SCX_DSQ_LOCAL)
		return LOCAL_OF(p->cpu);
	return id & SCX_DSQ_LOCAL_ON ? LOCAL_OF(id & 0xff) : id;
}

/* Was the thread put where it is by virtual time? */
static bool by_time[HOST_THREADS];

/* At the head, as the kernel does with a thread that preempts; else at the end. */
static void put_at(struct task_struct *p, __u64 id, bool timed, bool at_head)
{
	__u64 queue = queue_number(p, id);

	for (int i = 0; i < HOST_THREADS; i++)
		if (queue < HOST_QUEUES && host.thread[i].queue == queue + 1 && &host.thread[i] != p && by_time[i] != timed)
			host.mixed = true;
	host.missing |= queue < HOST_QUEUES && !host.exists[queue];
	p->queue = queue + 1;
	p->came = at_head ? --host.came_first : ++host.came;
	by_time[p - host.thread] = timed;
}

static void put(struct task_struct *p, __u64 id, bool timed)
{
	put_at(p, id, timed, false);
}

/* The first thread of the queue that is not among those seen, and may run on this CPU, if one is named. */
static struct task_struct *first_of(__u64 queue, const bool *seen, __u32 cpu)
{
	struct task_struct *first = NULL;

	for (int i = 0; i < HOST_THREADS; i++) {
		struct task_struct *p = &host.thread[i];

		if (p->queue != queue + 1 || (seen && seen[i]) || (cpu < HOST_CPUS && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
			continue;
		__s64 sooner = first && by_time[i] ? (__s64)(p->scx.dsq_vtime - first->scx.dsq_vtime) : 0;

		if (!first || sooner < 0 || (!sooner && p->came < first->came))
			first = p;
	}
	return first;
}

static void insert_into(struct task_struct *p, __u64 id, __u64 flags, bool timed)
{
	passes(AT_INSERT);
	if (!host.defers) {
		put(p, id, timed);
		return;
	}
	p->direct.queue = id;
	p->direct.flags = flags;
	p->direct.timed = timed;
	p->direct.is_due = true;
}

static void scx_bpf_dsq_insert(struct task_struct *p, __u64 id, __u64 slice, __u64 flags)
{
	p->scx.slice = slice;
	insert_into(p, id, flags, false);
}

static void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 id, __u64 slice, __u64 vtime, __u64 flags)
{
	p->scx.slice = slice;
	p->scx.dsq_vtime = vtime;
	insert_into(p, id, flags, true);
}

static bool scx_bpf_dsq_move_to_local(__u64 id)
{
	struct task_struct *p = first_of(id, NULL, host.here);

	if (!p)
		return false;
	/* The kernel gives the lock of this CPU away for a moment, to have that of the other one. */
	if (p->cpu != host.here)
		passes(AT_MOVE);
	if (p->queue != id + 1)
		return false;
	p->cpu = host.here;
	put(p, SCX_DSQ_LOCAL, false);
	return true;
}

static __s32 scx_bpf_dsq_nr_queued(__u64 id)
{
	__u64 queue = id == SCX_DSQ_LOCAL ? (__u64)LOCAL_OF(host.here) : id;
	__s32 queued = 0;

	for (int i = 0; i < HOST_THREADS; i++)
		queued += host.thread[i].queue == queue + 1;
	return queued;
}

static __s32 scx_bpf_create_dsq(__u64 id, __s32 node)
{
	(void)node;
	if (id >= HOST_QUEUES)
		return -ENOMEM;
	if (host.exists[id])
		return -EEXIST;
	host.exists[id] = true;
	return 0;
}

/* The threads that were in the queue when the iteration began, in its order. */
struct bpf_iter {
	struct task_struct *thread[HOST_THREADS];
	__u64 queue, vtime, slice;
	__s64 began;
	__u32 next, last;
};

static struct bpf_iter iterate_scx_dsq(__u64 id, __u64 flags)
{
	struct bpf_iter it = { .queue = id, .began = host.came };
	bool seen[HOST_THREADS] = { false };

	(void)flags;
	for (struct task_struct *p; (p = first_of(id, seen, HOST_CPUS)); it.thread[it.last++] = p)
		seen[p - host.thread] = true;
	return it;
}

static struct bpf_iter iterate_task(void *task, __u64 flags)
{
	struct bpf_iter it = { .queue = ~0ULL, .began = host.came };

	(void)task;
	(void)flags;
	for (int i = 0; i < HOST_THREADS; i++)
		if (host.thread[i].pid)
			it.thread[it.last++] = &host.thread[i];
	return it;
}

static struct task_struct *next_of(struct bpf_iter *it)
{
	while (it->next < it->last) {
		struct task_struct *p = it->thread[it->next++];

		if (it->queue == ~0ULL || (p->queue == it->queue + 1 && p->came <= it->began))
			return p;
	}
	return NULL;
}
#define bpf_for_each(kind, p, args...) for (struct bpf_iter ___it = iterate_##kind(args); ((p) = next_of(&___it));)

static void scx_bpf_kick_cpu(__s32 cpu, __u64 flags);

static bool scx_bpf_dsq_move(struct bpf_iter *it, struct task_struct *p, __u64 id, __u64 flags)
{
	__u64 slice = it->slice;

	it->slice = 0;
	if (p->queue != it->queue + 1)
		return false;
	if (slice)
		p->scx.slice = slice;
	if (id == SCX_DSQ_LOCAL)
		p->cpu = host.here;
	put_at(p, id, false, flags & SCX_ENQ_PREEMPT);
	if (flags & SCX_ENQ_PREEMPT)
		scx_bpf_kick_cpu(id & 0xff, SCX_KICK_PREEMPT);
	return true;
}

static void scx_bpf_dsq_move_set_slice(struct bpf_iter *it, __u64 slice)
{
	it->slice = slice;
}

static void scx_bpf_dsq_move_set_vtime(struct bpf_iter *it, __u64 vtime)
{
	it->vtime = vtime;
}

static bool scx_bpf_dsq_move_vtime(struct bpf_iter *it, struct task_struct *p, __u64 id, __u64 flags)
{
	(void)flags;
	if (p->queue != it->queue + 1)
		return false;
	p->scx.dsq_vtime = it->vtime;
	put(p, id, true);
	return true;
}

/* CPUs. */
static __s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus, __u64 flags)
{
	(void)flags;
	for (int cpu = 0; cpu < HOST_CPUS; cpu++) {
		if (host.idle >> cpu & 1 & cpus->bits[0] >> cpu) {
			host.idle &= ~(1ULL << cpu);
			return cpu;
		}
	}
	return -1;
}

static bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu)
{
	bool was = host.idle >> cpu & 1;

	host.idle &= ~(1ULL << cpu);
	return was;
}

static struct task_struct *scx_bpf_cpu_curr(__s32 cpu)
{
	passes(AT_LOOK_AT_CURRENT);
	return host.runs[cpu % HOST_CPUS];
}

static void scx_bpf_kick_cpu(__s32 cpu, __u64 flags)
{
	if (flags & SCX_KICK_IDLE)
		host.kicked_if_idle |= 1ULL << cpu;
	else
		host.kicked |= 1ULL << cpu;
	if (flags & SCX_KICK_PREEMPT)
		host.preempted |= 1ULL << cpu;
}

static __s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return p->cpu;
}

/* Here a CPU is gone at once. */
static const struct cpumask *scx_bpf_get_online_cpumask(void)
{
	static const struct cpumask none;

	return &none;
}

static void scx_bpf_put_cpumask(const struct cpumask *cpus)
{
	(void)cpus;
}

static const struct cpumask *scx_bpf_get_idle_cpumask(void)
{
	static struct cpumask idle;

	idle.bits[0] = host.idle;
	return &idle;
}

static void scx_bpf_put_idle_cpumask(const struct cpumask *cpus)
{
	(void)cpus;
}

static bool bpf_cpumask_empty(const struct cpumask *cpus)
{
	return !cpus->bits[0];
}

#define BPF_PROG(name, args...) name(args)
#define reenqueue_local_later() scx_bpf_reenqueue_local()
static __u32 scx_bpf_reenqueue_local(void)
{
	if (host.reenqueue_local)
		host.reenqueue_local();
	return 0;
}

#endif
