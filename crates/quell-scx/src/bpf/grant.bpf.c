/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quell's sched_ext scheduler: CPUs belong to workloads.
 *
 * Problem: fair schedulers know shares, and let a wake-up wait for a tick; real-time classes know neither shares nor
 * an end.
 *
 * Rule: every thread that is not real-time is scheduled here. A CPU runs the threads of its holder, which is a
 * workload. The loader grants and revokes CPUs. What cannot wait for the loader is done here, at the event: a
 * workload whose thread wakes up takes the CPUs that it is guaranteed, a CPU that is yielded goes to the next in
 * line, a ban ends with its request. Threads of no workload are the system's, which has turns on every CPU.
 *
 * Callers: the kernel, by `grant_ops` and tracepoints; the loader, by the programs in section syscall.
 *
 * Limits: real-time threads come before all that. Each header has limits of its own.
 */
#include "lib/state.h"
#include "groups/cgroups.h"
#include "hold/grace.h"
#include "groups/groups.h"
#include "queue/queues.h"
#include "groups/quota.h"
#include "hold/holders.h"
#include "place/seek.h"
#include "place/overtake.h"
#include "hold/dispatch.h"
#include "hold/keep.h"
#include "place/direct.h"
#include "tend/boost.h"
#include "tend/patrol.h"
#include "tend/requests.h"
#include "tend/stuck.h"
#include "tend/dump.h"
#include "tend/unread.h"

char _license[] SEC("license") = "GPL";

/* The kernel's reason for the scheduler's end. */
char exit_reason[128];
char exit_message[512];
/* The dump at the end: the kernel's and `tend/dump.h`'s. */
char exit_dump[DUMP_BYTES];
__s64 exit_code;
__u64 exit_at;

__s32 OP(grant_select_cpu, struct task_struct *p, __s32 prev_cpu, __u64 wake_flags)
{
	struct thread *t = thread_of(p);

	if (!t)
		return prev_cpu;
	__u32 slot = slot_of(p, t);

	if (together_on)
		end_sleep(t);
	if (servers_on && slot < SYSTEM && workload_of(slot)->servers) {
		__u32 cpu = select_server_cpu(p, slot);

		if (cpu < MAX_CPUS)
			return cpu;
	}
	if (throttled_groups && throttled_by(p, t, bpf_ktime_get_ns()) != NO_GROUP)
		return prev_cpu;
	if (slot == SYSTEM) {
		__s32 cpu = claim_idle_cpu(p, prev_cpu);

		if (cpu < 0) {
			__u32 other = is_loop(p) ? find_best_effort_cpu(p) : NO_CPU;

			return other < MAX_CPUS ? (__s32)other : prev_cpu;
		}
		direct_dispatch(p, t, slot, cpu, 0);
		return cpu;
	}
	/* Threads that have waited longer go first: then `enqueue` finds a CPU. */
	if (has_waiters(workload_of(slot)))
		return prev_cpu;
	__u32 cpu = choose_free_cpu(p, slot);

	if (cpu >= MAX_CPUS)
		return prev_cpu;
	t->chosen = try_direct_dispatch(p, t, slot, cpu) ? 0 : cpu + 1;
	return cpu;
}

/*
 * Is the thread bound to its CPU by migrate_disable()? Each of our programs disables migration of the thread that it
 * interrupts, which does not count: this one, and `cpu_release` if that called it.
 */
static __always_inline bool is_migration_disabled(struct task_struct *p, __u32 cpu)
{
	unsigned int ours = 0;

	if (p == bpf_get_current_task_btf())
		ours = cpu_at(&shared, cpu)->away == AWAY_REPORTED ? 2 : 1;
	return p->migration_disabled > ours;
}

/* The thread is runnable. Returns since when. */
static __always_inline __u64 mark_runnable(struct thread *t, __u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP)
		t->woke = 1;
	if (!t->runnable_since)
		t->runnable_since = bpf_ktime_get_ns();
	return t->runnable_since;
}

/*
 * A thread that woke up comes to this CPU: takes the CPU and inserts it there, unless another thread of its workload
 * waits longer.
 */
static __always_inline bool try_insert_local(struct task_struct *p, struct thread *t, __u32 slot, __u32 cpu,
					     __u64 enq_flags)
{
	if (has_waiters(workload_of(slot)) || !try_take_chosen(cpu, slot))
		return false;
	t->woke = 1;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t, slot), enq_flags | (begin_grace(cpu) ? 0 : SCX_ENQ_PREEMPT));
	return true;
}

/* `select_cpu` chose a CPU for the thread: takes it, if that is where the thread comes. All else was examined then. */
static __always_inline bool try_enqueue_chosen(struct task_struct *p, struct thread *t, __u32 cpu, __u64 enq_flags)
{
	bool is_here = t->chosen == cpu + 1;

	t->chosen = 0;
	return is_here && try_insert_local(p, t, t->slot, cpu, enq_flags);
}

/* A thread that cannot leave its CPU runs there in the order of its coming. */
static __always_inline void enqueue_pinned(struct task_struct *p, __u32 cpu, __u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, shared.be_slice_ns, enq_flags);
	/* The CPU has decided to be idle, and would not choose again. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
}

/*
 * Does the thread want a CPU anew? It woke up, was forked or migrated, a higher class took its CPU, or the CPU rather
 * idles than to run it on. Else its slice ended while it was runnable.
 */
static __always_inline bool is_new_wait(const struct thread *t, __u32 cpu, __u64 enq_flags)
{
	return !t->was_runnable || (enq_flags & SCX_ENQ_LAST) || cpu_at(&shared, cpu)->away || SERVED(&shared, cpu);
}

/* Into the queue of the throttled group that holds the thread back. */
static __always_inline void enqueue_throttled(struct task_struct *p, struct thread *t, __u32 group, __u64 enq_flags)
{
	/* A CPU had taken it from its queue, and lost it before the thread ran: that wait has not ended yet. */
	end_wait(p, t);
	scx_bpf_dsq_insert(p, THROTTLED_DSQ + group, shared.be_slice_ns, enq_flags);
}

static __always_inline bool is_wakeup_of_system(__u32 slot, __u64 enq_flags)
{
	return slot == SYSTEM && (enq_flags & SCX_ENQ_WAKEUP);
}

/* Is a latency-critical thread, dispatched to the CPU but not begun, to run before this kernel thread? */
static __always_inline bool is_behind_lc(struct task_struct *p, __u32 cpu)
{
	return is_percpu_kthread(p) && is_lc_pending(cpu);
}

/* Into the slot's queue. A thread that came looks for a CPU; one whose slice ended only for one without a holder. */
static __always_inline void enqueue_and_seek(struct task_struct *p, struct thread *t, __u32 slot, __u32 cpu, bool came,
					     bool at_head, __u64 now, __u64 enq_flags)
{
	__u32 number = number_for(p, t, slot, now);
	bool formed = begin_wait(t, number, now, came);

	if (is_by_progress(slot))
		update_blocked(t);
	/*
	 * Not a loop bound to some CPUs: best-effort work would be preempted again and again on CPUs where it may not
	 * run.
	 */
	if (is_loop(p) && (enq_flags & SCX_ENQ_WAKEUP) && (__u32)p->nr_cpus_allowed >= shared.nr_cpus)
		t->overdue = loop_waits = true;
	__u32 taken = came && t->woke && is_leader(slot) ? find_cpu_to_overtake(p, t, slot, number, now) : NO_CPU;

	t->first = taken < MAX_CPUS;
	enqueue_thread(p, t, slot, number, enq_flags | (at_head ? SCX_ENQ_HEAD : 0));
	if (came && !seek_cpu(p, t, slot, formed, now) && taken < MAX_CPUS)
		overtake(taken, t, number);
	if (came)
		return;
	if (slot == SYSTEM)
		kick_cpu_for_system(p, false, now);
	else
		/*
		 * It was preempted: a CPU without a holder instead. Not another holder's: its threads would do the
		 * same, again and again. Nor one where the system has its turn: the thread runs on there.
		 */
		take_unheld_cpu(p, slot, cpu);
}

void OP(grant_enqueue, struct task_struct *p, __u64 enq_flags)
{
	struct thread *t = thread_of(p);
	__u32 cpu = scx_bpf_task_cpu(p);

	if (t && t->chosen && try_enqueue_chosen(p, t, cpu, enq_flags))
		return;
	__u64 now = t ? mark_runnable(t, enq_flags) : 0;
	bool pinned = !t || is_migration_disabled(p, cpu);

	if (servers_on && enqueue_on_server(p, t, cpu, pinned, enq_flags))
		return;
	if (pinned) {
		enqueue_pinned(p, cpu, enq_flags);
		return;
	}
	__u32 slot = slot_of(p, t);

	/* No CPU is chosen at the wake-up of a thread that is bound to one. */
	if (together_on && (enq_flags & SCX_ENQ_WAKEUP) && p->nr_cpus_allowed == 1)
		end_sleep(t);
	add_load(p, t, slot, now);
	/* One that gives way to a thread of the kernel is the first of its queue. */
	bool at_head = t->was_runnable && is_fifo(slot) && upkeep_on(cpu)->comes;
	bool came = is_new_wait(t, cpu, enq_flags);

	t->was_runnable = t->boosted = 0;
	cancel_keep(p, t);
	__u32 throttled = throttled_by(p, t, now);

	if (throttled != NO_GROUP) {
		enqueue_throttled(p, t, throttled, enq_flags);
		return;
	}
	__u64 at_once = is_wakeup_of_system(slot, enq_flags) ? claim_slice_at_once(p, cpu, now) : 0;

	if (at_once) {
		bool behind = is_behind_lc(p, cpu);

		upkeep_on(cpu)->behind = behind;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, at_once,
				   enq_flags | (behind || upkeep_on(cpu)->runs ? 0 : SCX_ENQ_PREEMPT));
		return;
	}
	/* For a thread that is bound to one CPU `select_cpu` is not called: it claims its CPU here, if that is idle. */
	if (is_wakeup_of_system(slot, enq_flags) && p->nr_cpus_allowed == 1 && !is_banned(&shared, cpu) &&
	    scx_bpf_test_and_clear_cpu_idle(cpu)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t, slot), enq_flags);
		return;
	}
	/* The loop that polls gave others a turn: it runs on after that. */
	if (is_polling_loop(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, shared.be_slice_ns, enq_flags);
		return;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && p->nr_cpus_allowed == 1 && try_insert_local(p, t, slot, cpu, enq_flags))
		return;
	enqueue_and_seek(p, t, slot, cpu, came, at_head, now, enq_flags);
}

void OP(grant_dispatch, __s32 cpu, struct task_struct *prev)
{
	if (cpu >= 0 && cpu < MAX_CPUS)
		dispatch(cpu, prev, time_on(cpu_at(&shared, cpu)));
}

void OP(grant_running, struct task_struct *p)
{
	__u32 cpu = scx_bpf_task_cpu(p);
	struct thread *t = thread_of(p);

	if (!t || cpu >= MAX_CPUS)
		return;
	struct cpu *c = cpu_at(&shared, cpu);
	__u64 now = time_on(c);

	/* It changed while it ran, and was not enqueued. */
	if (!t->generation)
		slot_of(p, t);
	__u32 slot = t->slot, holder = c->holder;
	__u64 waited_ns = t->runnable_since ? now - t->runnable_since : 0;
	bool was_sent = test_and_clear_sent(p, cpu);

	c->stopped_at = 0;
	add_load(p, t, slot, now);
	end_wait(p, t);
	t->first = 0;
	if (together_on && t->counted && is_leader(slot))
		begin_vtime_turn(p, t, cpu, now);
	if (is_by_progress(slot))
		begin_service_turn(t);
	advance_clock(p, t, now);
	if (t->woke || !t->request)
		t->request = now;
	t->woke = 0;
	t->was_runnable = 0;
	t->overdue = 0;
	t->runnable_since = 0;
	t->ran_at = now;
	limit_slice_for_upkeep(p, cpu, slot == SYSTEM);
	t->slice_left = p->scx.slice;
	c->away = 0;
	if (c->kept == (__u32)p->pid)
		resume_kept(cpu, p, t, waited_ns);
	else if (was_sent && holder == NO_SLOT && slot < SYSTEM)
		try_hand_over(cpu, NO_SLOT, slot);
	else if (holder != slot && holder != NO_SLOT && slot < SYSTEM && !c->starving && !t->boosted &&
		 !(servers_on && t->served) && !is_migration_disabled(p, cpu))
		resolve_holder(cpu, holder, slot);
	else if (holder != slot && (t->boosted || slot == SYSTEM))
		kick_idle_for_holder(cpu);
	c->starving = 0;
	if (slot == SYSTEM && rule_system_turn_begins(&shared, cpu, now))
		c->system_since = now;
	if (slot < SYSTEM) {
		c->request_start = t->request;
		c->tid = p->pid;
	}
	c->runs = slot;
	c->runs_idle = group_at(t->group)->idle;
	c->awaits = 0;
	if (servers_on)
		start_beside_servers(t, cpu, now);
	if (loop_waits && slot < SYSTEM && !runs_lc(cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void OP(grant_stopping, struct task_struct *p, bool runnable)
{
	__u32 cpu = scx_bpf_task_cpu(p);
	struct thread *t = thread_of(p);

	if (!t || cpu >= MAX_CPUS)
		return;
	struct cpu *c = cpu_at(&shared, cpu);
	__u64 now = bpf_ktime_get_ns();

	account(p, t, now);
	t->boosted = 0;
	t->was_runnable = runnable;
	t->runnable_since = runnable ? now : 0;
	c->stopped_at = now;
	c->stopped = runnable && ((p->scx.slice && may_keep(p, t)) || keep_behind_lc(p, t, cpu, now)) ? p->pid : 0;
	if (c->stopped)
		t->stopped_on = cpu + 1;
	c->leaving = 0;
	c->runs = NO_SLOT;
	if (servers_on)
		stop_beside_servers(cpu);
	if (t->slot == SYSTEM)
		c->system_until = now;
	if (c->request_start)
		end_request(cpu);
}

void OP(grant_quiescent, struct task_struct *p, __u64 deq_flags)
{
	struct thread *t = thread_of(p);

	if (t) {
		note_uninterruptible_sleep(p, t, deq_flags);
		end_wait(p, t);
		if (together_on) {
			update_blocked(t);
			if (deq_flags & SCX_DEQ_SLEEP)
				begin_sleep(t);
		}
		remove_load(t);
		t->was_runnable = 0;
		t->runnable_since = 0;
		if (servers_on)
			t->served = t->turn = 0;
		/* It may have gone to another cgroup. */
		if (!(deq_flags & SCX_DEQ_SLEEP)) {
			t->generation = 0;
			cancel_keep(p, t);
		}
	}
}

/*
 * A thread that came while the CPU was about to be idle found no idle CPU: the CPU is kicked. Not when it goes offline:
 * it takes no more interrupts then, and a kick would remain pending, in the way of all later ones and of the
 * scheduler's end.
 */
void OP(grant_update_idle, __s32 cpu, bool idle)
{
	if (!idle || cpu < 0 || cpu >= MAX_CPUS)
		return;
	struct cpu *c = cpu_at(&shared, cpu);
	__u32 holder = c->holder;

	c->away = 0;
	c->runs = NO_SLOT;
	c->stopped_at = 0;
	upkeep_on(cpu)->runs = upkeep_on(cpu)->behind = 0;
	if (servers_on)
		stop_serving(cpu);
	if (!c->online)
		return;
	if ((servers_on && server_has_waiters(cpu, bpf_ktime_get_ns())) || system_has_waiters(cpu) ||
	    (holder < SYSTEM && has_waiters(workload_of(holder))) ||
	    (holder == NO_SLOT && c->in_pool && next_holder(cpu) < SYSTEM))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * A higher scheduling class takes the CPU: it is yielded, or the thread that ran is kept. Returns true if the threads
 * of the local queue have to be enqueued anew.
 */
static __always_inline bool release_to_class(__u32 cpu, struct task_struct *to)
{
	bool is_kept = keep_behind_rt(cpu);

	if (servers_on)
		stop_serving(cpu);
	yield_to_class(cpu, to->pid, AWAY_REPORTED, is_kept);
	return !is_kept;
}

void OP(grant_cpu_release, __s32 cpu, struct scx_cpu_release_args *args)
{
	if (cpu >= 0 && cpu < MAX_CPUS && release_to_class(cpu, args->task))
		scx_bpf_reenqueue_local();
}

/* The same for kernels without that operation: the CPU switches from a thread of ours to one of a higher class. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(cpu_switches, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (is_rt(next) && !is_rt(prev) && prev->pid && cpu < MAX_CPUS && release_to_class(cpu, next))
		reenqueue_local_later();
	return 0;
}

void OP(grant_cpu_online, __s32 cpu)
{
	if (cpu >= 0 && cpu < MAX_CPUS) {
		init_notice(cpu);
		if (servers_on)
			init_bell(cpu);
		/* Hotplug is serialised. The CPU may not have existed when the scheduler was loaded. */
		if ((__u32)cpu >= shared.nr_cpus)
			shared.nr_cpus = cpu + 1;
		cpu_at(&shared, cpu)->online = 1;
		if (sets_on)
			update_core_kinds(cpu);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	wake_loader();
}

void OP(grant_cpu_offline, __s32 cpu)
{
	if (cpu >= 0 && cpu < MAX_CPUS) {
		struct cpu *c = cpu_at(&shared, cpu);

		__sync_lock_test_and_set(&c->online, 0);
		if (sets_on)
			update_core_kinds(cpu);
		__u32 holder = *(volatile __u32 *)&c->holder;

		if (holder < SYSTEM)
			yield_cpu(cpu, holder);
	}
	wake_loader();
}

__s32 SLEEPABLE_OP(grant_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *t = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->slot = SYSTEM;
	update_mask(p);
	return 0;
}

void OP(grant_set_cpumask, struct task_struct *p, const struct cpumask *cpus)
{
	update_mask(p);
}

__s32 SLEEPABLE_OP(grant_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct cgroup *parent = BPF_CORE_READ(cgrp, self.parent, cgroup);

	return add_group(cgrp->kn->id, parent ? BPF_CORE_READ(parent, kn, id) : 0, parent && owner_of(parent));
}

void SLEEPABLE_OP(grant_cgroup_exit, struct cgroup *cgrp)
{
	remove_group(cgrp->kn->id);
}

/* Creates a queue for each class, unless they exist. */
static __always_inline __s32 create_queue(__u32 number, bool of_each_class)
{
	__s32 error = scx_bpf_create_dsq(queue_in(number, false), -1);

	if (of_each_class && (!error || error == -EEXIST))
		error = scx_bpf_create_dsq(queue_in(number, true), -1);
	return error == -EEXIST ? 0 : error;
}

/* Creates all queues of a slot. */
static __always_inline __s32 create_queues(__u32 slot)
{
	__s32 error = create_queue(slot, true);
	int i;

	bpf_for(i, 0, last_part()) {
		if (!error)
			error = create_queue(number_of_part(slot, i), i >= MASKS);
	}
	return error;
}

/* The loader is about to give this slot to a workload. */
SEC("syscall")
int begin_slot(void *unused)
{
	return create_queues(shared.begins);
}

/* The servers' queues and timers, of the CPUs that are known by now. */
static __always_inline __s32 create_server_queues(void)
{
	int i;

	bpf_for(i, 0, shared.nr_cpus * SERVERS) {
		__u32 number = i;
		__s32 error = scx_bpf_create_dsq(SERVER_DSQ + number, -1);

		if (error)
			return error;
		if (number % SERVERS == 0)
			init_bell(number / SERVERS);
	}
	return 0;
}

__s32 SLEEPABLE_OP(grant_init)
{
	__s32 error = create_queues(SYSTEM);
	int i;

	bpf_for(i, 0, MAX_CPUS) {
		if (!error)
			error = scx_bpf_create_dsq(queue_in(BOUND + i, false), -1);
	}
	if (error)
		return error;
	mask_seed = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	init_notices();
	start_patrol();
	return servers_on ? create_server_queues() : 0;
}

void OP(grant_exit, struct scx_exit_info *info)
{
	exit_code = info->exit_code;
	exit_at = bpf_ktime_get_ns();
	bpf_probe_read_kernel_str(exit_reason, sizeof(exit_reason), info->reason);
	bpf_probe_read_kernel_str(exit_message, sizeof(exit_message), info->msg);
	bpf_probe_read_kernel_str(exit_dump, sizeof(exit_dump), info->dump);
	/* Last: a loader that reads it reads the others. */
	__sync_lock_test_and_set(&shared.exit_kind, info->kind);
	wake_loader();
}

/* Kicks CPUs whose holder changed, all at once; the loop's own one chooses again when the loop sleeps. */
SEC("syscall")
int kick_cpus(void *unused)
{
	struct task_struct *caller = bpf_get_current_task_btf();
	__u32 own = is_loop(caller) ? bpf_get_smp_processor_id() : NO_CPU;
	int i;

	bpf_for(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu != own && (*AT(shared.kick, cpu / 64, MAX_CPUS / 64) & (1ULL << (cpu % 64))) && !begin_grace(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* Empties the queues of a workload that is gone. */
SEC("syscall")
int drain_queue(void *unused)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 slot = shared.drain;

	if (slot >= SYSTEM)
		return 0;
	move_all(queue_in(slot, true), now);
	move_parts(slot, true, now);
	return move_all(queue_in(slot, false), now);
}

/* Empties the queue of a server that is gone. */
SEC("syscall")
int drain_server(void *unused)
{
	if (shared.drain_server >= MAX_CPUS * SERVERS)
		return 0;
	return move_all(SERVER_DSQ + shared.drain_server, bpf_ktime_get_ns());
}

SEC(".struct_ops.link")
struct sched_ext_ops grant_ops = {
	.select_cpu = (void *)grant_select_cpu,
	.enqueue = (void *)grant_enqueue,
	.dispatch = (void *)grant_dispatch,
	.running = (void *)grant_running,
	.stopping = (void *)grant_stopping,
	.quiescent = (void *)grant_quiescent,
	.set_cpumask = (void *)grant_set_cpumask,
	.update_idle = (void *)grant_update_idle,
	.cpu_release = (void *)grant_cpu_release,
	.cpu_online = (void *)grant_cpu_online,
	.cpu_offline = (void *)grant_cpu_offline,
	.init_task = (void *)grant_init_task,
	.cgroup_init = (void *)grant_cgroup_init,
	.cgroup_exit = (void *)grant_cgroup_exit,
	.init = (void *)grant_init,
	.exit = (void *)grant_exit,
	.dump = (void *)grant_dump,
	.dump_cpu = (void *)grant_dump_cpu,
	.dump_task = (void *)grant_dump_task,
	/*
	 * Exiting threads are ours too: left to the kernel, one would wait on a CPU that idles and does not look for
	 * it.
	 */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_KEEP_BUILTIN_IDLE,
	.timeout_ms = 30000,
	.exit_dump_len = DUMP_BYTES,
	.name = "quell_grant",
};
