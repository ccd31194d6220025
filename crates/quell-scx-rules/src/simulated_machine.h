/* SPDX-License-Identifier: GPL-2.0-only */
/* The machine at first: its CPUs, cgroups and threads; and what the loader does to workloads, as `program.rs` does it. */
#ifndef QUELL_SIMULATED_MACHINE_H
#define QUELL_SIMULATED_MACHINE_H

#define WORKLOADS 6
#define CGROUPS 9 /* the root; one of each workload; and two that are nested in the first two workloads' */
#define FIRST_CGROUP_ID 100
#define FIRST_UPKEEP (THREADS - 4) /* the kernel's threads of one CPU */

static struct {
	struct css_set css_set;
	struct cgroup cgroup;
	struct kernfs_node node;
	struct task_group task_group;
} cgroup[CGROUPS];
static struct cgroup_subsys_state above_root;
static struct task_struct loader = { .pid = 9999, .prio = 120 };
static __u32 most_held[WORKLOADS]; /* the limit, or more where that was lowered while more was held */

static __u32 parent_of(__u32 at)
{
	return at <= WORKLOADS ? 0 : at - WORKLOADS;
}

static void set_affinity(struct task_struct *p, __u32 cpus)
{
	p->cpus_mask.bits[0] = cpus;
	p->nr_cpus_allowed = __builtin_popcount(cpus);
	grant_set_cpumask(p, p->cpus_ptr);
}

static void set_cgroup(struct task_struct *p, __u32 at)
{
	p->cgroups = &cgroup[at].css_set;
	p->sched_task_group = &cgroup[at].task_group;
}

static void set_weight(struct task_struct *p, __u32 weight)
{
	p->scx.weight = weight;
}

static void make_cgroups(void)
{
	memset(cgroup, 0, sizeof(cgroup));
	for (__u32 at = 0; at < CGROUPS; at++) {
		struct task_group *tg = &cgroup[at].task_group;

		cgroup[at].node.id = FIRST_CGROUP_ID + at;
		cgroup[at].cgroup.kn = &cgroup[at].node;
		cgroup[at].cgroup.self.cgroup = &cgroup[at].cgroup;
		cgroup[at].cgroup.self.parent = at ? &cgroup[parent_of(at)].cgroup.self : &above_root;
		cgroup[at].css_set.dfl_cgrp = &cgroup[at].cgroup;
		tg->css.cgroup = &cgroup[at].cgroup;
		tg->shares = 1 << 20;
		tg->parent = at ? &cgroup[parent_of(at)].task_group : NULL;
		tg->cfs_bandwidth.quota = NO_QUOTA;
		tg->cfs_bandwidth.period = 100000000;
		grant_cgroup_init(&cgroup[at].cgroup, NULL);
	}
}

static void bear(__u32 number, __u32 at)
{
	struct task_struct *p = &host.thread[number];

	memset(p, 0, sizeof(*p));
	p->pid = number + 1;
	p->prio = 120;
	p->cpus_ptr = &p->cpus_mask;
	p->scx.slice = DEFAULT_SLICE;
	p->scx.weight = WEIGHT_ONE;
	if (number >= FIRST_UPKEEP)
		p->flags = PF_KTHREAD;
	set_affinity(p, number >= FIRST_UPKEEP && sim.active[number % sim.cpus] ? 1 << number % sim.cpus : (1 << sim.cpus) - 1);
	set_cgroup(p, number >= FIRST_UPKEEP ? 0 : at);
	grant_init_task(p, NULL);
	in_state(p, ASLEEP);
}

/* `Scx::kick`: these CPUs decide again. */
static void kick(__u64 cpus)
{
	shared.kick[0] = cpus;
	kick_cpus(NULL);
}

/* `Shared::hand_on`. */
static void hand_on(__u32 cpu, __u32 to)
{
	struct cpu *c = &shared.cpu[cpu];
	__u32 from = c->holder;

	if (from == to)
		return;
	if (to < SYSTEM)
		__sync_fetch_and_add(&shared.workload[to].held, 1);
	bool handed = __sync_bool_compare_and_swap(&c->holder, from, to);
	__u32 loses = handed ? from : to;

	if (loses < SYSTEM)
		__sync_fetch_and_sub(&shared.workload[loses].held, 1);
	if (to < SYSTEM && handed && !c->online && __sync_bool_compare_and_swap(&c->holder, to, NO_SLOT))
		__sync_fetch_and_sub(&shared.workload[to].held, 1);
	if (sets_on)
		rule_update_core_kinds(&shared, cpu);
}

/* `Grant::take_all`: the workload loses its CPUs. */
static __u64 take_all(__u32 slot)
{
	__u64 freed = 0;

	for (__u32 cpu = 0; cpu < sim.cpus; cpu++) {
		if (shared.cpu[cpu].holder == slot) {
			hand_on(cpu, PARKED);
			freed |= 1ULL << cpu;
		}
	}
	return freed;
}

/* `Grant::part`: the workload holds CPUs alone from now on, and so do those that it led. */
static void part(__u32 slot)
{
	struct workload *w = &shared.workload[slot];
	__u32 leader = w->leader ? w->leader - 1 : slot;

	if (!w->leader && !w->leads)
		return;
	for (__u32 other = 0; w->leads && other < WORKLOADS; other++)
		if (shared.workload[other].leader == slot + 1)
			shared.workload[other].leader = 0;
	w->leads = w->leader = 0;
	shared.generation++;
	shared.drain = leader;
	drain_queue(NULL);
}

/* `Grant::join`: its threads are the leader's from now on, in this order, and it has no CPUs of its own. */
static void join_leader(__u32 slot, __u32 leader, __u32 order)
{
	struct workload *w = &shared.workload[slot];
	__u64 freed = 0;

	if (w->leads || w->leader || shared.workload[leader].leader)
		return;
	shared.workload[leader].leads = order;
	w->leader = slot == leader ? 0 : leader + 1;
	shared.generation++;
	if (slot != leader) {
		w->guaranteed = w->burst = w->on_wake_up = w->in_line = 0;
		freed = take_all(slot);
	}
	shared.drain = slot;
	drain_queue(NULL);
	kick(freed);
}

/* `Grant::set_threads`. */
static void set_thread(__u32 number, __u32 weight, __u64 latency)
{
	shared.nr_settings = 1;
	shared.setting[0] = (struct setting){ .tid = number + 1, .weight = weight, .latency = latency };
	set_threads(NULL);
}

static void attach(__u32 slot, bool lc)
{
	struct workload *w = &shared.workload[slot];
	__u64 id = FIRST_CGROUP_ID + slot + 1;

	shared.begins = slot;
	begin_slot(NULL);
	w->lc = lc;
	w->limit = w->rank = ~0U;
	w->guaranteed = w->burst = w->on_wake_up = w->in_line = 0;
	w->attached = 1;
	most_held[slot] = ~0U;
	if (shared.nr_slots <= slot)
		shared.nr_slots = slot + 1;
	bpf_map_update_elem(&cgroups, &id, &slot, BPF_ANY);
	shared.generation++;
}

static void detach(__u32 slot)
{
	struct workload *w = &shared.workload[slot];
	__u64 id = FIRST_CGROUP_ID + slot + 1, freed = 0;

	part(slot);
	take_servers(slot);
	bpf_map_delete_elem(&cgroups, &id);
	shared.generation++;
	w->attached = w->guaranteed = w->burst = w->on_wake_up = w->in_line = 0;
	freed = take_all(slot);
	shared.drain = slot;
	drain_queue(NULL);
	kick(freed);
}

/* `Scx::enact`: the rules of a policy; a lower limit is followed by revokes; waiting threads may use CPUs without a holder. */
static void enact(__u32 slot, __u32 guaranteed, __u32 burst, __u32 limit, __u32 rank)
{
	struct workload *w = &shared.workload[slot];
	__u64 freed = 0;

	w->guaranteed = guaranteed;
	w->burst = burst;
	w->limit = limit;
	w->rank = rank;
	w->in_line = w->on_wake_up = 1;
	most_held[slot] = limit;
	for (__u32 cpu = 0; cpu < sim.cpus && w->held > limit; cpu++) {
		if (shared.cpu[cpu].holder == slot) {
			hand_on(cpu, PARKED);
			freed |= 1ULL << cpu;
		}
	}
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		if (has_waiters(w) && shared.cpu[cpu].holder == NO_SLOT)
			freed |= 1ULL << cpu;
	kick(freed);
}

/* What a seed decides of it. */
struct machine {
	__u32 cpus;
	__u32 caches;  /* the CPUs' last-level ones */
	bool calm;     /* nothing happens in between, and the loader sets no new rules */
	bool serves;   /* workloads have servers */
	bool together; /* workloads hold CPUs as one */
	bool sets;     /* there are sets of CPUs */
};

static void begin_machine(struct machine machine)
{
	__u32 cpus = machine.cpus;

	memset(&host, 0, sizeof(host));
	memset(&sim, 0, sizeof(sim));
	memset(&shared, 0, sizeof(shared));
	memset(groups, 0, sizeof(groups));
	memset(by_time, 0, sizeof(by_time));
	memset(counts, 0, sizeof(counts));
	memset(bounds, 0, sizeof(bounds));
	memset(maskeds, 0, sizeof(maskeds));
	memset(has_masks, 0, sizeof(has_masks));
	memset(cacheds, 0, sizeof(cacheds));
	memset(sents, 0, sizeof(sents));
	memset(upkeeps, 0, sizeof(upkeeps));
	memset(alones, 0, sizeof(alones));
	memset(&system_everywhere, 0, sizeof(system_everywhere));
	system_sets = 0;
	memset(server_waits_since, 0, sizeof(server_waits_since));
	memset(terms_changed_at, 0, sizeof(terms_changed_at));
	servers_on = machine.serves;
	sets_on = machine.sets;
	together_on = machine.together;
	caches_on = machine.caches > 1;
	memset(turns, 0, sizeof(turns));
	memset(services, 0, sizeof(services));
	loop_waits = checks_overdue = false;
	unserved = visited = overdue_checked_at = part_to_visit = next_patrol = boosts_checked_at = 0;
	memset(blocked_lc, 0, sizeof(blocked_lc));
	nr_groups = throttled_groups = delegated_groups = nr_stuck = 0;
	groups_generation = 1;
	host.now = 1000000000;
	host.defers = true;
	host.current = &loader;
	host.reenqueue_local = reenqueue_local;
	sim.cpus = shared.nr_cpus = cpus;
	sim.calm = machine.calm;
	shared.nr_caches = machine.caches;
	shared.generation = 1;
	shared.lc_slice_ns = 20000000;
	shared.be_slice_ns = 4000000;
	shared.system_ns = 50000000;
	shared.wake_up_latency_ns = 4000000;
	shared.starving_ns = 500000000;
	begin_cpus(cpus);
	for (__u32 cpu = 0; cpu < cpus; cpu++) {
		shared.cpu[cpu].cache = cpu * machine.caches / cpus;
		begin_place(ANYWHERE + 1 + shared.cpu[cpu].cache, 0, cpu, cpu + 1);
	}
	for (__u32 cpu = 0; cpu < cpus; cpu++) {
		struct task_struct *p = &host.thread[FIRST_REAL_TIME + cpu];

		p->pid = FIRST_REAL_TIME + cpu + 1;
		p->prio = 50;
		p->cpu = cpu;
		sim.active[cpu] = true;
	}
	next_patrol = host.now + PATROL_NS;
	grant_init();
	make_cgroups();
	host.idle = (1ULL << cpus) - 1;
}

#endif
