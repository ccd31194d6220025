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

/* CPUs without a holder; this number of them are online. */
static void begin_cpus(__u32 cpus)
{
	for (__u32 cpu = 0; cpu < MAX_CPUS; cpu++) {
		struct cpu *c = &shared.cpu[cpu];

		c->holder = c->runs = NOBODY;
		c->banned_for = NO_REQUEST;
		c->in_pool = c->online = cpu < cpus;
		for (int i = 0; i < SIBLINGS; i++)
			c->sibling[i] = NO_CPU;
	}
}

#endif
