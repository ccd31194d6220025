/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of the scheduler: switches, the shared memory, the record of each thread.
 *
 * Problem: each event has to find the records of its thread and of its CPU, without a lock.
 *
 * Rule: a thread's record lives and dies with the thread (task storage); those of CPUs and workloads are elements of
 * arrays. Indices are masked where they are used, so that the verifier sees them within their table.
 *
 * Callers: every header of the BPF program.
 *
 * Limits: an index beyond an array is masked into it: callers compare first.
 */
#ifndef QUELL_STATE_H
#define QUELL_STATE_H

#include "lib/kernel.h"
#include "lib/grant.h"
#include "lib/task.h"

/* Are there servers? */
SWITCH servers_on;
/* Do workloads hold CPUs as one? */
SWITCH together_on;
/* Are there several last-level caches? */
SWITCH caches_on;

/* Are there more than a few CPUs, so that sets of them are kept? */
SWITCH sets_on;

/* A runnable thread is overdue after this: half of the time after which the kernel's watchdog ends the scheduler. */
const volatile __u64 overdue_ns = 15000000000ULL;

#include "place/look.h"
#include "serve/budget.h"
#include "lib/counts.h"

/* Zero at first; the loader fills its part in before the scheduler starts. */
struct shared shared;

GLOBAL_FUNC __u32 cpu_kind(__u32 cpu)
{
	return rule_kind(&shared, cpu);
}

GLOBAL_FUNC int leave_cpu_kind(__u32 kind, __u32 cpu)
{
	rule_leave_kind(&shared, kind, cpu);
	return 0;
}

GLOBAL_FUNC __u32 cpu_fit(__u32 cpu, __u32 slot)
{
	return rule_fit(&shared, cpu, slot);
}

/* Does a real-time thread have the CPU, or get it at the CPU's next choice? */
static __always_inline bool has_rt_task(__u32 cpu)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	return rq && rq->rt.rt_nr_running;
}

GLOBAL_FUNC __u32 cpu_fit_from(struct look *look, __u32 cpu)
{
	return look ? rule_fit_from(&shared, look, cpu) : UNFIT_FROM;
}

GLOBAL_FUNC __u32 find_in_place(struct look *look, __u32 kind, __u32 in, __u32 but)
{
	return look ? rule_in_place(&shared, look, kind, in, but) : NO_CPU;
}

/* The CPU's holder or state has changed: its kind and its siblings' are updated. */
GLOBAL_FUNC int update_core_kinds(__u32 cpu)
{
	rule_update_core_kinds(&shared, cpu);
	return 0;
}

GLOBAL_FUNC int add_waiting_slot(__u32 slot)
{
	mark_slot_waiting(&shared, slot);
	return 0;
}

/* From a cgroup's number to its workload's slot: the loader's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Wakes a loader that listens. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakeups SEC(".maps");

struct thread {
	__u64 cgroup;     /* as of the last lookup */
	__u32 generation; /* of the table of cgroups, as of the last lookup; 0: none yet, or it may have moved */
	__u32 slot;
	__u32 waits_in;   /* the number of the queue in which it waits, plus one (`queue/bound.h`); 0: none */
	__u32 chosen;     /* the CPU that was chosen for it when it woke up, plus one, until it comes there */
	__u32 woke;       /* did it wake up since it ran last? */
	__u32 was_runnable;    /* was it still runnable when it stopped? */
	__u32 stopped_on; /* the CPU where it stopped last and may be kept, plus one; 0: it may not, or is in a queue again */
	__u32 overdue;    /* has it waited for `overdue_ns`? It has its turn then, whatever its share and quota */
	__u64 waits_since; /* since when it waits in that queue */
	__u64 runnable_since; /* since when it is runnable and does not run; 0: it runs or sleeps */
	__u64 ran_at;     /* until when its run time is accounted for */
	__u64 slice_left; /* ns, of the slice that it was given last, as of then */
	__u64 request;    /* when it began what it works on: it ran first after it woke up, or was given it by a system call */
	__u64 vtime;
	__u64 vtime_of;   /* the number of the queue by whose clock that is, plus one */
	__u64 unpriced;   /* ns that it ran and that are not in its virtual time yet */

	__u32 served;     /* the server for which it waits or runs, counted over all CPUs, plus one; 0: none */
	__u32 unserved;   /* its workload has servers, but none for it: it is the system's */
	__u64 turn;       /* its place in the server's queue: when its turn of a slice began to be due; 0: it sleeps */

	__u64 tg;         /* the address of its task_group, as of the last lookup */
	__u32 groups_generation;
	__u32 group;      /* its place */
	__u64 counted_in; /* the cgroup in whose load it is counted */
	__u32 counted_at; /* the place of that */
	__s32 counted;    /* with this weight; 0: it is not */

	__u32 member;     /* its own workload's slot, where another one leads */
	__u32 own_weight; /* given by the loader; 0: none */
	__u64 latency;    /* likewise, ns */
	__u32 first;      /* is it first in its queue because it overtakes another one? */

	__u64 blocked_since; /* when it began to sleep without being interruptible, last */
	__u32 boosted;         /* does it run because it was preempted in the kernel? (`tend/boost.h`) */

	/* Where workloads hold CPUs as one by progress (`queue/edges.h`). */
	__u32 waker;      /* the thread of its workload that woke it last, by number; 0: none has */
	__u32 sleeps_on;  /* the thread on which it sleeps, by number; 0: none */
	__s32 sleepers;   /* threads that sleep on it */
	__u64 blocks;     /* what it added to its service's `blocked`, and which service that is */

	__u64 mask; /* the number of the set of CPUs that it may use; 0: all */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

static __always_inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, 0);
}

/* Is it the loop, the loader's thread that decides? */
static __always_inline bool is_loop(struct task_struct *p)
{
	return p->pid == (__s32)shared.loops_thread;
}

/* The loop polls where it is bound to a CPU of its own. */
static __always_inline bool is_polling_loop(struct task_struct *p)
{
	return is_loop(p) && p->nr_cpus_allowed == 1;
}

static __always_inline struct workload *workload_of(__u32 slot)
{
	return workload_at(&shared, slot);
}

#define WEIGHT_ONE 100 /* cpu.weight's default, and a thread's at nice 0 */
#define ANY_DEPTH (1 << 20) /* of cgroups: more than there are */

#endif
