/* SPDX-License-Identifier: GPL-2.0-only */
/* The whole kernel half in this process, on a kernel that does one thing at a time; and what the tests do to it. */
#include "kernel_on_host.h"
/* What traces the kernel beside the scheduler is left out. */
#define QUELL_REQUESTS_H
#define QUELL_UNREAD_H
#include "grant.bpf.c"
#include "cpus_on_host.h"

static struct css_set css_set;
static struct cgroup cgroup;
static struct kernfs_node node = { .id = 1 };
static struct task_group task_group;

/* A machine with so many CPUs, all in the pool and idle, and the root group. */
struct shared *half_begin(__u32 cpus)
{
	memset(&host, 0, sizeof(host));
	memset(&shared, 0, sizeof(shared));
	memset(groups, 0, sizeof(groups));
	memset(by_time, 0, sizeof(by_time));
	memset(counts, 0, sizeof(counts));
	memset(upkeeps, 0, sizeof(upkeeps));
	memset(bounds, 0, sizeof(bounds));
	memset(maskeds, 0, sizeof(maskeds));
	memset(has_masks, 0, sizeof(has_masks));
	memset(cacheds, 0, sizeof(cacheds));
	memset(services, 0, sizeof(services));
	memset(sents, 0, sizeof(sents));
	memset(blocked_lc, 0, sizeof(blocked_lc));
	loop_waits = checks_overdue = false;
	unserved = visited = overdue_checked_at = part_to_visit = boosts_checked_at = core_scheduled = 0;
	throttled_groups = delegated_groups = nr_stuck = 0;
	next_patrol = 0;
	servers_on = false;
	shared.sets = 1;
	sets_on = true;
	shared.nr_cpus = cpus;
	shared.generation = 1;
	begin_cpus(cpus);
	css_set.dfl_cgrp = &cgroup;
	cgroup.kn = &node;
	groups[0] = (struct group){ .id = 1, .parent = NO_GROUP, .weight = WEIGHT_ONE };
	nr_groups = groups_generation = 1;
	grant_init();
	for (__u32 slot = 0; slot < HOST_CPUS; slot++)
		create_queues(slot);
	return &shared;
}

/* From now on there are servers. */
void half_begins_serving(void)
{
	servers_on = true;
	create_server_queues();
}

/* The thread runs from now on, on the CPU where it is. */
void half_runs(__u32 number)
{
	struct task_struct *p = &host.thread[number % HOST_THREADS];

	p->queue = 0;
	p->scx.flags = SCX_TASK_QUEUED;
	host.here = p->cpu;
	grant_running(p);
}

/* It stops. If it could go on it is enqueued again. */
void half_stops(__u32 number, bool runnable)
{
	struct task_struct *p = &host.thread[number % HOST_THREADS];

	host.here = p->cpu;
	grant_stopping(p, runnable);
	p->scx.flags = 0;
	if (runnable)
		grant_enqueue(p, 0);
	else
		grant_quiescent(p, SCX_DEQ_SLEEP);
}

/* The CPU has found nothing to run. */
void half_idles(__u32 cpu)
{
	host.here = cpu;
	grant_update_idle(cpu, true);
	host.idle |= 1ULL << cpu;
}

/* When the servers' timer of this CPU ends something. */
__u64 half_rings_at(__u32 cpu)
{
	return shared.serving[cpu].timer_at;
}

/* The queue of threads of this CPU's first server: how many wait there. */
__u32 half_waits_for_server(__u32 cpu)
{
	return scx_bpf_dsq_nr_queued(queue_of_server(cpu, 0));
}

struct shared *half_shared(void)
{
	return &shared;
}

/* Was the CPU told to look again, if it is idle? */
bool half_is_woken(__u32 cpu)
{
	return host.kicked_if_idle >> cpu & 1;
}

/* How often that was decided, on all CPUs. */
__u64 half_counted(enum decision what)
{
	return counted(what);
}

void half_sets_clock(__u64 now)
{
	host.now = now;
}

/* Once, when the code comes there. */
void half_does_at(enum place place, void (*what)(void))
{
	host.hook[place] = what;
}

/* A thread of the workload in this slot, which may run on these CPUs, was last on that one, and sleeps. */
struct task_struct *half_thread(__u32 number, __u32 slot, __u64 cpus, __u32 cpu)
{
	struct task_struct *p = &host.thread[number % HOST_THREADS];
	struct thread *t = thread_of(p);

	memset(p, 0, sizeof(*p));
	p->pid = number + 1;
	p->prio = 120;
	p->cpus_mask.bits[0] = cpus;
	p->cpus_ptr = &p->cpus_mask;
	p->nr_cpus_allowed = __builtin_popcountll(cpus);
	p->cgroups = &css_set;
	p->sched_task_group = &task_group;
	p->scx.weight = WEIGHT_ONE;
	p->cpu = cpu;
	t->slot = slot;
	t->cgroup = node.id;
	t->generation = shared.generation;
	t->tg = (__u64)&task_group;
	t->groups_generation = groups_generation;
	update_mask(p);
	return p;
}

/* A real-time thread is on this CPU, or is about to be; none: NULL. */
void half_has_real_time(__u32 cpu, bool is_about_to)
{
	struct task_struct *p = &host.thread[HOST_THREADS - 1];

	p->pid = HOST_THREADS;
	p->prio = 50;
	host.rq[cpu].rt.rt_nr_running = 1;
	if (!is_about_to)
		host.runs[cpu] = p;
}

/* The kernel tells that a real-time thread takes the CPU. */
void half_releases(__u32 cpu)
{
	struct scx_cpu_release_args args = { .task = &host.thread[HOST_THREADS - 1] };
	__u32 here = host.here;

	args.task->pid = HOST_THREADS;
	args.task->prio = 50;
	host.here = cpu;
	grant_cpu_release(cpu, &args);
	host.here = here;
}

/* The thread with this number comes into its workload's queue. */
void half_enqueues(__u32 number, __u64 flags)
{
	grant_enqueue(&host.thread[number % HOST_THREADS], flags);
}

/* The thread with this number wakes up. Was it sent to a CPU already when that was chosen? It is there then; else NO_CPU. */
__u32 half_sends(__u32 number)
{
	struct task_struct *p = &host.thread[number % HOST_THREADS];
	__u32 cpu = grant_select_cpu(p, p->cpu, SCX_ENQ_WAKEUP);

	if (!p->queue)
		return NO_CPU;
	p->cpu = cpu;
	p->queue = LOCAL_OF(cpu) + 1;
	return cpu;
}

__u32 half_chooses(struct task_struct *p)
{
	return choose_free_cpu(p, thread_of(p)->slot);
}

/* How often the loader was woken up, since it was asked last. */
__u64 half_told(void)
{
	__u64 told = host.told;

	host.told = 0;
	return told;
}

/* It is a thread of the kernel's for the CPU where it may run. */
void half_is_of_kernel(__u32 number)
{
	host.thread[number % HOST_THREADS].flags |= PF_KTHREAD;
}

/* The first thread of the CPU's local queue: its number, or -1. */
__s32 half_first_on(__u32 cpu)
{
	struct task_struct *p = first_of(LOCAL_OF(cpu), NULL, HOST_CPUS);

	return p ? p->pid - 1 : -1;
}

/* What is left of the thread's slice, in ns. */
__u64 half_slice(__u32 number)
{
	return host.thread[number % HOST_THREADS].scx.slice;
}

/* The kernel's upkeep has run for so long; what is left of its budget then. */
__u64 half_uses_upkeep(__u32 cpu, __u64 ran, __u64 now)
{
	charge_upkeep(cpu, ran, now);
	return refill_upkeep(cpu, now);
}

bool half_takes(__u32 cpu, __u32 slot)
{
	return try_take_cpu(cpu, slot);
}

bool half_takes_chosen(__u32 cpu, __u32 slot)
{
	return try_take_chosen(cpu, slot);
}

/* The CPU chooses its next thread: its number, or -1. */
__s32 half_dispatches(__u32 cpu)
{
	for (int i = 0; i < HOST_THREADS; i++)
		if (host.thread[i].queue == LOCAL_OF(cpu) + 1)
			host.thread[i].queue = 0;
	host.here = cpu;
	grant_dispatch(cpu, NULL);
	struct task_struct *p = first_of(LOCAL_OF(cpu), NULL, HOST_CPUS);

	return p ? p->pid - 1 : -1;
}

/* A thread has a cookie of core scheduling, or none has; then the patrol comes. Does the loader hear that one has? */
bool half_hears_of_cookies(bool has)
{
	__u32 first = 0;

	for (__u32 cpu = 0; cpu < HOST_CPUS; cpu++)
		host.rq[cpu].core_enabled = has;
	patrol(&patrols, &first, bpf_map_lookup_elem(&patrols, &first));
	return core_scheduled;
}

void half_goes_offline(__u32 cpu)
{
	grant_cpu_offline(cpu);
}

void half_wants_since(struct task_struct *p, __u64 since)
{
	thread_of(p)->runnable_since = since;
}

bool half_is_overdue(struct task_struct *p)
{
	return thread_of(p)->overdue;
}

void half_hurries(__u32 slot, __u64 now)
{
	expedite_overdue(slot, now);
}

bool half_is_served_at_once(__u32 slot, __u64 now)
{
	return is_uncontended(workload_of(slot), now);
}

void half_fetches(__u32 cpu, __u64 now)
{
	fetch_kept(cpu, now);
}

void half_patrols_by(__u64 at)
{
	schedule_patrol(at, host.now);
}

/* When the patrol comes. */
__u64 half_next_patrol(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&patrols, &first)->timer.at;
}

void half_patrols(void)
{
	__u32 first = 0;

	patrol(&patrols, &first, bpf_map_lookup_elem(&patrols, &first));
}

void half_drains(__u32 slot)
{
	shared.drain = slot;
	drain_queue(NULL);
}

/* Has a queue had threads by time and in the order of coming? The kernel ends a scheduler for that. */
bool half_is_mixed(void)
{
	return host.mixed;
}

/* The thread's cgroup is another workload's from now on. */
void half_belongs_to(__u32 number, __u32 slot)
{
	thread_of(&host.thread[number % HOST_THREADS])->slot = slot;
}

/* A root cgroup, and no other ones. */
void half_begins_groups(void)
{
	memset(groups, 0, sizeof(groups));
	nr_groups = 0;
	add_group(1, 0, false);
}

/* A cgroup comes below this one, which an ordinary user owns or not. Has it a place? */
bool half_makes_group(__u64 id, __u64 parent, bool delegated)
{
	add_group(id, parent, delegated);
	return bpf_map_lookup_elem(&places, &id);
}

/* A cgroup goes, and its place is free. */
void half_removes_group(__u64 id)
{
	remove_group(id);
	visit_groups(0, false, host.now);
}

/* The cgroup may use so many ns in 100 ms. */
void half_limits_group(__u64 id, __u64 quota)
{
	struct group *g = group_at(*bpf_map_lookup_elem(&places, &id));

	g->limited = 1;
	g->quota = g->budget = quota;
	g->period = 100000000;
	g->began = host.now;
}

/* A thread of this cgroup ran for so long: is the other cgroup throttled? */
bool half_throttles_group(__u64 id, __u64 ran, __u64 other)
{
	__u32 at = *bpf_map_lookup_elem(&places, &id);

	for (__u32 i = at; i < MAX_GROUPS; i = group_at(i)->parent)
		group_at(i)->limited = i > 0;
	charge_quota(at, ran, host.now);
	return group_at(*bpf_map_lookup_elem(&places, &other))->throttled;
}

/* The group of all threads has used up its quota, of which each period of 100 ms gives 20 ms. */
void half_throttles(void)
{
	struct group *g = group_at(0);

	g->limited = g->throttled = throttled_groups = 1;
	g->quota = 20000000;
	g->period = 100000000;
	g->began = host.now;
	g->budget = 0;
}
