/* SPDX-License-Identifier: GPL-2.0-only */
/* What spinning threads get of the CPUs: no events, only time that passes. */
#ifndef QUELL_SIMULATED_SHARES_H
#define QUELL_SIMULATED_SHARES_H

#define SPINNERS_SLOT 1 /* a best-effort workload that may hold all CPUs; its cgroup is the next one */

struct spinner {
	__u32 in_workload; /* or one of the system's threads */
	__u32 weight;      /* WEIGHT_ONE: nice 0 */
	__u64 cpus;        /* that it may use, as bits */
};

/*
 * These threads spin on a machine with this many CPUs and caches: for `settle` ns, then for `span` ns, of which each thread's run time is
 * counted in `ran`.
 */
const char *simulation_spins(const struct spinner *spinners, __u32 count, __u32 cpus, __u32 caches, __u64 settle, __u64 span,
			      __u64 *ran)
{
	begin_machine((struct machine){ .cpus = cpus, .caches = caches, .calm = true });
	attach(SPINNERS_SLOT, false);
	enact(SPINNERS_SLOT, 0, 0, cpus, 0);
	for (__u32 i = 0; i < count && i < FIRST_UPKEEP; i++) {
		struct task_struct *p = &host.thread[i];

		bear(i, spinners[i].in_workload ? SPINNERS_SLOT + 1 : 0);
		set_affinity(p, spinners[i].cpus);
		set_weight(p, spinners[i].weight);
		p->cpu = fallback_cpu(p);
		wake(p, 0);
		settle_cpus();
	}
	pass_time(settle);
	memset(sim.ran, 0, sizeof(sim.ran));
	pass_time(span);
	for (__u32 i = 0; i < count && i < FIRST_UPKEEP; i++)
		ran[i] = sim.ran[i];
	check_wholly();
	return sim.violation[0] ? sim.violation : NULL;
}

/*
 * Two latency-critical workloads hold one CPU as one: two threads of the first, with these weights of their own, and one of the other
 * spin for `settle` ns, then for `span` ns. After that the first two exchange their weights, and spin for `span` ns at once.
 */
const char *simulation_spins_as_one(const __u32 *weights, __u64 settle, __u64 span, __u64 *ran)
{
	begin_machine((struct machine){ .cpus = 1, .caches = 1, .calm = true, .together = true });
	attach(0, true);
	attach(1, true);
	join_leader(0, 0, BY_WEIGHT);
	join_leader(1, 0, BY_WEIGHT);
	enact(0, 1, 0, 1, 0);
	for (__u32 i = 0; i < 3; i++) {
		bear(i, i < 2 ? 1 : 2);
		host.thread[i].cpu = 0;
		wake(&host.thread[i], 0);
		settle_cpus();
	}
	for (__u32 turn = 0; turn < 2; turn++) {
		set_thread(0, weights[turn], 0);
		set_thread(1, weights[1 - turn], 0);
		if (!turn)
			pass_time(settle);
		memset(sim.ran, 0, sizeof(sim.ran));
		pass_time(span);
		for (__u32 i = 0; i < 3; i++)
			ran[3 * turn + i] = sim.ran[i];
	}
	check_wholly();
	return sim.violation[0] ? sim.violation : NULL;
}

#endif
