/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A kernel around the scheduler's callbacks: CPUs that choose their next thread, threads that wake up, sleep and move, in
 * the order in which Linux 6.18 calls them (kernel/sched/core.c, kernel/sched/ext.c). One thing happens at a time; what
 * other CPUs do in between comes at the places of `kernel_on_host.h`.
 */
#ifndef QUELL_SIMULATED_KERNEL_H
#define QUELL_SIMULATED_KERNEL_H

#define THREADS 40                      /* ours; the others are the CPUs' real-time threads */
#define FIRST_REAL_TIME (HOST_THREADS - HOST_CPUS)
#define ENQ_REENQ (1ULL << 40)
#define DEQ_SAVE 2ULL
#define ENQ_RESTORE 2ULL
#define DEFAULT_SLICE 20000000ULL       /* the kernel's, where the scheduler gave none */
#define SETTLES 4000                    /* decisions after one event: more are a livelock */

enum where { UNBORN, ASLEEP, READY, RUNS };

static struct {
	__u32 cpus;
	bool active[HOST_CPUS], real_time[HOST_CPUS], released[HOST_CPUS], resched[HOST_CPUS];
	__u32 starves[HOST_CPUS];       /* the thread that was dispatched here last because it starves, plus one; 0: none */
	__u64 counted[HOST_CPUS];       /* until when the run time of what runs here is counted */
	enum where where[HOST_THREADS];
	__u64 ran[HOST_THREADS];        /* how long each thread ran */
	__u64 ready_since[HOST_THREADS], parked_since[HOST_THREADS], idle_since[HOST_THREADS];
	__u64 not_holders_since[HOST_CPUS]; /* 0: it is its holder's, or none of the holder's waits */
	bool calm;                      /* nothing happens in between, and the loader sets no new rules */
	__u64 locked;                   /* CPUs whose lock is held, as bits */
	__u32 unlocked;                 /* the CPU that gave its lock away for a moment, plus one */
	struct task_struct *migrates;   /* the kernel moves it right now */
	struct task_struct *upkeep;     /* of the kernel: it woke up with budget, and is to run at once */
	__u64 upkeep_since;             /* when it woke up */
	struct task_struct *spins;      /* it woke up and goes to a CPU whose lock is held */
	__u64 spins_with;               /* the flags of that */
	__u32 dice;                     /* of the event */
	char violation[256];
} sim;

static void violated(const char *what, int number, int other)
{
	if (!sim.violation[0])
		snprintf(sim.violation, sizeof(sim.violation), "%s (%d, %d)", what, number, other);
}

static int number_of(const struct task_struct *p)
{
	return p - host.thread;
}

static bool is_ours(const struct task_struct *p)
{
	return p && number_of(p) < THREADS;
}

static bool may_use(const struct task_struct *p, __u32 cpu)
{
	return p->cpus_mask.bits[0] >> cpu & 1;
}

static bool is_idle(__u32 cpu)
{
	return sim.active[cpu] && !host.runs[cpu];
}

static void in_state(struct task_struct *p, enum where where)
{
	if (where == READY && sim.where[number_of(p)] != READY)
		sim.ready_since[number_of(p)] = host.now;
	sim.where[number_of(p)] = where;
}

static void check(void);

/* One in eight times, by the event and the thread: so that fewer events before it change nothing about it. */
static bool now_and_then(const struct task_struct *p)
{
	return !((sim.dice + 5 * number_of(p)) % 8);
}

/* What runs here is charged for its time. */
static void update_curr(__u32 cpu)
{
	struct task_struct *p = host.runs[cpu];
	__u64 ran = host.now - sim.counted[cpu];

	sim.counted[cpu] = host.now;
	if (!is_ours(p))
		return;
	sim.ran[number_of(p)] += ran;
	p->scx.slice -= ran < p->scx.slice ? ran : p->scx.slice;
}

/* Into the queue that the callback named: `dispatch_enqueue`. */
static void land(struct task_struct *p)
{
	__u64 id = p->direct.queue, flags = p->direct.flags;

	if (!p->direct.is_due) {
		violated("a thread was put nowhere", number_of(p), 0);
		return;
	}
	p->direct.is_due = false;
	__u64 queue = queue_number(p, id);

	put_at(p, id, p->direct.timed, !p->direct.timed && flags & (SCX_ENQ_PREEMPT | SCX_ENQ_HEAD));
	if (queue < HOST_QUEUES)
		return;
	__u32 cpu = queue - HOST_QUEUES;
	struct task_struct *runs = host.runs[cpu];

	p->cpu = cpu;
	if (flags & SCX_ENQ_PREEMPT && runs != p && is_ours(runs)) {
		runs->scx.slice = 0;
		sim.resched[cpu] = true;
	}
	if (!runs)
		sim.resched[cpu] = true;
}

static void to_local(struct task_struct *p, __u64 flags)
{
	p->direct.queue = SCX_DSQ_LOCAL;
	p->direct.flags = flags;
	p->direct.timed = false;
	p->direct.is_due = true;
	land(p);
}

static void unlock(__u64 locked);

/* `do_enqueue_task`. */
static void enqueue(struct task_struct *p, __u64 flags)
{
	__u64 locked = sim.locked;

	in_state(p, READY);
	p->scx.flags |= SCX_TASK_QUEUED;
	p->queue = 0;
	if (!sim.active[p->cpu]) {
		p->direct.is_due = false;
		to_local(p, flags);
		return;
	}
	sim.locked |= 1ULL << p->cpu;
	if (!p->direct.is_due)
		grant_enqueue(p, flags);
	land(p);
	unlock(locked);
}

static void wakeup_preempt(__u32 cpu)
{
	if (is_idle(cpu))
		sim.resched[cpu] = true;
}

/* It has the lock of its CPU by now. */
static void activate(struct task_struct *p, __u64 flags)
{
	enqueue(p, flags);
	wakeup_preempt(p->cpu);
}

/* Only these are still locked. */
static void unlock(__u64 locked)
{
	struct task_struct *p = sim.spins;

	sim.locked = locked;
	if (!p || locked >> p->cpu & 1)
		return;
	sim.spins = NULL;
	activate(p, sim.spins_with);
}

static __u32 fallback_cpu(const struct task_struct *p)
{
	for (__u32 cpu = 0; cpu < sim.cpus; cpu++)
		if (sim.active[cpu] && may_use(p, cpu))
			return cpu;
	return NO_CPU;
}

/* `try_to_wake_up`, `wake_up_new_task`. */
static void wake(struct task_struct *p, __u64 flags)
{
	__u32 cpu = p->cpu;

	p->__state = 0;
	if (p->nr_cpus_allowed > 1)
		cpu = grant_select_cpu(p, p->cpu, flags);
	if (cpu >= sim.cpus || !may_use(p, cpu) || !sim.active[cpu])
		cpu = fallback_cpu(p);
	p->cpu = cpu;
	/* On a server's CPU such threads have turns. */
	if (sim.calm && flags & SCX_ENQ_WAKEUP && is_percpu_kthread(p) && sim.active[cpu] && !sim.real_time[cpu] &&
	    !(servers_on && serving_on(cpu)->servers) && refill_upkeep(cpu, host.now)) {
		sim.upkeep = p;
		sim.upkeep_since = host.now;
	}
	if (!(sim.locked >> cpu & 1) || sim.unlocked == cpu + 1) {
		activate(p, flags);
		return;
	}
	sim.spins = p;
	sim.spins_with = flags;
}

/* Queued, it goes to another CPU: the scheduler sees that it is enqueued anew. */
static void migrate(struct task_struct *p, __u32 cpu)
{
	p->queue = 0;
	p->cpu = cpu;
	enqueue(p, 0);
	wakeup_preempt(cpu);
}

/* `scx_bpf_reenqueue_local`. */
static void reenqueue_local(void)
{
	struct bpf_iter it = iterate_scx_dsq(LOCAL_OF(host.here), 0);

	for (struct task_struct *p; (p = next_of(&it));)
		if (p != sim.migrates)
			enqueue(p, ENQ_REENQ);
}

static void release_cpu(__u32 cpu)
{
	struct scx_cpu_release_args args = { .task = &host.thread[FIRST_REAL_TIME + cpu] };

	if (sim.released[cpu])
		return;
	grant_cpu_release(cpu, &args);
	sim.released[cpu] = true;
}

/* `put_prev_task_scx` and `switch_class`. */
static void put_prev(__u32 cpu, struct task_struct *prev, struct task_struct *next)
{
	update_curr(cpu);
	if (prev->scx.flags & SCX_TASK_QUEUED) {
		grant_stopping(prev, true);
		in_state(prev, READY);
		prev->stack = now_and_then(prev) ? 2000 : 300;
		if (prev->scx.slice)
			to_local(prev, SCX_ENQ_HEAD);
		else
			enqueue(prev, next ? 0 : SCX_ENQ_LAST);
	}
	if (next && !is_ours(next))
		release_cpu(cpu);
}

/* `balance_one`. Does what ran go on? */
static bool balance(__u32 cpu, struct task_struct *prev)
{
	__u64 starved = counts[cpu].of[STARVING];
	bool wants_on = is_ours(prev) && prev->scx.flags & SCX_TASK_QUEUED;

	sim.released[cpu] = false;
	if (wants_on && prev->scx.slice)
		return true;
	if (first_of(LOCAL_OF(cpu), NULL, HOST_CPUS))
		return false;
	grant_dispatch(cpu, is_ours(prev) ? prev : NULL);
	sim.starves[cpu] = counts[cpu].of[STARVING] != starved ? number_of(first_of(LOCAL_OF(cpu), NULL, HOST_CPUS)) + 1 : 0;
	return wants_on && prev->scx.slice;
}

/* `__schedule`. */
static void schedule(__u32 cpu)
{
	struct task_struct *prev = host.runs[cpu], *next;
	__u32 here = host.here;
	__u64 locked = sim.locked, bit = 1ULL << cpu;
	bool goes_on = false;

	sim.resched[cpu] = false;
	if (!sim.active[cpu])
		return;
	sim.locked |= bit;
	host.here = cpu;
	update_curr(cpu);
	/* While a real-time thread wants on, none of ours is looked for. */
	if (is_ours(prev) || !prev || !sim.real_time[cpu])
		goes_on = balance(cpu, prev);
	passes(AT_CHOICE);
	if (sim.real_time[cpu])
		next = &host.thread[FIRST_REAL_TIME + cpu];
	else
		next = goes_on ? prev : first_of(LOCAL_OF(cpu), NULL, HOST_CPUS);
	if (is_ours(next) && !next->scx.slice)
		next->scx.slice = DEFAULT_SLICE;
	if (next != prev) {
		if (is_ours(prev))
			put_prev(cpu, prev, next);
		if (!prev)
			host.idle &= ~bit;
		if (is_ours(next)) {
			next->queue = 0;
			in_state(next, RUNS);
			grant_running(next);
		} else if (!next) {
			grant_update_idle(cpu, true);
		}
		host.runs[cpu] = next;
		sim.counted[cpu] = host.now;
	}
	if (!next)
		host.idle |= bit;
	host.here = here;
	unlock(locked);
}

/* What was asked for by kicks takes effect, and CPUs that are to decide do so, until none is: not on CPUs that are busy. */
static void settle_cpus(void)
{
	for (int turns = 0; turns < SETTLES; turns++) {
		bool again = false;

		for (__u32 cpu = 0; cpu < sim.cpus; cpu++) {
			__u64 bit = 1ULL << cpu;

			if (sim.locked & bit)
				continue;
			if (host.kicked & bit && host.preempted & bit && is_ours(host.runs[cpu]))
				host.runs[cpu]->scx.slice = 0;
			if (host.kicked & bit || (host.kicked_if_idle & bit && !host.runs[cpu]))
				sim.resched[cpu] = true;
			host.kicked &= ~bit;
			host.preempted &= ~bit;
			host.kicked_if_idle &= ~bit;
			if (sim.resched[cpu]) {
				schedule(cpu);
				again = true;
			}
		}
		if (!again)
			return;
	}
	violated("CPUs decide again and again", 0, 0);
}

/* What runs here sleeps, or ends. */
static void block(__u32 cpu)
{
	struct task_struct *p = host.runs[cpu];
	__u32 here = host.here;

	host.here = cpu;
	update_curr(cpu);
	grant_stopping(p, false);
	p->__state = now_and_then(p) ? TASK_UNINTERRUPTIBLE : 1;
	grant_quiescent(p, SCX_DEQ_SLEEP);
	p->scx.flags &= ~SCX_TASK_QUEUED;
	in_state(p, p->flags & PF_EXITING ? UNBORN : ASLEEP);
	host.here = here;
	schedule(cpu);
}

/* The stopper takes the CPU for a moment, to move what runs there. */
static void push(__u32 cpu, struct task_struct *p)
{
	struct task_struct *stopper = &host.thread[FIRST_REAL_TIME + cpu];
	__u32 here = host.here, to = fallback_cpu(p);

	host.here = cpu;
	sim.migrates = p;
	put_prev(cpu, p, stopper);
	sim.migrates = NULL;
	host.runs[cpu] = stopper;
	if (p->queue == LOCAL_OF(cpu) + 1 || !may_use(p, p->cpu))
		migrate(p, to);
	host.here = here;
	sim.resched[cpu] = true;
}

/*
 * Something about the thread changes: the kernel takes it out of its queue, or off its CPU, and puts it back. Its wait begins
 * anew, as by the kernel's watchdog (`clr_task_runnable`).
 */
static void change(struct task_struct *p, void (*how)(struct task_struct *, __u32), __u32 argument)
{
	enum where where = sim.where[number_of(p)];
	__u32 here = host.here, cpu = p->cpu;

	if (where == ASLEEP) {
		how(p, argument);
		return;
	}
	if (where == RUNS) {
		host.here = cpu;
		update_curr(cpu);
		grant_stopping(p, false);
	}
	grant_quiescent(p, DEQ_SAVE);
	p->scx.flags &= ~SCX_TASK_QUEUED;
	p->queue = 0;
	sim.ready_since[number_of(p)] = host.now;
	how(p, argument);
	if (where == RUNS) {
		p->scx.flags |= SCX_TASK_QUEUED;
		grant_running(p);
		sim.resched[cpu] = true;
		if (!may_use(p, cpu))
			push(cpu, p);
	} else {
		enqueue(p, ENQ_RESTORE);
		if (!may_use(p, p->cpu))
			migrate(p, fallback_cpu(p));
	}
	host.here = here;
}

#endif
