/* SPDX-License-Identifier: GPL-2.0-only */
/* Deferrable servers of the simulated machine: what the loader does to them, their timers, and what must hold. */
#ifndef QUELL_SIMULATED_SERVERS_H
#define QUELL_SIMULATED_SERVERS_H

#define LONGEST_OVERRUN_NS 20000ULL /* what happens in between takes some of these; time else stops where a budget ends */
#define LONGEST_SERVER_WAIT_NS 2000000ULL /* two looks in vain, or a turn of others before a look in vain */

static __u64 server_waits_since[HOST_CPUS][SERVERS]; /* 0: it does not */
static __u64 terms_changed_at[HOST_CPUS][SERVERS];

/* `Grant::set_server`. */
static void set_server(__u32 slot, __u32 cpu, __u64 budget, __u64 period, __u32 priority)
{
	struct serving *v = serving_on(cpu);
	__u32 known = SERVERS, free = SERVERS;

	for (__u32 at = SERVERS; at-- > 0;) {
		struct server *s = &v->server[at];

		if (s->slot == slot && (s->on || s->next_period > host.now))
			known = at;
		if (!s->on)
			free = at;
	}
	if (known == SERVERS && free == SERVERS)
		return;
	struct server *s = &v->server[known < SERVERS ? known : free];

	if (known < SERVERS) {
		__u32 other = (s->given + 1) % 2;

		s->budgets[other] = budget;
		s->periods[other] = period;
		s->given = other;
		terms_changed_at[cpu][s - v->server] = host.now;
	} else {
		s->given = 0;
		s->budgets[0] = s->budget = s->left = budget;
		s->periods[0] = s->period = period;
		s->next_period = host.now + period;
		s->reported_until = s->overrun = 0;
		s->slot = slot;
	}
	s->priority = priority;
	if (s->on)
		return;
	s->on = 1;
	server_waits_since[cpu][s - v->server] = 0;
	shared.workload[slot].servers++;
	if (v->servers < s - v->server + 1U)
		v->servers = s - v->server + 1;
	shared.generation++;
}

/* `Grant::take_server`. */
static void take_server(__u32 slot, __u32 cpu)
{
	for (__u32 at = 0; at < SERVERS; at++) {
		struct server *s = server_at(cpu, at);

		if (s->slot != slot || !s->on)
			continue;
		s->on = 0;
		shared.workload[slot].servers--;
		shared.generation++;
		shared.drain_server = cpu * SERVERS + at;
		drain_server(NULL);
		return;
	}
}

static void take_servers(__u32 slot)
{
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		take_server(slot, cpu);
}

static struct bell *bell_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&bells, &cpu);
}

/* When the next of the servers' timers rings, or `until`. */
static __u64 next_bell(__u64 until)
{
	for (__u32 cpu = 0; servers_on && cpu < sim.cpus; cpu++)
		if (bell_of(cpu)->timer.at && bell_of(cpu)->timer.at < until)
			until = bell_of(cpu)->timer.at;
	return until;
}

static void ring_bells(void)
{
	for (__u32 cpu = 0; servers_on && cpu < sim.cpus; cpu++) {
		struct bell *bell = bell_of(cpu);

		if (!bell->timer.at || bell->timer.at > host.now)
			continue;
		bell->timer.at = 0;
		ring(&bells, &cpu, bell);
	}
}

/* Does the thread wait in the queue of a server that has budget on this CPU? */
static bool is_server_due(__u32 cpu, __u64 queue)
{
	__u32 number = queue - SERVER_DSQ;
	struct server *s = server_at(cpu, number % SERVERS);

	return servers_on && number / SERVERS == cpu && s->on && rule_server_has_budget(s, host.now);
}

/* Does a server with budget wait for its CPU, though nothing above it runs there? */
static bool is_kept_waiting(__u32 cpu, __u32 at)
{
	struct server *s = server_at(cpu, at);
	struct task_struct *runs = host.runs[cpu];

	if (!sim.active[cpu] || sim.real_time[cpu] || !s->on || !rule_server_has_budget(s, host.now) ||
	    !first_of(queue_of_server(cpu, at), NULL, cpu) || sim.locked >> cpu & 1)
		return false;
	if (!is_ours(runs) || !thread_of(runs)->served)
		return !first_of(LOCAL_OF(cpu), NULL, HOST_CPUS);
	__u32 number = thread_of(runs)->served - 1;

	return number / SERVERS != cpu || server_at(cpu, number % SERVERS)->priority < s->priority;
}

/* New terms count for a period, too, that has begun and was not looked at yet: what ran in it by the old ones may be more. */
static void check_overrun(__u32 cpu, __u32 at)
{
	struct server *s = server_at(cpu, at);

	if (s->overrun <= LONGEST_OVERRUN_NS)
		return;
	if (s->next_period - s->period > terms_changed_at[cpu][at])
		violated("a server ran beyond its budget", cpu, s->overrun);
	s->overrun = 0;
}

static void check_servers(void)
{
	for (__u32 cpu = 0; servers_on && cpu < sim.cpus; cpu++) {
		for (__u32 at = 0; at < serving_on(cpu)->servers; at++) {
			__u64 *since = &server_waits_since[cpu][at];

			check_overrun(cpu, at);
			if (!is_kept_waiting(cpu, at))
				*since = 0;
			else if (!*since)
				*since = host.now;
			else if (host.now - *since > LONGEST_SERVER_WAIT_NS)
				violated("a server with budget waits for its CPU", cpu, at);
		}
	}
}

#endif
