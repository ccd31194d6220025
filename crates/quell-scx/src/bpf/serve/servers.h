/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The servers of a CPU: their places, their use, and the timer that ends budgets and periods.
 *
 * Problem: a budget ends while a thread runs, and no event of the scheduler is due then.
 *
 * Rule: a timer a CPU, set to the next end of a budget, of a period or of a turn. It kicks the CPU, and changes
 * nothing itself.
 *
 * Callers: `serve/serve.h`, `hold/dispatch.h`; `charge_server`: `groups/quota.h`; `server_of`: `groups/slots.h`.
 *
 * Limits: four servers a CPU. A server on a CPU that is offline serves no thread.
 */
#ifndef QUELL_SERVERS_H
#define QUELL_SERVERS_H

#include "lib/state.h"

static __always_inline struct serving *serving_on(__u32 cpu)
{
	return AT(shared.serving, cpu, MAX_CPUS);
}

static __always_inline struct server *server_at(__u32 cpu, __u32 at)
{
	return AT(serving_on(cpu)->server, at, SERVERS);
}

/* A server, counted over all CPUs. */
static __always_inline __u32 server_number(__u32 cpu, __u32 at)
{
	return cpu * SERVERS + at;
}

#define NO_SERVER SERVERS

/* The workload's server on this CPU, by its place there. */
GLOBAL_FUNC __u32 server_of(__u32 cpu, __u32 slot)
{
	int i;

	if (cpu >= MAX_CPUS || !cpu_at(&shared, cpu)->online)
		return NO_SERVER;
	FOR(i, 0, serving_on(cpu)->servers) {
		__u32 at = i;

		if (at >= SERVERS)
			break;
		struct server *s = server_at(cpu, at);

		if (s->on && s->slot == slot)
			return at;
	}
	return NO_SERVER;
}

/* Charges what the thread ran since last time to its server. */
static __always_inline void charge_server(struct thread *t, __u64 now)
{
	__u32 number = t->served - 1;
	struct server *s = server_at(number / SERVERS, number % SERVERS);

	if (!t->ran_at || s->slot != t->slot)
		return;
	__u64 over = rule_server_ran(s, t->ran_at, now);

	if (over > s->overrun)
		s->overrun = over;
}

struct bell {
	struct bpf_timer timer;
};

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, __u32);
	__type(value, struct bell);
} bells SEC(".maps");

/* A budget, a period or a turn ends: kicks the CPU. */
static int ring(void *map, __u32 *key, struct bell *bell)
{
	__u32 cpu = *key;

	if (cpu >= MAX_CPUS)
		return 0;
	__u64 at = *(volatile __u64 *)&serving_on(cpu)->timer_at;

	/* It may have been set anew meanwhile, and rings again. */
	if (at && has_elapsed(at, bpf_ktime_get_ns(), 0) && __sync_val_compare_and_swap(&serving_on(cpu)->timer_at, at, 0) == at)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Sets the CPU's timer to this time; NEVER: none. The rq lock of the CPU is held. */
GLOBAL_FUNC int arm_bell(__u32 cpu, __u64 at)
{
	if (cpu >= MAX_CPUS || at == serving_on(cpu)->timer_at)
		return 0;
	struct bell *bell = bpf_map_lookup_elem(&bells, &cpu);

	serving_on(cpu)->timer_at = at == NEVER ? 0 : at;
	if (bell && at != NEVER)
		bpf_timer_start(&bell->timer, at,
				BPF_F_TIMER_ABS | (bpf_get_smp_processor_id() == cpu ? BPF_F_TIMER_CPU_PIN : 0));
	return 0;
}

/* The kernel does not initialise a timer twice. */
static __always_inline void init_bell(__u32 cpu)
{
	struct bell *bell = bpf_map_lookup_elem(&bells, &cpu);

	if (!bell)
		return;
	bpf_timer_init(&bell->timer, &bells, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&bell->timer, ring);
}

#endif
