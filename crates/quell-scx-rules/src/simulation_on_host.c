/* SPDX-License-Identifier: GPL-2.0-only */
/* The whole kernel half on a simulated kernel, driven by random events. One event is four bytes: see `simulation.rs`. */
#include <stdio.h>
#include "kernel_on_host.h"
/* The patrol visits all in several parts, and slots that wait no more are taken out, though there are a few. */
#define PATROL_PART 4
#define FEW_SLOTS 0
/* What traces the kernel beside the scheduler is left out. */
#define QUELL_REQUESTS_H
#define QUELL_UNREAD_H
#include "grant.bpf.c"
#include "cpus_on_host.h"
#include "simulated_kernel.h"
#include "simulated_servers.h"
#include "simulated_machine.h"
#include "simulated_checks.h"
#include "simulated_events.h"
#include "simulated_shares.h"
#include "simulated_progress.h"

#define WHOLLY_EVERY 1000

/* So many random events: the same for the same seed. */
void simulation_draws(__u64 seed, struct event *events, __u32 count)
{
	__u64 state = seed * 0x9e3779b97f4a7c15ULL + 1;

	for (__u32 i = 0; i < count; i++) {
		__u64 word = state += 0x9e3779b97f4a7c15ULL;

		word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
		word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
		word ^= word >> 31;
		events[i] = (struct event){ .kind = word, .a = word >> 8, .b = word >> 16, .between = word >> 24 };
		/* Mostly nothing happens in between. */
		if (word >> 32 & 3)
			events[i].between = 0;
	}
}

/* How often that was decided in the last run. */
__u64 simulation_counted(enum decision what)
{
	return counted(what);
}

/* Runs these events, checking wholly after every so many: NULL, or which invariant does not hold, after the event `at`. */
const char *simulation_runs(const struct event *events, __u32 count, struct machine machine, __u32 wholly_every, __u32 *at)
{
	begin_machine(machine);
	begin_workloads();
	sim_events = events;
	sim_count = count;
	for (sim_next = 0; sim_next < count && !sim.violation[0];) {
		__u32 event = sim_next++;

		happens(&events[event], false);
		settle_cpus();
		*at = sim_next - 1;
		check();
		if (!(event % wholly_every))
			check_wholly();
	}
	if (!sim.violation[0]) {
		check_wholly();
		*at = count;
	}
	return sim.violation[0] ? sim.violation : NULL;
}
