/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What hardware counters count, added up by workload at the switch: a set of counters a CPU, however many workloads.
 *
 * A CPU's counters are read when a watched thread leaves it or comes to it. What they counted since it came is its
 * workload's; what they counted under other threads is left out.
 */
#ifndef QUELL_COUNTING_H
#define QUELL_COUNTING_H

/* Which of the events are counted, by bit; 0: none, and the verifier drops all of this. Set before the program is loaded. */
const volatile __u32 counted_events;

/* By CPU and event: the counter's descriptor. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, COUNTED_EVENTS * MAX_CPUS);
	__type(key, __u32);
	__type(value, __u32);
} counters SEC(".maps");

/* This CPU's counters. */
struct base {
	/* As of the last time that they were settled. */
	struct counter_time times[COUNTED_EVENTS];
	/* When the thread came. */
	__u64 at[COUNTED_EVENTS];
	/* For the counts of threads that are not watched: so there is always a place. */
	struct counted others;
	__s32 tid;   /* the thread; 0: one that is not watched */
	__u32 known; /* which of `at` were read, by bit */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct base);
} bases SEC(".maps");

/* By slot; the loader makes it small where nothing is counted. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SLOTS);
	__type(key, __u32);
	__type(value, struct counted);
} counted SEC(".maps");

#define MAX_ERRNO 4095

/* The thread `left` leaves this CPU, `from` if it is watched, and `next` comes; 0: one that is not. */
static void count(__u32 cpu, __s32 left, const struct member *from, __s32 next)
{
	struct counted *sum, *own;
	struct base *base;
	__u32 zero = 0, known = 0;
	int at;

	base = bpf_map_lookup_elem(&bases, &zero);
	if (!base)
		return;
	sum = &base->others;
	if (from && base->tid == left) {
		__u32 slot = from->slot;

		own = bpf_map_lookup_elem(&counted, &slot);
		if (own)
			sum = own;
	}
	for (at = 0; at < COUNTED_EVENTS; at++) {
		__u64 now;

		if (!(counted_events & (1u << at)))
			continue;
		/* Without its times, which would cost as much again: they are read when counts are settled. */
		now = bpf_perf_event_read(&counters, cpu * COUNTED_EVENTS + at);
		if (now >= (__u64)-MAX_ERRNO) {
			__sync_fetch_and_add(&losses.counts, 1);
			continue;
		}
		/* A counter that was opened again began at zero. */
		if (base->known & (1u << at) && now >= base->at[at])
			sum->count[at] += now - base->at[at];
		base->at[at] = now;
		known |= 1u << at;
	}
	base->known = known;
	base->tid = next;
}

static void read_times(__u32 cpu)
{
	struct bpf_perf_event_value now;
	struct base *base;
	__u32 zero = 0;
	int at;

	base = bpf_map_lookup_elem(&bases, &zero);
	if (!base)
		return;
	for (at = 0; at < COUNTED_EVENTS; at++) {
		if (!(counted_events & (1u << at)))
			continue;
		if (bpf_perf_event_read_value(&counters, cpu * COUNTED_EVENTS + at, &now, sizeof(now)))
			continue;
		base->times[at].enabled = now.enabled;
		base->times[at].running = now.running;
	}
}

#endif
