/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QUELL_CPUS_ON_HOST_H
#define QUELL_CPUS_ON_HOST_H

static __u64 counted(enum decision what)
{
	__u64 sum = 0;

	for (__u32 cpu = 0; cpu < MAX_CPUS; cpu++)
		sum += counts[cpu].of[what];
	return sum;
}

/* The CPUs from the first to before the last are near each other. */
static void begin_place(__u32 number, __u32 place, __u32 first, __u32 last)
{
	for (__u32 cpu = first; cpu < last; cpu++) {
		set_add(&shared.at_place[number], cpu);
		shared.cpu[cpu].place[place] = number;
	}
}

/* CPUs without a holder; this number of them are online. */
static void begin_cpus(__u32 cpus)
{
	for (__u32 cpu = 0; cpu < MAX_CPUS; cpu++) {
		struct cpu *c = &shared.cpu[cpu];

		c->holder = c->runs = NO_SLOT;
		c->banned_for = NO_REQUEST;
		c->in_pool = c->online = cpu < cpus;
		for (int i = 0; i < SIBLINGS; i++)
			c->sibling[i] = NO_CPU;
	}
	memset(&shared.at_place[ANYWHERE], 0xff, sizeof(struct set));
	for (__u32 cpu = 0; cpu < cpus; cpu++)
		rule_update_core_kinds(&shared, cpu);
}

#endif
