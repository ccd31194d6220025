/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs belong to workloads.
 *
 * Every thread that is not real-time is scheduled here. A CPU runs the threads of the workload that holds it. The loader
 * grants and revokes CPUs; what cannot wait for the loader is done here, at the event, by the rules: a workload that wakes
 * up takes the CPUs that it is guaranteed, a CPU that is yielded goes to the next in line, a ban ends with its request.
 * What belongs to no workload is the system: it has its turns on every CPU.
 */
#include "state.h"
#include "queues.h"
#include "holders.h"
#include "dispatch.h"

char _license[] SEC("license") = "GPL";

/* Starving threads on CPUs where nothing ends are found within this time. */
#define PATROL_NS 50000000ULL

/* Why the scheduler ended, in the kernel's words. */
char exit_reason[128];
char exit_message[512];

struct patrol {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct patrol);
} patrols SEC(".maps");

/* An idle CPU for one of the system's threads, unless a ban parks it. */
static __always_inline __s32 idle_cpu(struct task_struct *p, __s32 first)
{
	__s32 cpu = first;

	if (first < 0 || !bpf_cpumask_test_cpu(first, p->cpus_ptr) || !scx_bpf_test_and_clear_cpu_idle(first))
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	return cpu >= 0 && !is_banned(&shared, cpu) ? cpu : -1;
}

__s32 OP(grant_select_cpu, struct task_struct *p, __s32 prev_cpu, __u64 wake_flags)
{
	struct thread *t = thread_of(p);

	if (!t)
		return prev_cpu;
	__u32 slot = slot_of(p, t);

	if (slot == SYSTEM) {
		__s32 cpu = idle_cpu(p, prev_cpu);

		if (cpu < 0)
			return prev_cpu;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, shared.be_slice_ns, 0);
		return cpu;
	}
	/* Those that have waited longer go first: then it is for `enqueue` to find a CPU. */
	if (is_waiting(workload_of(slot)))
		return prev_cpu;
	__u32 cpu = take_cpu(p, slot);

	if (cpu >= MAX_CPUS)
		return prev_cpu;
	__u64 slice = workload_of(slot)->lc ? shared.lc_slice_ns : shared.be_slice_ns;

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, SCX_ENQ_PREEMPT);
	return cpu;
}

/* A thread of the system waits: for an idle CPU, or, if it has just come, for its turn where BE work runs. */
static __always_inline void find_cpu_for_system(struct task_struct *p, bool came, __u64 now)
{
	__s32 home = scx_bpf_task_cpu(p);
	__s32 cpu = idle_cpu(p, home);

	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (!came || home < 0 || !bpf_cpumask_test_cpu(home, p->cpus_ptr))
		return;
	/* One of its own kind is not preempted: each such preemption would cause the next one. */
	if (cpu_at(&shared, home)->runs < SYSTEM && rule_system_turn(&shared, home, now, now))
		scx_bpf_kick_cpu(home, SCX_KICK_PREEMPT);
}

/*
 * Is the thread in a part of the kernel that binds it to its CPU? Each of our programs binds the thread that it interrupts,
 * which is no such reason: this one, and `cpu_release` if it called.
 */
static __always_inline bool is_bound(struct task_struct *p)
{
	unsigned int ours = 0;

	if (p == bpf_get_current_task_btf())
		ours = cpu_at(&shared, scx_bpf_task_cpu(p))->away ? 2 : 1;
	return p->migration_disabled > ours;
}

static __always_inline bool runs_lc(__u32 cpu)
{
	__u32 slot = cpu_at(&shared, cpu)->runs;

	return slot < SYSTEM && workload_of(slot)->lc;
}

void OP(grant_enqueue, struct task_struct *p, __u64 enq_flags)
{
	__u64 now = bpf_ktime_get_ns();
	struct thread *t = thread_of(p);

	if (!t || is_bound(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, shared.be_slice_ns, enq_flags);
		return;
	}
	__u32 slot = slot_of(p, t);
	/* It wants a CPU anew: it woke up, was born, came from elsewhere, or a higher class took the CPU that it was on. */
	bool came = !t->goes_on || cpu_at(&shared, scx_bpf_task_cpu(p))->away;

	t->goes_on = 0;
	__u32 cpu = scx_bpf_task_cpu(p);

	/* The kernel's own threads go before best-effort work, and wait for latency-critical work as the rest of the system. */
	if (slot == SYSTEM && (enq_flags & SCX_ENQ_WAKEUP) && (p->flags & PF_KTHREAD) && !runs_lc(cpu)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, shared.be_slice_ns, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	bool formed = begins_to_wait(t, slot, now, came);

	insert(p, t, slot, enq_flags);
	if (slot == SYSTEM) {
		find_cpu_for_system(p, came, now);
		return;
	}
	if (!came)
		return;
	cpu = take_cpu(p, slot);
	if (cpu < MAX_CPUS)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	else if (formed)
		wake_loader();
}

void OP(grant_dispatch, __s32 cpu, struct task_struct *prev)
{
	dispatch(cpu, prev, bpf_ktime_get_ns());
}

void OP(grant_runnable, struct task_struct *p, __u64 enq_flags)
{
	struct thread *t = thread_of(p);

	if (t && (enq_flags & SCX_ENQ_WAKEUP))
		t->woke = 1;
}

void OP(grant_running, struct task_struct *p)
{
	__u32 cpu = scx_bpf_task_cpu(p);
	struct thread *t = thread_of(p);

	if (!t || cpu >= MAX_CPUS)
		return;
	__u64 now = bpf_ktime_get_ns();

	ceases_to_wait(t);
	advance(t);
	if (t->woke || !t->request)
		t->request = now;
	t->woke = 0;
	t->goes_on = 0;
	t->ran_at = now;
	cpu_at(&shared, cpu)->runs = t->slot;
	cpu_at(&shared, cpu)->awaits = 0;
	if (t->slot < SYSTEM)
		cpu_at(&shared, cpu)->request_start = t->request;
}

void OP(grant_stopping, struct task_struct *p, bool runnable)
{
	__u32 cpu = scx_bpf_task_cpu(p);
	struct thread *t = thread_of(p);

	if (!t || cpu >= MAX_CPUS)
		return;
	__u64 now = bpf_ktime_get_ns();

	account(p, t, now - t->ran_at);
	t->goes_on = runnable;
	cpu_at(&shared, cpu)->runs = NOBODY;
	if (t->slot == SYSTEM)
		cpu_at(&shared, cpu)->system_until = now;
	end_request(cpu);
}

void OP(grant_quiescent, struct task_struct *p, __u64 deq_flags)
{
	struct thread *t = thread_of(p);

	if (t) {
		ceases_to_wait(t);
		t->goes_on = 0;
	}
}

/* Who came while the CPU was about to be idle found no idle CPU: the CPU looks again. */
void OP(grant_update_idle, __s32 cpu, bool idle)
{
	if (!idle || cpu < 0 || cpu >= MAX_CPUS)
		return;
	__u32 holder = cpu_at(&shared, cpu)->holder;

	cpu_at(&shared, cpu)->runs = NOBODY;
	struct passed_over none = { { NOBODY, NOBODY, NOBODY } };

	if (is_waiting(workload_of(SYSTEM)) || (holder < SYSTEM && is_waiting(workload_of(holder))) ||
	    (holder == NOBODY && rule_heir(&shared, cpu, &none) < SYSTEM))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A higher scheduling class takes the CPU: it is yielded, and what ran or was about to run here looks for another one. */
void OP(grant_cpu_release, __s32 cpu, struct scx_cpu_release_args *args)
{
	if (cpu >= 0 && cpu < MAX_CPUS) {
		__u32 holder = cpu_at(&shared, cpu)->holder;

		cpu_at(&shared, cpu)->away = 1;
		if (holder < SYSTEM)
			yield_cpu(cpu, holder);
	}
	scx_bpf_reenqueue_local();
}

void OP(grant_cpu_acquire, __s32 cpu, struct scx_cpu_acquire_args *args)
{
	if (cpu >= 0 && cpu < MAX_CPUS)
		cpu_at(&shared, cpu)->away = 0;
}

void OP(grant_cpu_online, __s32 cpu)
{
	if (cpu >= 0 && cpu < MAX_CPUS)
		cpu_at(&shared, cpu)->online = 1;
	wake_loader();
}

void OP(grant_cpu_offline, __s32 cpu)
{
	if (cpu >= 0 && cpu < MAX_CPUS) {
		__u32 holder = cpu_at(&shared, cpu)->holder;

		cpu_at(&shared, cpu)->online = 0;
		if (holder < SYSTEM)
			yield_cpu(cpu, holder);
	}
	wake_loader();
}

__s32 SLEEPABLE_OP(grant_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* Wakes the CPUs on which nothing ends, if somebody starves. */
static int patrol(void *map, __u32 *key, struct patrol *timer)
{
	__u64 now = bpf_ktime_get_ns();
	bool starving = false;
	int i;

	FOR(i, 0, shared.nr_slots + 1) {
		__u32 at = (__u32)i < shared.nr_slots ? i : SYSTEM;

		if (now - waiting_since(workload_at(&shared, at), now) > shared.starving_ns)
			starving = true;
	}
	if (starving) {
		bpf_for(i, 0, shared.nr_cpus)
			scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
	}
	bpf_timer_start(&timer->timer, PATROL_NS, 0);
	return 0;
}

__s32 SLEEPABLE_OP(grant_init)
{
	__u32 first = 0;
	struct patrol *timer = bpf_map_lookup_elem(&patrols, &first);
	int i;

	bpf_for(i, 0, MAX_SLOTS) {
		__s32 error = scx_bpf_create_dsq(i, -1);

		if (error)
			return error;
	}
	if (timer) {
		bpf_timer_init(&timer->timer, &patrols, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&timer->timer, patrol);
		bpf_timer_start(&timer->timer, PATROL_NS, 0);
	}
	return 0;
}

void OP(grant_exit, struct scx_exit_info *info)
{
	shared.exit_kind = info->kind;
	bpf_probe_read_kernel_str(exit_reason, sizeof(exit_reason), info->reason);
	bpf_probe_read_kernel_str(exit_message, sizeof(exit_message), info->msg);
	wake_loader();
}

/* Many CPUs look at their holder again, at once. */
SEC("syscall")
int kick_cpus(void *unused)
{
	int i;

	bpf_for(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (*AT(shared.kick, cpu / 64, MAX_CPUS / 64) & (1ULL << (cpu % 64)))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* Empties the queue of a workload that is gone. */
SEC("syscall")
int drain_queue(void *unused)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 slot = shared.drain;
	struct task_struct *p;

	if (slot >= SYSTEM)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, slot, 0) {
		struct thread *t = thread_of(p);

		/* `___it` is the iterator that the macro declares. */
		if (t && scx_bpf_dsq_move(&___it, p, SYSTEM, 0))
			begins_to_wait(t, SYSTEM, now, false);
	}
	bpf_rcu_read_unlock();
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops grant_ops = {
	.select_cpu = (void *)grant_select_cpu,
	.enqueue = (void *)grant_enqueue,
	.dispatch = (void *)grant_dispatch,
	.runnable = (void *)grant_runnable,
	.running = (void *)grant_running,
	.stopping = (void *)grant_stopping,
	.quiescent = (void *)grant_quiescent,
	.update_idle = (void *)grant_update_idle,
	.cpu_acquire = (void *)grant_cpu_acquire,
	.cpu_release = (void *)grant_cpu_release,
	.cpu_online = (void *)grant_cpu_online,
	.cpu_offline = (void *)grant_cpu_offline,
	.init_task = (void *)grant_init_task,
	.init = (void *)grant_init,
	.exit = (void *)grant_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_KEEP_BUILTIN_IDLE,
	.timeout_ms = 30000,
	.name = "quell_grant",
};
