/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which watched threads wait, and what runs instead, at random instants.
 *
 * Time is cut into stretches of a quarter of a millisecond, with one random instant in each; an instant is the same for all CPUs.
 * A thread that begins to wait keeps the number of instants so far. If there were more when it runs, a record says at which it
 * waited; mostly there were none. The same goes for what ran on a CPU where watched threads wait. The reader of the records
 * knows of each instant which threads waited on which CPU and what had it: a sample, without an event for every switch.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "task.h"
#include "sampler.h"

#define STRETCH (1ull << STRETCH_SHIFT)
/* A power of two. */
#define MAX_LISTED (1 << 16)

/* A thread. */
struct thread {
	__u32 session; /* in which it is watched */
	__u32 since;   /* instants before it began to wait */
	__u16 slot;
	__u16 cpu;     /* where it waits */
	__u8 waits;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} records SEC(".maps");

/* The loader writes these before a session. */
__u32 session;
__u64 origin;
__u32 listed_count;
/* By number. */
struct listed listed[MAX_LISTED];
/* Is the session over? */
__u8 is_over;
/* Then: the instants of the session. */
__u32 instants;

/* Records and threads that found no room. */
__u64 lost;

struct cpu cpus[MAX_CPUS] __attribute__((aligned(64)));

/* The number of instants up to now. */
static __u32 instants_now(void)
{
	__u64 passed = bpf_ktime_get_ns() - origin;
	__u64 stretch = passed >> STRETCH_SHIFT;
	__u64 mixed = (stretch + session) * 0x9e3779b97f4a7c15ull;

	mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93ull;
	return stretch + ((passed & (STRETCH - 1)) >= mixed >> (64 - STRETCH_SHIFT));
}

static struct cpu *cpu_at(__u32 cpu)
{
	cpu &= MAX_CPUS - 1;
	/* Else the compiler leaves the mask out where the verifier needs it. */
	barrier_var(cpu);
	return &cpus[cpu];
}

static struct cpu *this_cpu(void)
{
	struct cpu *here = cpu_at(bpf_get_smp_processor_id());

	here->calls++;
	return here;
}

static struct thread *watched(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	return thread && thread->session == session ? thread : NULL;
}

static void output(const struct record *record)
{
	__u64 size = record->kind == RECORD_RAN_OTHER ? sizeof(*record) : offsetof(struct record, comm);

	/* The reader looks by itself: waking it would disturb what is measured. */
	if (bpf_ringbuf_output(&records, (void *)record, size, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost, 1);
}

static void begins_to_wait(struct thread *thread, __u32 cpu, __u32 now)
{
	thread->waits = 1;
	thread->since = now;
	thread->cpu = cpu;
	__sync_fetch_and_add(&cpu_at(cpu)->waiting, 1);
}

static void waits_no_longer(struct thread *thread)
{
	thread->waits = 0;
	__sync_fetch_and_add(&cpu_at(thread->cpu)->waiting, -1);
}

static void report_wait(const struct thread *thread, __s32 tid, __u32 now)
{
	struct record record = {
		.from = thread->since, .to = now, .tid = tid, .cpu = thread->cpu, .slot = thread->slot, .kind = RECORD_WAITED,
	};

	output(&record);
}

static void report_run(__u32 from, __u32 to, __u32 cpu, struct task_struct *task, const struct thread *thread)
{
	struct record record = { .from = from, .to = to, .tid = task->pid, .cpu = cpu, .kind = RECORD_RAN };

	if (thread) {
		record.slot = thread->slot;
	} else if (!record.tid) {
		record.slot = SLOT_IDLE;
	} else {
		record.kind = RECORD_RAN_OTHER;
		bpf_probe_read_kernel(record.comm, sizeof(record.comm), task->group_leader->comm);
	}
	output(&record);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id(), now = instants_now();
	struct cpu *here = this_cpu();
	struct thread *from = prev->pid ? watched(prev) : NULL;
	struct thread *to = next->pid ? watched(next) : NULL;

	if (now != here->looked) {
		/* Kernels do not tell every switch: if another one came than now goes, it is not known what ran. */
		if ((here->waiting > 0 || here->owes) && (!here->is_known || here->running == prev->pid))
			report_run(here->looked, now, cpu, prev, from);
		here->looked = now;
		here->owes = 0;
	}
	here->running = next->pid;
	here->slot = to ? to->slot : next->pid ? SLOT_OTHER : SLOT_IDLE;
	here->is_known = 1;
	if (from) {
		/* It came without a word, at a time that is not known. */
		if (from->waits)
			waits_no_longer(from);
		/* Preempted on its way to sleep: it runs on before it sleeps. */
		if (preempt || !prev->__state)
			begins_to_wait(from, cpu, now);
	}
	if (to && to->waits) {
		if (to->since != now)
			report_wait(to, next->pid, now);
		waits_no_longer(to);
	}
	return 0;
}

static int woke(struct task_struct *task)
{
	struct thread *thread;

	this_cpu();
	thread = watched(task);
	/* A wake-up of a thread that did not leave its CPU yet changes nothing. */
	if (thread && !thread->waits && !task->on_cpu)
		begins_to_wait(thread, cpu_of(task), instants_now());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	return woke(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return woke(task);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int cpu)
{
	struct thread *thread;
	__u32 now;

	this_cpu();
	thread = watched(task);
	/* Where a sleeping thread wakes, its wake-up tells. */
	if (!thread || !thread->waits)
		return 0;
	now = instants_now();
	if (thread->since != now) {
		report_wait(thread, task->pid, now);
		cpu_at(thread->cpu)->owes = 1;
	}
	waits_no_longer(thread);
	begins_to_wait(thread, cpu, now);
	return 0;
}

static struct thread *watch(struct task_struct *task, __u16 slot)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	thread->waits = 0;
	thread->slot = slot;
	thread->session = session;
	return thread;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *from;

	this_cpu();
	from = watched(parent);
	if (from)
		watch(child, from->slot);
	return 0;
}

/*
 * The slot of a thread, from the list; negative: it has none. The search has no branch, since the verifier follows both sides of
 * each, at every step anew: hundreds of thousands of instructions, and seconds of a CPU before anything runs.
 */
static int slot_of(__s32 tid)
{
	__u32 base = 0, step;

	for (step = MAX_LISTED / 2; step; step >>= 1) {
		__u32 next = (base + step) & (MAX_LISTED - 1);
		__s64 is_before;

		barrier_var(next);
		/* All ones where `next` is in the list and its thread's number at most `tid`. */
		is_before = (((__s64)next - listed_count) & ((__s64)listed[next].tid - tid - 1)) >> 63;
		/* Else the compiler makes a branch of it. */
		barrier_var(is_before);
		base += step & is_before;
	}
	base &= MAX_LISTED - 1;
	barrier_var(base);
	return base < listed_count && listed[base].tid == tid ? listed[base].slot : -1;
}

/* One look at every thread: at the beginning, what they do; at the end, which still wait. */
SEC("iter/task")
int look(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct thread *thread;
	struct cpu *there;
	int slot;

	if (!task)
		return 0;
	if (is_over) {
		thread = watched(task);
		if (thread && thread->waits && thread->since < instants)
			report_wait(thread, task->pid, instants);
		return 0;
	}
	slot = slot_of(task->pid);
	there = cpu_at(cpu_of(task));
	if (task->on_cpu && !there->is_known) {
		there->running = task->pid;
		there->slot = slot < 0 ? SLOT_OTHER : slot;
		there->is_known = 1;
	}
	/* Born meanwhile. */
	if (watched(task))
		return 0;
	thread = slot < 0 ? NULL : watch(task, slot);
	if (thread && !task->on_cpu && task->on_rq && !task->__state)
		begins_to_wait(thread, cpu_of(task), instants_now());
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
