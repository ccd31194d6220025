/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Scheduling events of watched threads.
 *
 * A thread is watched if its number stands in `members`; children of watched threads are watched from birth. A switch is
 * reported only if a watched thread comes or goes or waits on the CPU, or if the CPU turns idle or busy: what threads of
 * no workload do among themselves costs two look-ups and no report.
 */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "task.h"
#include "trace.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
/* Where x86 keeps the preemption count from 6.2 to 6.14. */
struct pcpu_hot {
	int preempt_count;
};
#pragma clang attribute pop

#define TASK_DEAD 0x80
#define SERVING_SOFTIRQ 0x00000100
#define HARDIRQ_OR_NMI 0x00ff0000
#define MAX_SLOTS 1024

/* Set before the program is loaded. */
const volatile bool report_events;
const volatile bool count_edges;
const volatile bool count_softirqs;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32);
	__type(value, struct member);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct edge);
	__type(value, __u64);
} edges SEC(".maps");

/* By slot: wake-ups out of soft interrupts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} softirqs SEC(".maps");

/* By slot: what threads did that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SLOTS);
	__type(key, __u32);
	__type(value, struct totals);
} ended SEC(".maps");

/* Threads that have ended, by number: their processes' names. Those that live are in procfs. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, __s32);
	__type(value, struct name);
} names SEC(".maps");

struct losses losses;

#include "counting.h"

/* By CPU: HOLDER_IDLE, HOLDER_OTHER, or HOLDER_UNKNOWN while nothing was reported. Written on that CPU only. */
__u16 holders[MAX_CPUS];
/* By CPU: when it last switched. Written on that CPU only. */
__u64 switched_at[MAX_CPUS];
/* By CPU: who came at that switch. Written on that CPU only. */
__s32 running[MAX_CPUS];
/* By CPU: who runs there as far as was reported. */
__s32 reported[MAX_CPUS];
/* By CPU: watched threads that wait there. A count that went astray only makes for more reports. */
int waiting[MAX_CPUS];
/* By CPU: how deep it is in interrupts, where that is counted. Written on that CPU only. */
int interrupts[MAX_CPUS];
/* By CPU: how many of those are soft ones. Written on that CPU only. */
int soft[MAX_CPUS];

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* Where code runs that wakes a thread. */
enum context {
	IN_THREAD,
	IN_SOFTIRQ,
	IN_HARDIRQ, /* or in an NMI */
};

static enum context context_now(void)
{
	int count = 0;
#ifdef __TARGET_ARCH_x86
	if (bpf_ksym_exists(&__preempt_count))
		count = *(int *)bpf_this_cpu_ptr(&__preempt_count);
	else if (bpf_ksym_exists(&pcpu_hot))
		count = ((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
#else
	struct task_struct *current = bpf_get_current_task_btf();

	if (bpf_core_field_exists(current->thread_info.preempt_count))
		count = current->thread_info.preempt_count;
#endif
	if (count & HARDIRQ_OR_NMI)
		return IN_HARDIRQ;
	return count & SERVING_SOFTIRQ ? IN_SOFTIRQ : IN_THREAD;
}

static struct member *watched(__s32 tid)
{
	return tid ? bpf_map_lookup_elem(&members, &tid) : NULL;
}

static __u16 holder_of(__s32 tid, const struct member *member)
{
	if (member)
		return member->slot;
	return tid ? HOLDER_OTHER : HOLDER_IDLE;
}

static void report(const struct event *event)
{
	if (!report_events)
		return;
	/* The reader looks by itself every few milliseconds: waking it would disturb what is measured. */
	if (bpf_ringbuf_output(&events, (void *)event, sizeof(*event), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&losses.events, 1);
}

static void report_thread(__u8 kind, __u8 state, __u64 at, __s32 tid, __u16 slot, __u32 cpu)
{
	struct event event = { .at = at, .tid = tid, .cpu = cpu, .slot = slot, .kind = kind, .state = state };

	report(&event);
}

static void count_waiting(__u32 cpu, int more)
{
	cpu &= MAX_CPUS - 1;
	/* Else the compiler leaves the mask out where the verifier needs it. */
	barrier_var(cpu);
	__sync_fetch_and_add(&waiting[cpu], more);
}

static void waits(struct member *member, __u32 cpu)
{
	if (member->doing == DOING_WAITING)
		count_waiting(member->cpu, -1);
	member->doing = DOING_WAITING;
	member->cpu = cpu;
	count_waiting(cpu, 1);
}

static void leaves(struct member *member, __u8 left, __u32 cpu, __u64 now)
{
	if (member->doing == DOING_RUNNING && now > member->since)
		member->totals.run += now - member->since;
	member->since = now;
	if (left == LEFT_RUNNABLE) {
		waits(member, cpu);
		member->woken = 0;
		member->totals.preemptions++;
		return;
	}
	if (member->doing == DOING_WAITING)
		count_waiting(member->cpu, -1);
	member->doing = DOING_SLEEPING;
}

static void enters(struct member *member, __u32 cpu, __u64 now)
{
	if (member->doing == DOING_WAITING) {
		member->totals.delay += now - member->since;
		if (member->woken && now > member->since + member->late)
			member->totals.late_starts++;
		count_waiting(member->cpu, -1);
	}
	member->since = now;
	member->doing = DOING_RUNNING;
	member->cpu = cpu;
	member->totals.switches++;
}

/*
 * A thread leaves a CPU that, as far as we were told, had not come to it: kernels do not tell every switch (seen while
 * tracers come and go, and after threads of a virtual machine's own agent). The one who had come left untold, at some time
 * after the last switch on this CPU that was told: that time is the other's.
 */
static void switched_untold(__u32 cpu, __s32 tid, struct member *from)
{
	struct event event = { .next_tid = tid, .cpu = cpu, .kind = EVENT_SWITCH, .state = LEFT_UNTOLD };
	struct member *lost;

	if (cpu >= MAX_CPUS)
		return;
	barrier_var(cpu);
	event.tid = running[cpu & (MAX_CPUS - 1)];
	lost = event.tid == tid ? NULL : watched(event.tid);
	if (!lost) {
		/* Else newer compilers join the two pointers to one test, which the verifier does not allow. */
		barrier_var(tid);
		if (!from)
			return;
	}
	event.at = switched_at[cpu & (MAX_CPUS - 1)];
	event.slot = holder_of(event.tid, lost);
	event.next_slot = holder_of(tid, from);
	if (lost && lost->doing == DOING_RUNNING && lost->cpu == cpu)
		leaves(lost, LEFT_UNTOLD, cpu, event.at);
	if (from && from->doing != DOING_RUNNING) {
		if (from->since > event.at)
			event.at = from->since;
		enters(from, cpu, event.at);
	}
	report(&event);
	__sync_fetch_and_add(&losses.switches, 1);
}

static void dies(__s32 tid, const struct member *member)
{
	__u32 slot = member->slot;
	struct totals *totals = bpf_map_lookup_elem(&ended, &slot);

	if (totals) {
		__sync_fetch_and_add(&totals->run, member->totals.run);
		__sync_fetch_and_add(&totals->delay, member->totals.delay);
		__sync_fetch_and_add(&totals->switches, member->totals.switches);
		__sync_fetch_and_add(&totals->preemptions, member->totals.preemptions);
		__sync_fetch_and_add(&totals->wakeups, member->totals.wakeups);
		__sync_fetch_and_add(&totals->late_starts, member->totals.late_starts);
	}
	bpf_map_delete_elem(&members, &tid);
}

static void keep_name(struct task_struct *task)
{
	struct name name = {};
	__s32 tid = task->pid;

	bpf_probe_read_kernel_str(name.comm, sizeof(name.comm), task->group_leader->comm);
	bpf_map_update_elem(&names, &tid, &name, BPF_ANY);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 state = prev->__state;
	struct event event = { .at = now, .tid = prev->pid, .next_tid = next->pid, .cpu = cpu, .kind = EVENT_SWITCH };
	struct member *from = watched(event.tid), *to = watched(event.next_tid);
	bool concerns_us = false, untold = false;

	event.slot = holder_of(event.tid, from);
	event.next_slot = holder_of(event.next_tid, to);
	/* Preempted on its way to sleep: it runs on before it sleeps. */
	event.state = preempt || !state ? LEFT_RUNNABLE : state & TASK_DEAD ? LEFT_DEAD : LEFT_BLOCKED;
	if (cpu < MAX_CPUS)
		untold = switched_at[cpu] && running[cpu] != event.tid;
	if (from && from->doing != DOING_RUNNING && from->since)
		untold = true;
	if (untold)
		switched_untold(cpu, event.tid, from);
	if (from) {
		leaves(from, event.state, cpu, now);
		concerns_us = true;
	}
	if (to) {
		enters(to, cpu, now);
		concerns_us = true;
	}
	/* As in switched_untold. */
	barrier_var(concerns_us);
	if (counted_events && concerns_us)
		count(cpu, event.tid, from, to ? event.next_tid : 0);
	if (cpu < MAX_CPUS) {
		__u16 holder = to ? HOLDER_OTHER : event.next_slot;

		/* No switch happens inside an interrupt: one whose end was missed is over. */
		interrupts[cpu] = 0;
		soft[cpu] = 0;
		switched_at[cpu] = now;
		running[cpu] = event.next_tid;
		if (concerns_us || holders[cpu] != holder || waiting[cpu]) {
			report(&event);
			reported[cpu] = event.next_tid;
		}
		holders[cpu] = holder;
	}
	if (event.state == LEFT_DEAD && report_events)
		keep_name(prev);
	if (from && event.state == LEFT_DEAD)
		dies(event.tid, from);
	return 0;
}

/* Who runs where a thread begins to wait, if that was not worth a report when it came. */
static void report_holder(__u32 cpu, __u64 now)
{
	__s32 tid;

	cpu &= MAX_CPUS - 1;
	barrier_var(cpu);
	tid = running[cpu];
	if (!tid || reported[cpu] == tid)
		return;
	reported[cpu] = tid;
	report_thread(EVENT_HOLDS, 0, now, tid, HOLDER_OTHER, cpu);
}

static int woke(struct task_struct *task)
{
	__s32 tid = task->pid;
	struct member *member = watched(tid);
	__u64 now;
	__u32 cpu;

	/* A wake-up of a thread that did not leave its CPU yet changes nothing. */
	if (!member || member->doing != DOING_SLEEPING || task->on_cpu)
		return 0;
	now = bpf_ktime_get_ns();
	cpu = cpu_of(task);
	member->since = now;
	waits(member, cpu);
	member->woken = 1;
	member->totals.wakeups++;
	report_holder(cpu, now);
	report_thread(EVENT_WOKE, 0, now, tid, member->slot, cpu);
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

static int waking(struct task_struct *task, enum context context)
{
	struct edge edge = { .wakee = task->pid };
	struct member *member = watched(edge.wakee);
	__u64 one = 1, *count;
	__s32 waker;

	if (!member)
		return 0;
	if (count_softirqs && context == IN_SOFTIRQ) {
		__u32 slot = member->slot;

		count = bpf_map_lookup_elem(&softirqs, &slot);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	if (context != IN_THREAD) {
		__sync_fetch_and_add(&losses.interrupts, 1);
		return 0;
	}
	if (!count_edges)
		return 0;
	waker = (__u32)bpf_get_current_pid_tgid();
	edge.waker = watched(waker) ? waker : 0;
	count = bpf_map_lookup_elem(&edges, &edge);
	if (count)
		__sync_fetch_and_add(count, 1);
	else if (bpf_map_update_elem(&edges, &edge, &one, BPF_ANY))
		__sync_fetch_and_add(&losses.edges, 1);
	return 0;
}

/* Of the next two, one is loaded: the second where the kernel does not tell where its preemption count is. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	return waking(task, context_now());
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking_counted, struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();
	enum context context = IN_THREAD;

	if (cpu < MAX_CPUS && interrupts[cpu])
		context = interrupts[cpu] > soft[cpu] ? IN_HARDIRQ : IN_SOFTIRQ;
	return waking(task, context);
}

static int interrupt(int step)
{
	__u32 cpu = bpf_get_smp_processor_id();

	/* The end of one that began before we were here. */
	if (cpu < MAX_CPUS && interrupts[cpu] + step >= 0)
		interrupts[cpu] += step;
	return 0;
}

static int soft_interrupt(int step)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu < MAX_CPUS && soft[cpu] + step >= 0)
		soft[cpu] += step;
	return interrupt(step);
}

SEC("raw_tp/irq_handler_entry")
int on_irq(void *context)
{
	return interrupt(1);
}

SEC("raw_tp/irq_handler_exit")
int on_irq_end(void *context)
{
	return interrupt(-1);
}

SEC("raw_tp/softirq_entry")
int on_softirq(void *context)
{
	return soft_interrupt(1);
}

SEC("raw_tp/softirq_exit")
int on_softirq_end(void *context)
{
	return soft_interrupt(-1);
}

SEC("raw_tp/hrtimer_expire_entry")
int on_timer(void *context)
{
	return interrupt(1);
}

SEC("raw_tp/hrtimer_expire_exit")
int on_timer_end(void *context)
{
	return interrupt(-1);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int cpu)
{
	__s32 tid = task->pid;
	struct member *member = watched(tid);

	/* Where a sleeping thread wakes, its wake-up tells. */
	if (member && member->doing == DOING_WAITING) {
		__u64 now = bpf_ktime_get_ns();

		waits(member, cpu);
		report_holder(cpu, now);
		report_thread(EVENT_MIGRATED, 0, now, tid, member->slot, cpu);
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct member *member = watched(parent->pid), born = {};
	__s32 tid = child->pid;

	if (!member)
		return 0;
	born.slot = member->slot;
	born.late = member->late;
	born.since = bpf_ktime_get_ns();
	born.doing = DOING_SLEEPING;
	if (bpf_map_update_elem(&members, &tid, &born, BPF_ANY))
		__sync_fetch_and_add(&losses.members, 1);
	else
		report_thread(EVENT_BORN, 0, born.since, tid, born.slot, 0);
	return 0;
}

/* What ran on this CPU until now is counted, without waiting for the next switch. */
SEC("raw_tp")
int settle(void *context)
{
	__s32 tid = (__u32)bpf_get_current_pid_tgid();
	struct member *member = watched(tid);
	__u32 cpu = bpf_get_smp_processor_id();

	count(cpu, tid, member, member ? tid : 0);
	read_times(cpu);
	return 0;
}

/* One look at every thread: what watched ones do now, and which CPUs are busy. */
SEC("iter/task")
int look(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct member *member;
	__u64 now;
	__u32 cpu;
	__s32 tid;
	__u8 doing;

	if (!task)
		return 0;
	tid = task->pid;
	cpu = cpu_of(task);
	member = watched(tid);
	doing = task->on_cpu ? DOING_RUNNING : task->on_rq && !task->__state ? DOING_WAITING : DOING_SLEEPING;
	now = bpf_ktime_get_ns();
	if (member) {
		/* Not yet named by an event. */
		if (!member->since) {
			member->since = now;
			member->cpu = cpu;
			if (doing == DOING_WAITING)
				waits(member, cpu);
			else
				member->doing = doing;
		}
		report_thread(EVENT_SEEN, doing, now, tid, member->slot, cpu);
	} else if (doing == DOING_RUNNING) {
		report_thread(EVENT_HOLDS, 0, now, tid, HOLDER_OTHER, cpu);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
