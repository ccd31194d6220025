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

/* This CPU's counters when the thread came. */
struct base {
	struct bpf_perf_event_value at[COUNTED_EVENTS];
	/* For the counts of threads that are not watched: so there is always a place. */
	struct counted others;
	__s32 tid; /* 0: none */
	__u32 unused;
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

/* The thread `left` leaves this CPU, `from` if it is watched, and `next` comes; 0: one that is not. */
static void count(__u32 cpu, __s32 left, const struct member *from, __s32 next)
{
	struct counted *sum, *own;
	struct base *base;
	__u32 zero = 0;
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
		struct bpf_perf_event_value now = {};
		struct bpf_perf_event_value *before = &base->at[at];

		if (!(counted_events & (1u << at)))
			continue;
		if (bpf_perf_event_read_value(&counters, cpu * COUNTED_EVENTS + at, &now, sizeof(now))) {
			before->enabled = 0;
			__sync_fetch_and_add(&losses.counts, 1);
			continue;
		}
		/* A counter that was opened again began at zero. */
		if (before->enabled && now.counter >= before->counter && now.enabled >= before->enabled) {
			sum->by[at].count += now.counter - before->counter;
			sum->by[at].enabled += now.enabled - before->enabled;
			sum->by[at].running += now.running - before->running;
		}
		*before = now;
	}
	base->tid = next;
}

#endif
