/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the tracing program and its loader share. The loader mirrors these in src/wire.rs. */
#ifndef QUELL_TRACE_H
#define QUELL_TRACE_H

enum event_kind {
	EVENT_SWITCH,
	EVENT_WOKE,
	EVENT_MIGRATED,
	EVENT_BORN,
	EVENT_SEEN,
	EVENT_HOLDS,
};

/* Who runs on a CPU: a slot, or one of these. */
enum holder {
	HOLDER_UNKNOWN = 0,
	HOLDER_IDLE = 0xfffe,
	HOLDER_OTHER = 0xffff,
};

enum left {
	LEFT_RUNNABLE,
	LEFT_BLOCKED,
	LEFT_DEAD,
	LEFT_UNTOLD, /* the kernel did not tell that it left */
};

enum doing {
	DOING_RUNNING,
	DOING_WAITING,
	DOING_SLEEPING,
};

/* One scheduling event. */
struct event {
	__u64 at;         /* CLOCK_MONOTONIC, ns */
	__s32 tid;        /* the thread; at a switch, the one who leaves */
	__s32 next_tid;   /* at a switch, the one who runs now */
	__u16 cpu;
	__u16 slot;       /* of tid: a workload's slot, HOLDER_IDLE or HOLDER_OTHER */
	__u16 next_slot;  /* of next_tid */
	__u8 kind;        /* enum event_kind */
	__u8 state;       /* enum left or enum doing */
};

/* What a thread did since it is watched. Times in ns. */
struct totals {
	__u64 run;         /* on a CPU, up to the last time it left one */
	__u64 delay;       /* runnable and not on a CPU, up to the last time it got one */
	__u64 switches;    /* times it got a CPU */
	__u64 preemptions; /* times it lost the CPU while it could have gone on: preempted, or yielded */
	__u64 wakeups;     /* times it was woken */
	__u64 late_starts; /* times it waited for a CPU longer than its bound after it was woken */
};

/* A watched thread. */
struct member {
	struct totals totals;
	__u64 since; /* when it began what it does now; 0 while nothing is known */
	__u8 doing;  /* enum doing */
	__u8 woken;  /* it waits since it was woken, not since it lost its CPU */
	__u16 unused;
	__u16 slot;
	__u16 cpu;   /* where it runs or waits */
	__u64 late;  /* it starts late if it waits longer than that after it was woken, ns */
};

/* A wake-up edge: who woke whom. A waker that is not watched is 0. */
struct edge {
	__s32 waker;
	__s32 wakee;
};

/* Things that must not stay unseen. */
struct losses {
	__u64 events;     /* events that found no room in the ring */
	__u64 members;    /* threads that were born and found no room in the table */
	__u64 edges;      /* edges that found no room in the table */
	__u64 switches;   /* switches that the kernel did not tell, made good from the one before */
	__u64 interrupts; /* wake-ups from interrupt context: no thread is the waker */
	__u64 counts;     /* readings of counters that failed */
};

/* Events that are counted by workload, at most. */
#define COUNTED_EVENTS 5

/* What counters counted while threads of a workload ran. */
struct counted {
	__u64 count[COUNTED_EVENTS];
};

/* A counter's time, ns. */
struct counter_time {
	__u64 enabled; /* for which it was to count */
	__u64 running; /* for which it had the hardware */
};

/* A process's name, as in /proc/PID/comm. */
struct name {
	char comm[16];
};

#endif
