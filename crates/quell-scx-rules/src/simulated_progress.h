/* SPDX-License-Identifier: GPL-2.0-only */
/* Two latency-critical workloads hold one CPU as one, by progress: the first's threads are from 0 on, the other's from 8 on. */
#ifndef QUELL_SIMULATED_PROGRESS_H
#define QUELL_SIMULATED_PROGRESS_H

#define OTHERS 8

static void begin_services(void)
{
	begin_machine((struct machine){ .cpus = 1, .caches = 1, .calm = true, .together = true });
	attach(0, true);
	attach(1, true);
	join_leader(0, 0, BY_PROGRESS);
	join_leader(1, 0, BY_PROGRESS);
	enact(0, 1, 0, 1, 0);
	for (__u32 i = 0; i < 2 * OTHERS; i++) {
		bear(i, i < OTHERS ? 1 : 2);
		host.thread[i].cpu = 0;
	}
}

/* The thread wakes up, by another one or (as OTHERS * 2) from outside. */
static void wake_by(__u32 number, __u32 by)
{
	host.current = by < 2 * OTHERS ? &host.thread[by] : &loader;
	wake(&host.thread[number], SCX_ENQ_WAKEUP);
	host.current = &loader;
	settle_cpus();
}

/* Threads of the first (this many) and one of the other spin for `span` ns: run time of the first's and of the other's. */
const char *simulation_spins_by_progress(__u32 firsts, __u64 span, __u64 *ran)
{
	begin_services();
	for (__u32 i = 0; i < firsts && i < OTHERS; i++)
		wake_by(i, 2 * OTHERS);
	wake_by(OTHERS, 2 * OTHERS);
	pass_time(span);
	ran[0] = ran[1] = 0;
	for (__u32 i = 0; i < 2 * OTHERS; i++)
		ran[i / OTHERS] += sim.ran[i];
	check_wholly();
	return sim.violation[0] ? sim.violation : NULL;
}

/*
 * A thread of the other sleeps on its first one, or none does. Then one of the first runs, a second of the first comes, and
 * after it the other's. The first sleeps after `span` ns: the number of the thread that runs next.
 */
__u32 simulation_next_by_progress(bool sleeps, __u64 span)
{
	begin_services();
	wake_by(OTHERS, 2 * OTHERS);
	wake_by(OTHERS + 1, sleeps ? OTHERS : 2 * OTHERS);
	block(0);
	block(0);
	settle_cpus();
	wake_by(0, 2 * OTHERS);
	wake_by(1, 2 * OTHERS);
	wake_by(OTHERS, 2 * OTHERS);
	pass_time(span);
	if (host.runs[0] == &host.thread[0]) {
		block(0);
		settle_cpus();
	}
	return host.runs[0] ? number_of(host.runs[0]) : HOST_THREADS;
}

#endif
