/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens to the machine: four bytes say what, to whom, and whether the next event comes in between. */
#ifndef QUELL_SIMULATED_EVENTS_H
#define QUELL_SIMULATED_EVENTS_H

struct event {
	__u8 kind, a, b;
	__u8 between; /* the next event happens where the code comes by a place for the so many-th time; 0: afterwards */
};

static const struct event *sim_events;
static __u32 sim_count, sim_next;
static __u32 places_to_go;

enum kind {
	WAKES, SLEEPS, YIELDS_CPU, FORKS, EXITS, BINDS, MOVES, RENICES, TIME_PASSES, TICKS, REAL_TIME_COMES, REAL_TIME_GOES,
	ATTACHES, DETACHES, RULES, GRANTS, REVOKES, LIMITS_TIME, WEIGHS_GROUP, GOES_OFFLINE, COMES_ONLINE, KINDS,
};

/* Of 256: how often each comes. */
static const __u8 often[KINDS] = {
	[WAKES] = 66, [SLEEPS] = 42, [YIELDS_CPU] = 6, [FORKS] = 6, [EXITS] = 5, [BINDS] = 14, [MOVES] = 8, [RENICES] = 2,
	[TIME_PASSES] = 42, [TICKS] = 4, [REAL_TIME_COMES] = 8, [REAL_TIME_GOES] = 10, [ATTACHES] = 3, [DETACHES] = 2,
	[RULES] = 6, [GRANTS] = 10, [REVOKES] = 3, [LIMITS_TIME] = 8, [WEIGHS_GROUP] = 2, [GOES_OFFLINE] = 4, [COMES_ONLINE] = 5,
};

static const char *const names[KINDS] = {
	"wakes", "sleeps", "yields", "forks", "exits", "binds", "moves", "renices", "time passes", "ticks", "real time comes",
	"real time goes", "attaches", "detaches", "rules", "grants", "revokes", "limits time", "weighs a group", "goes offline",
	"comes online",
};

static enum kind kind_of(const struct event *e)
{
	__u32 left = e->kind;

	for (int kind = 0; kind < KINDS; kind++) {
		if (left < often[kind])
			return kind;
		left -= often[kind];
	}
	return WAKES;
}

const char *simulation_name(const struct event *e)
{
	return names[kind_of(e)];
}

static bool is_locked(__u32 cpu)
{
	return sim.locked >> cpu & 1;
}

/* One of the threads in this state, by the event's number: not one on a CPU whose lock is held. */
static struct task_struct *thread_in(enum where where, __u32 number)
{
	for (__u32 i = 0; i < THREADS; i++) {
		__u32 at = (number + i) % THREADS;

		if (sim.where[at] == where && !is_locked(host.thread[at].cpu))
			return &host.thread[at];
	}
	return NULL;
}

/* A CPU on which one of our threads runs. */
static __u32 busy_cpu(__u32 number)
{
	for (__u32 i = 0; i < sim.cpus; i++) {
		__u32 cpu = (number + i) % sim.cpus;

		if (is_ours(host.runs[cpu]) && !is_locked(cpu) && sim.active[cpu])
			return cpu;
	}
	return NO_CPU;
}

static __u32 some_cpus(__u8 bits)
{
	__u32 all = (1 << sim.cpus) - 1, active = 0;
	__u32 some = bits & 128 ? 1 << bits % sim.cpus : bits & all;

	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		active |= sim.active[cpu] << cpu;
	return some & active ? some : all;
}

/* `Scx::fetch_who_stays`. */
static void fetch_who_stays(void)
{
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++) {
		__u32 number = __sync_lock_test_and_set(&shared.cpu[cpu].fetch, 0) - 1;

		if (number < THREADS && sim.where[number] == READY)
			change(&host.thread[number], set_weight, host.thread[number].scx.weight);
	}
}

/* Until the next timer or the end of a slice, at most until then. */
static void pass_time_by(__u64 until)
{
	__u32 first = 0;
	struct patrol *p = bpf_map_lookup_elem(&patrols, &first);
	__u64 next = until;

	if (p->timer.at < next)
		next = p->timer.at;
	next = next_bell(next);
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		if (is_ours(host.runs[cpu]) && sim.counted[cpu] + host.runs[cpu]->scx.slice < next)
			next = sim.counted[cpu] + host.runs[cpu]->scx.slice;
	if (next > host.now)
		host.now = next;
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++) {
		update_curr(cpu);
		if (is_ours(host.runs[cpu]) && !host.runs[cpu]->scx.slice)
			sim.resched[cpu] = true;
	}
	if (p->timer.at <= host.now)
		patrol(&patrols, &first, p);
	fetch_who_stays();
	ring_bells();
	settle_cpus();
}

static void pass_time(__u64 span)
{
	__u64 until = host.now + span, before = host.now;
	__u32 steps = 0;

	while (host.now < until && !sim.violation[0]) {
		pass_time_by(until);
		steps = host.now == before ? steps + 1 : 0;
		before = host.now;
		if (steps > SETTLES)
			violated("timers ring again and again", 0, 0);
		check();
	}
}

/* From a microsecond to a second, the longer the rarer. */
static __u64 span_of(const struct event *e)
{
	__u32 power = e->a % 32;

	if (power >= 20 && e->a >= 32 * 2)
		power -= 10;
	return (1000ULL << (power % 21)) / 256 * (e->b + 1);
}

/* The last that it does, without interrupts: a kick from there would stay pending, in the way of all later ones. */
static void idles_for_the_last_time(__u32 cpu)
{
	__u64 kicked = host.kicked, kicked_if_idle = host.kicked_if_idle;

	grant_update_idle(cpu, true);
	if (host.kicked != kicked || host.kicked_if_idle != kicked_if_idle)
		violated("a CPU that went offline kicks one", cpu, 0);
}

static void go_offline(__u32 cpu, bool between)
{
	__u32 actives = 0;

	for (__u32 i = 0; i < sim.cpus; i++)
		actives += sim.active[i];
	if (!sim.active[cpu] || actives < 2 || sim.real_time[cpu] || is_locked(cpu) || (between && host.runs[cpu]))
		return;
	sim.active[cpu] = false;
	host.idle &= ~(1ULL << cpu);
	/* A thread that may run nowhere else may run anywhere from now on. */
	for (int i = 0; i < THREADS; i++)
		if (sim.where[i] != UNBORN && fallback_cpu(&host.thread[i]) == NO_CPU)
			change(&host.thread[i], set_affinity, (1 << sim.cpus) - 1);
	grant_cpu_offline(cpu);
	if (is_ours(host.runs[cpu]))
		push(cpu, host.runs[cpu]);
	for (struct task_struct *p; (p = first_of(LOCAL_OF(cpu), NULL, HOST_CPUS));)
		migrate(p, fallback_cpu(p));
	host.runs[cpu] = NULL;
	sim.released[cpu] = false;
	idles_for_the_last_time(cpu);
}

/* A server of 1 to 32 ms, of a period up to 16 times as long; or it goes. */
static void serve_by(__u32 slot, const struct event *e)
{
	__u32 cpu = e->b % sim.cpus;
	__u64 budget = 1000000ULL << (e->a / 8 % 6);

	if (e->b >= 200)
		take_server(slot, cpu);
	else
		set_server(slot, cpu, budget, budget * (1 + e->b / 8 % 16), e->a / 64);
	kick(1ULL << cpu);
}

/* A latency-critical workload holds CPUs as one with the event's other one, or does so no more; a thread gets a setting. */
static void hold_as_one(__u32 slot, const struct event *e)
{
	__u32 leader = e->b / 16 % WORKLOADS;

	set_thread(e->b % THREADS, 1 + e->a * e->b % 300, 100000ULL << e->a % 8);
	if (!shared.workload[slot].lc || !shared.workload[leader].lc || !shared.workload[leader].attached || e->b & 8)
		part(slot);
	else
		join_leader(slot, leader, e->a & 64 ? BY_PROGRESS : BY_WEIGHT);
}

/* The loader's part: the event's thread or CPU has a workload. */
static void command(enum kind kind, const struct event *e)
{
	__u32 slot = e->a % WORKLOADS, cpu = e->b % sim.cpus;
	struct workload *w = &shared.workload[slot];

	/*
	 * Threads that wait when a workload comes or goes are served late; so, where there are servers, is a thread sent to a
	 * revoked CPU that another one takes.
	 */
	if (sim.calm && kind == RULES && together_on)
		set_thread(e->b % THREADS, 1 + e->a * e->b % 300, 100000ULL << e->a % 8);
	if (sim.calm && kind != GRANTS && (kind != REVOKES || servers_on))
		return;
	switch (kind) {
	case ATTACHES:
		if (w->attached)
			detach(slot);
		attach(slot, e->b & 1);
		if (e->b & 2)
			enact(slot, e->b & 1, 0, sim.cpus, slot);
		break;
	case DETACHES:
		if (w->attached)
			detach(slot);
		break;
	case RULES:
		if (w->attached && servers_on && e->b & 4)
			serve_by(slot, e);
		else if (w->attached && together_on && e->b & 2)
			hold_as_one(slot, e);
		else if (w->attached)
			enact(slot, w->lc ? e->b % 3 : 0, w->lc ? e->b / 4 % 4 : 0, 1 + e->b / 16 % sim.cpus, e->b / 64);
		break;
	case GRANTS:
		if (w->attached && w->held < w->limit && shared.cpu[cpu].online) {
			hand_on(cpu, slot);
			kick(1ULL << cpu);
		}
		break;
	case REVOKES:
		hand_on(cpu, PARKED);
		kick(1ULL << cpu);
		break;
	default:
		break;
	}
}

static void limit_time(__u32 at, __u8 how)
{
	cgroup[at].task_group.cfs_bandwidth.quota = how & 3 ? 1000000ULL << (how >> 2 & 7) : NO_QUOTA;
	cgroup[at].task_group.cfs_bandwidth.period = how & 32 ? 100000000 : 10000000;
	cgroup[at].task_group.cfs_bandwidth.burst = how & 64 ? 10000000 : 0;
}

/* What needs no lock of a CPU, or other CPUs' locks, may happen in between. */
static bool may_be_between(enum kind kind)
{
	switch (kind) {
	case WAKES:
	case SLEEPS:
	case FORKS:
	case TICKS:
	case ATTACHES:
	case DETACHES:
	case RULES:
	case GRANTS:
	case REVOKES:
	case TIME_PASSES:
	case GOES_OFFLINE:
		return true;
	default:
		return false;
	}
}

static void happens(const struct event *e, bool between);

static void comes_between(enum place place)
{
	if (!places_to_go || --places_to_go || sim_next >= sim_count)
		return;
	const struct event *e = &sim_events[sim_next];

	if (!may_be_between(kind_of(e)))
		return;
	/* It happens on another CPU, whatever its number: this one's look goes on. */
	__u32 here = host.here;
	struct look look = looks[here];

	sim_next++;
	sim.unlocked = place == AT_MOVE ? here + 1 : 0;
	happens(e, true);
	sim.unlocked = 0;
	host.here = here;
	looks[here] = look;
}

static void happens(const struct event *e, bool between)
{
	enum kind kind = kind_of(e);
	struct task_struct *p = NULL;
	__u32 cpu = e->a % sim.cpus, at = e->a % CGROUPS;

	sim.dice = e->a / 8 + e->b;
	places_to_go = between || sim.calm ? 0 : e->between % 8;
	host.between = comes_between;
	switch (kind) {
	case WAKES:
		if ((p = thread_in(ASLEEP, e->a)))
			wake(p, SCX_ENQ_WAKEUP);
		break;
	case SLEEPS:
	case EXITS:
	case YIELDS_CPU:
		cpu = busy_cpu(e->a);
		if (cpu == NO_CPU)
			break;
		if (kind == YIELDS_CPU) {
			host.runs[cpu]->scx.slice = 0;
			schedule(cpu);
			break;
		}
		if (kind == EXITS)
			host.runs[cpu]->flags |= PF_EXITING;
		if (kind == SLEEPS || e->b & 1)
			block(cpu);
		break;
	case FORKS:
		if ((p = thread_in(UNBORN, e->a))) {
			bear(number_of(p), e->b % CGROUPS);
			p->cpu = fallback_cpu(p);
			wake(p, 0);
		}
		break;
	case BINDS:
	case MOVES:
	case RENICES:
		p = &host.thread[e->a % THREADS];
		if (sim.where[number_of(p)] == UNBORN || p->flags & PF_KTHREAD)
			break;
		change(p, kind == BINDS ? set_affinity : kind == MOVES ? set_cgroup : set_weight,
		       kind == BINDS ? some_cpus(e->b) : kind == MOVES ? e->b % CGROUPS : 1 + e->b * 8);
		break;
	case TIME_PASSES:
		/* In between, time passes on, and nothing else. */
		if (between)
			host.now += e->b;
		else
			pass_time(span_of(e));
		break;
	case TICKS:
		if ((cpu = busy_cpu(e->a)) != NO_CPU) {
			update_curr(cpu);
			host.runs[cpu]->scx.slice = 0;
			schedule(cpu);
		}
		break;
	case REAL_TIME_COMES:
		if (sim.active[cpu] && !sim.real_time[cpu]) {
			sim.real_time[cpu] = true;
			host.rq[cpu].rt.rt_nr_running = 1;
			/* Just as what runs here sleeps, or not. */
			if (e->b & 1 && is_ours(host.runs[cpu]))
				block(cpu);
			else
				schedule(cpu);
		}
		break;
	case REAL_TIME_GOES:
		if (sim.real_time[cpu]) {
			sim.real_time[cpu] = false;
			host.rq[cpu].rt.rt_nr_running = 0;
			schedule(cpu);
		}
		break;
	case LIMITS_TIME:
		if (at)
			limit_time(at, e->b);
		break;
	case WEIGHS_GROUP:
		cgroup[at].task_group.shares = (1 + e->b) << 14;
		cgroup[at].task_group.idle = at && e->b % 8 == 1;
		break;
	case GOES_OFFLINE:
		go_offline(cpu, between);
		break;
	case COMES_ONLINE:
		if (!sim.active[cpu]) {
			sim.active[cpu] = true;
			grant_cpu_online(cpu);
			sim.resched[cpu] = true;
		}
		break;
	default:
		command(kind, e);
		break;
	}
	places_to_go = 0;
}

/* Four workloads of both classes, in the line, with threads of each and of none. */
static void begin_workloads(void)
{
	for (__u32 slot = 0; slot < WORKLOADS; slot++) {
		attach(slot, slot == 0 || slot == 3);
		enact(slot, slot == 0 || slot == 3, 0, sim.cpus, slot);
	}
	if (servers_on) {
		set_server(0, 0, 3000000, 10000000, 1);
		set_server(3, sim.cpus - 1, 10000000, 50000000, 0);
	}
	if (together_on && sim.calm) {
		__u32 order = sim.cpus & 1 ? BY_PROGRESS : BY_WEIGHT;

		join_leader(0, 0, order);
		join_leader(3, 0, order);
	}
	for (__u32 i = 0; i < THREADS / 2; i++) {
		bear(i, i % CGROUPS);
		host.thread[i].cpu = i % sim.cpus;
	}
}

#endif
