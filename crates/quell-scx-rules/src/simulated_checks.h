/* SPDX-License-Identifier: GPL-2.0-only */
/* What must hold. After each event in short, now and then wholly. */
#ifndef QUELL_SIMULATED_CHECKS_H
#define QUELL_SIMULATED_CHECKS_H

#define LONGEST_WAIT_NS 18000000000ULL /* overdue after 15 s, found within 1 s, and then the turns of those before it */
#define LONGEST_PARKED_NS 110000000ULL /* two patrols, in a queue of a group that is throttled no more */
#define LONGEST_IDLE_NS 600000000ULL /* starving after 500 ms, and found by the patrol */
#define LATEST_PATROL_NS 1000000ULL

/* The kind of a queue. */
static bool is_by_time(__u64 queue)
{
	return queue >= BY_TIME && queue < THROTTLED_DSQ;
}

static bool is_barred(const struct task_struct *p)
{
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		if (may_use(p, cpu) && sim.active[cpu] && !sim.real_time[cpu])
			return false;
	return true;
}

/* Is it one of the slot's queues, of the class that it has now? */
static bool is_of_slot(__u64 queue, __u32 slot)
{
	if (queue >= THROTTLED_DSQ || is_by_time(queue) == is_fifo(slot))
		return false;
	return slot_of_number(queue % NUMBERS) == slot;
}

/* May the CPU, which idles, run a thread from this queue, by rule? */
static bool may_serve(__u32 cpu, __u64 queue)
{
	struct cpu *c = &shared.cpu[cpu];
	__u32 slot = slot_of_number(queue % NUMBERS);
	struct workload *w = workload_of(slot);

	if (queue >= SERVER_DSQ)
		return is_server_due(cpu, queue);
	if (slot == SYSTEM)
		return true;
	if (is_by_time(queue) == is_fifo(slot) || !is_available(&shared, cpu))
		return false;
	return c->holder == slot || (c->holder == NO_SLOT && w->in_line && w->held < w->limit);
}

static __u64 unserved_by_idle; /* threads, as bits */

/*
 * No CPU idles while a thread waits that it may run. Some things are made good by the patrol only: a thread was sent to an
 * idle CPU that another one took meanwhile; a workload comes or goes while threads wait. Else it holds at once.
 */
static void check_service(void)
{
	for (int i = 0; i < THREADS; i++) {
		if (!(unserved_by_idle >> i & 1))
			sim.idle_since[i] = host.now;
		else if (sim.calm || host.now - sim.idle_since[i] > LONGEST_IDLE_NS)
			violated("a CPU idles while a thread waits that may use it", i, thread_of(&host.thread[i])->slot);
	}
}

static void check_idle(__u32 cpu)
{
	for (int i = 0; i < THREADS; i++) {
		struct task_struct *p = &host.thread[i];
		__u64 queue = p->queue - 1;

		if (sim.where[i] != READY || !p->queue)
			continue;
		if (queue == LOCAL_OF(cpu))
			violated("a CPU idles while a thread is on it", cpu, i);
		if ((queue >= THROTTLED_DSQ && queue < SERVER_DSQ) || queue >= HOST_QUEUES || !may_use(p, cpu) || throttled_by(p, thread_of(p), host.now) != NO_GROUP)
			continue;
		if (may_serve(cpu, queue))
			unserved_by_idle |= 1ULL << i;
	}
}

#define LONGEST_NOT_HOLDERS_NS 300000000ULL /* turns of others are shorter, and the holder's come in between */

/* Do threads of the CPU's holder wait that may run here, while others do, or none? */
static bool is_kept_from_holder(__u32 cpu)
{
	__u32 holder = shared.cpu[cpu].holder;
	struct task_struct *runs = host.runs[cpu];

	if (holder >= WORKLOADS || sim.real_time[cpu] || !sim.active[cpu] || sim.locked >> cpu & 1)
		return false;
	if (is_ours(runs) && (thread_of(runs)->slot == holder || thread_of(runs)->served))
		return false;
	for (int i = 0; i < THREADS; i++) {
		struct task_struct *p = &host.thread[i];

		if (sim.where[i] == READY && p->queue && is_of_slot(p->queue - 1, holder) && may_use(p, cpu) &&
		    throttled_by(p, thread_of(p), host.now) == NO_GROUP)
			return true;
	}
	return false;
}

static void check_holder(__u32 cpu)
{
	if (!is_kept_from_holder(cpu))
		sim.not_holders_since[cpu] = 0;
	else if (!sim.not_holders_since[cpu])
		sim.not_holders_since[cpu] = host.now;
	else if (host.now - sim.not_holders_since[cpu] > LONGEST_NOT_HOLDERS_NS)
		violated("a CPU runs others while its holder's threads wait", cpu, shared.cpu[cpu].holder);
}

/* Is each CPU in the set of its kind, and each slot that waits in one? */
static void check_sets(void)
{
	for (__u32 cpu = 0; sets_on && cpu < sim.cpus; cpu++)
		for (__u32 kind = 0; kind < CPU_KINDS; kind++)
			if (rule_kind(&shared, cpu) == kind && !set_contains(&shared.of_kind[kind], cpu))
				violated("a CPU is not in the set of its kind", cpu, kind);
	for (__u32 slot = 0; slot < WORKLOADS; slot++) {
		for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
			if (has_waiters(workload_of(slot)) && alones[cpu].slot != slot && is_alone_in_line(cpu, alones[cpu].slot))
				violated("a slot waits where another one counts as alone", cpu, slot);
		if (has_waiters(workload_of(slot)) && !set_contains(&shared.waiting[0], slot) && !set_contains(&shared.waiting[1], slot))
			violated("a slot waits and is in no set", slot, 0);
	}
}

/* Are queues by set in which the system's threads wait among those that CPUs look into? */
static void check_system_sets(void)
{
	for (int i = 0; i < MASKS; i++)
		if (queue_has_waiters(number_of_part(SYSTEM, i)) && !(system_sets >> i & 1))
			violated("a queue of the system's waits and is not looked into", i, 0);
}

static void check_cpus(void)
{
	__u32 held[WORKLOADS] = { 0 };

	for (__u32 cpu = 0; cpu < sim.cpus; cpu++) {
		struct cpu *c = &shared.cpu[cpu];
		struct task_struct *p = host.runs[cpu];

		if (c->holder < WORKLOADS)
			held[c->holder]++;
		else if (c->holder < SYSTEM)
			violated("a CPU is held by no workload that there is", cpu, c->holder);
		if (c->holder < SYSTEM && !c->online)
			violated("a CPU that is offline has a holder", cpu, c->holder);
		if (sim.locked >> cpu & 1)
			continue;
		if (is_idle(cpu))
			check_idle(cpu);
		check_holder(cpu);
		if (!is_ours(p))
			continue;
		if (sim.where[number_of(p)] != RUNS || p->cpu != cpu || p->queue)
			violated("a thread runs and is elsewhere, too", cpu, number_of(p));
		__u32 slot = thread_of(p)->slot;

		if (slot < SYSTEM && c->holder != slot && c->holder < SYSTEM && sim.starves[cpu] != (__u32)number_of(p) + 1 &&
		    !thread_of(p)->served && !thread_of(p)->boosted)
			violated("a CPU runs a thread that is not its holder's", cpu, number_of(p));
		if (!may_use(p, cpu))
			violated("a thread runs where it may not", cpu, number_of(p));
	}
	for (__u32 slot = 0; slot < WORKLOADS; slot++) {
		struct workload *w = &shared.workload[slot];

		if (w->held != held[slot])
			violated("held is not the number of CPUs held", slot, w->held);
		if (w->held > most_held[slot])
			violated("a workload holds more than its limit", slot, w->held);
	}
}

/*
 * A thread of the kernel's for one CPU runs at once: unless another one of its kind came first, or for a while behind a
 * latency-critical one.
 */
static void check_upkeep(void)
{
	struct task_struct *p = sim.upkeep;

	if (!p)
		return;
	bool waits = sim.where[number_of(p)] == READY && !(host.runs[p->cpu] && is_percpu_kthread(host.runs[p->cpu]));

	if (waits && upkeep_on(p->cpu)->behind && is_ours(host.runs[p->cpu]) && host.now <= sim.upkeep_since + BEHIND_NS &&
	    thread_of(host.runs[p->cpu])->slot < SYSTEM)
		return;
	sim.upkeep = NULL;
	if (waits)
		violated("a thread of the kernel's upkeep waits, with budget", number_of(p), p->cpu);
}

/* Briefly, after each event. */
static void check(void)
{
	if (host.mixed)
		violated("a queue has threads by time and in the order of coming", 0, 0);
	if (host.missing)
		violated("a thread is put into a queue that there is not", 0, 0);
	unserved_by_idle = 0;
	check_sets();
	check_system_sets();
	check_cpus();
	check_service();
	check_upkeep();
	check_servers();
}

static __u64 waiting[NUMBERS], of_slot[MAX_SLOTS];

/* Do the counts of this slot's queues equal the threads that wait in them? */
static void check_slot(__u32 slot)
{
	if (workload_of(slot)->queued - workload_of(slot)->taken != of_slot[slot])
		violated("queued and taken do not differ by those that wait", slot, of_slot[slot]);
	for (__u32 at = 0; at < PARTS; at++) {
		__u32 number = number_of_part(slot, at);
		__u64 counts = at < MASKS ? masked_of(number)->queued - masked_of(number)->taken :
					    cached_of(number)->queued - cached_of(number)->taken;

		if (counts != waiting[number])
			violated("queued and taken do not differ by those that wait in a part", number - PART, waiting[number]);
	}
}

static void check_threads(void)
{
	for (int i = 0; i < THREADS; i++) {
		struct task_struct *p = &host.thread[i];
		struct thread *t = thread_of(p);
		__u64 queue = p->queue - 1;

		switch (sim.where[i]) {
		case RUNS:
			if (host.runs[p->cpu] != p)
				violated("a thread runs and does not", i, p->cpu);
			/* fallthrough */
		case UNBORN:
		case ASLEEP:
			if (p->queue)
				violated("a thread that does not wait is in a queue", i, p->queue);
			if (t->waits_in)
				violated("a thread that does not wait counts as waiting", i, t->waits_in);
			break;
		case READY:
			if (!p->queue)
				violated("a thread that waits is in no queue", i, 0);
			if (queue < THROTTLED_DSQ && t->waits_in != queue % NUMBERS + 1)
				violated("a thread counts for another queue than it is in", i, t->waits_in);
			if (queue >= SERVER_DSQ && queue < HOST_QUEUES && t->waits_in)
				violated("a thread that waits for its server counts for its workload's queue", i, t->waits_in);
			if (p->flags & PF_EXITING && queue >= THROTTLED_DSQ && queue < SERVER_DSQ)
				violated("a thread that ends waits for a quota", i, queue - THROTTLED_DSQ);
			if (is_barred(p))
				sim.ready_since[i] = host.now;
			else if (host.now - sim.ready_since[i] > LONGEST_WAIT_NS)
				violated("a thread waits for too long", i, thread_of(p)->slot);
			if (queue < THROTTLED_DSQ || queue >= SERVER_DSQ || throttled_by(p, t, host.now) != NO_GROUP)
				sim.parked_since[i] = host.now;
			else if (host.now - sim.parked_since[i] > LONGEST_PARKED_NS)
				violated("a thread stays in the queue of a group that is not throttled", i, queue - THROTTLED_DSQ);
			break;
		}
		if (sim.where[i] != READY)
			sim.parked_since[i] = host.now;
		if (!t->waits_in)
			continue;
		waiting[t->waits_in - 1]++;
		if (!is_percpu_queue(t->waits_in - 1))
			of_slot[slot_of_number(t->waits_in - 1)]++;
	}
	for (__u32 slot = 0; slot < WORKLOADS; slot++)
		check_slot(slot);
	check_slot(SYSTEM);
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		if (bound_on(cpu)->queued - bound_on(cpu)->taken != waiting[BOUND + cpu])
			violated("queued and taken do not differ by those that wait bound", cpu, waiting[BOUND + cpu]);
	for (int i = 0; i < THREADS; i++) {
		__u32 number = thread_of(&host.thread[i])->waits_in - 1;

		if (number < NUMBERS)
			waiting[number] = of_slot[slot_of_number(number)] = 0;
	}
}

/* The patrol is on its way when a period ends. */
static void check_groups(void)
{
	__u32 first = 0, throttled = 0;
	__u64 patrol_at = ((struct patrol *)bpf_map_lookup_elem(&patrols, &first))->timer.at;

	for (__u32 at = 1; at < CGROUPS; at++) {
		struct group *g = group_at(at);
		throttled += g->throttled;
		if (g->throttled && patrol_at > host.now + LATEST_PATROL_NS && patrol_at > g->began + g->period + LATEST_PATROL_NS)
			violated("the patrol comes later than a period ends", at, (patrol_at - g->began - g->period) / 1000);
	}
	if (throttled != throttled_groups)
		violated("throttled groups are counted wrongly", throttled, throttled_groups);
}

/* Each thread that went to a queue in vain had stayed or made way before. */
static void check_counts(void)
{
	__u64 stayed = counted(STAYED) + counted(MADE_WAY);

	if (counted(IN_VAIN) > stayed)
		violated("more threads went in vain than stayed", counted(IN_VAIN), stayed);
}

static void check_wholly(void)
{
	check();
	check_counts();
	check_threads();
	check_groups();
}

#endif
