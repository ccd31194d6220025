/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that the BPF program shares with the loader, mapped into the loader's address space. The loader mirrors it
 * in src/layout.rs.
 *
 * Problem: the loader decides in user space, and a system call a decision is too slow for both sides.
 *
 * Rule: one structure in shared memory. Each field has one writer, or is changed by atomic operations where both
 * write it (`holder`, `held`). Counters only grow; the reader compares.
 *
 * Callers: every header; the loader, by `Shared` in src/layout.rs.
 *
 * Limits: 1,024 CPUs and 1,023 workloads, four servers a CPU, three siblings. What one side reads while the other
 * writes is no consistent snapshot.
 */
#ifndef QUELL_GRANT_H
#define QUELL_GRANT_H

#include <linux/types.h>

#define MAX_CPUS 1024  /* a power of two, as all tables */
#define MAX_SLOTS 1024 /* the system's included */
#define SIBLINGS 3     /* of one CPU, itself not counted */
#define QUEUE_TIMES 64 /* threads of a queue whose waiting time is known exactly; a power of two */
#define UNREAD_TIMES 64 /* sockets of a workload that have unread data, at once: the bits of a word */

#define SYSTEM (MAX_SLOTS - 1) /* the slot of everything that no workload has */
#define NO_SLOT 0xffffffffU    /* no workload: the holder of a CPU that was yielded, or was never granted */
#define PARKED 0xfffffffeU     /* the holder of a CPU that was revoked: it goes to no next holder */
#define AWAY_REPORTED 1        /* a higher class has the CPU, as the kernel reported */
#define AWAY_FOUND 2           /* found: the kernel does not report a running thread that becomes real-time */
#define NO_CPU 0xffffffffU
#define BY_WEIGHT 1            /* a leader's queue, by weighted run time (`queue/together.h`) */
#define BY_PROGRESS 2          /* first come, first served within the services' shares (`queue/progress.h`) */
#define CPU_KINDS 6            /* of CPUs: by the holder's class, and by whether a sibling has a holder (`place/kinds.h`) */
#define KIND_SETS 8            /* a power of two */
#define SETS 128               /* of CPUs by place; a power of two */
#define NO_PLACE 0             /* the set without a CPU */
#define ANYWHERE 1             /* that of all CPUs */
#define SET_WORDS (MAX_CPUS / 64)
#define NEWS 1             /* wakes a loader that listens: queues that formed, CPUs that came or went */
#define YIELDS 2           /* and CPUs that were yielded, where some workload has no place in the line for them */
#define CALM 4             /* but for queues of best-effort work with a place in the line, which were reported just now */
#define NO_REQUEST (~0ULL)     /* a request start that no request has */
#define SERVERS 4              /* of one CPU; a power of two */
#define MAX_SETTINGS 256       /* of threads, given at once; a power of two */
#define COMMON_LATENCY (~0ULL)

/* Fields that many CPUs read are on other cache lines than those that some of them write. */
#define LINE __attribute__((aligned(64)))

/* One workload. */
struct workload {
	/* The loader's. */
	__u32 attached;
	__u32 lc;
	__u32 on_wake_up; /* does it take CPUs at a wake-up: guaranteed ones, burstable ones, those without a holder? */
	__u32 guaranteed;
	__u32 burst;
	__u32 limit;
	__u32 in_line;    /* does it have a place in the line? */
	__u32 rank;
	__u32 servers;    /* CPUs on which it has a server */
	__u32 leads;      /* the order of its queue, where others hold CPUs as one with it: BY_WEIGHT or BY_PROGRESS; 0: none do */
	__u32 leader;     /* the slot with which it holds CPUs as one, plus one; 0: none, or it leads */
	__u32 grace_signal; /* sent to a thread before it loses its CPU */
	__u64 grace_ns;   /* ns that it runs on for at most; 0: no grace */
	__u64 room;

	/* Its waiting threads, and what it holds: any CPU writes. */
	__u32 held;       /* CPUs that it holds; written by both, atomically */
	__u32 pulls;      /* CPUs that take a thread from its queue just now */
	__u64 queued;     /* threads that began to wait, ever */
	__u64 taken;      /* threads that ceased to wait, ever */
	__u64 formed;     /* queues that formed, ever */
	__u64 run_time;   /* ns */
	__u64 vtime;
	__u64 crowded_at; /* when last a thread of it came and got no CPU, while others of it had some */
	__u64 unread;     /* its sockets with unread data, as bits */

	__u64 since[QUEUE_TIMES]; /* when they began to wait: a ring over `queued` */
	__u64 unread_since[UNREAD_TIMES]; /* and since when they have it; 0: none, or about to be said */
} LINE;

/* One CPU. */
struct cpu {
	/* The loader's, but for `online`: what it is. */
	__u32 in_pool;       /* may it be handed out? */
	__u32 online;
	__u32 sibling[SIBLINGS]; /* NO_CPU where there is none */
	__u32 cache;         /* its last-level cache, by number from zero on */
	__u32 place[2];      /* the sets of the CPUs of its last-level cache, and of its socket */
	__u64 banned_for;    /* siblings are parked while it works on this request */
	__u64 room[3];

	/* Its holder: any CPU writes. */
	__u32 holder;        /* a slot, NO_SLOT or PARKED; written by both, atomically */
	__u32 away;          /* a higher scheduling class has it: AWAY_REPORTED or AWAY_FOUND */
	__u32 hog;           /* the thread of a higher class that has it, or had it last: its number */
	__u64 away_since;    /* when a higher class took it last */
	__u64 yields;        /* times that it was yielded, ever */
	__u32 yielder;       /* the slot that yielded it last */
	__u32 kept;          /* the thread that is kept behind a real-time or latency-critical one, by number; 0: none */
	__u32 fetch;         /* the thread that the loader is to fetch from here; the loader sets it to 0 */
	__u32 leaving;       /* was the thread that runs here sent the signal of its grace? */
	__u32 one_more;
	__u64 more_room[2];

	/* Its own: what runs here. */
	__u32 runs;          /* the slot that runs here; NO_SLOT: idle */
	__u32 runs_idle;     /* does what runs here have cpu.idle? */
	__u32 tid;           /* the thread that runs here, if it is a workload's */
	__u32 starving;      /* is the next thread here because it starves? */
	__u64 request_start; /* of the request that it works on; 0: none */
	__u64 stopped_at;    /* when what ran here stopped, until the next thread runs; 0: one runs, or the CPU is idle */
	__u64 unserved;      /* `unserved` of all when the kept thread stopped */
	__u64 system_since;  /* when the system's turn here began last */
	__u64 system_until;  /* when the system's threads ran here last */
	__u64 look_at;       /* when this CPU looks for starving threads next */
	__u64 look_for_system_at; /* and for one of the system that has waited for its turn */
	__u64 awaits_from;   /* it searches for such a thread again from then on */
	__u32 awaits;        /* searches in vain for a thread that is on its way into the queue */
	__u32 stopped;       /* the best-effort thread that stopped here last and may be kept, by number; 0: none */
	__u64 most_room[5];
} LINE;

/* A set of CPUs, or of slots (`lib/sets.h`). */
struct set {
	__u64 words;           /* which words are not empty, as bits */
	__u64 room[7];
	__u64 word[SET_WORDS];
} LINE;

/* The workloads that wait for a CPU (`hold/line.h`). */
struct line {
	__u64 version; /* changes whenever a thread of a workload begins to wait */
} LINE;

/* A deferrable server of one CPU. The first part is the loader's, the second the scheduler's. */
struct server {
	__u32 on;
	__u32 slot;        /* its workload's */
	__u32 priority;    /* higher runs first */
	__u32 given;       /* which of the two below counts from the next period on */
	__u64 budgets[2];  /* ns a period, at most the period */
	__u64 periods[2];  /* ns, above zero */

	__u64 budget;      /* of this period */
	__u64 period;
	__u64 left;        /* of the budget */
	__u64 next_period; /* when it begins */
	__u64 reported_until; /* the end of the last period in which its threads were found waiting without a budget */
	__u64 exhausted;   /* such periods, ever */
	__u64 overrun;     /* ns, the longest run beyond a budget; the loader sets it to 0 */
};

/* The servers of one CPU. */
struct serving {
	__u32 servers;     /* the loader's: those beyond were never on */
	__u32 served;      /* the server whose thread runs here or is about to, plus one; 0: none */
	__u32 comes;       /* is that thread about to run? */
	__u64 turn_until;  /* such a turn ends then; 0: there is none */
	__u64 waits_until; /* a server whose threads wait without a budget has one again then */
	__u64 timer_at;    /* when the timer is to end something; 0: nothing */
	__u64 serve_at;    /* a server's waiting threads are not tried before, since they could not run here */
	struct server server[SERVERS];
};

/* What a thread is given. */
struct setting {
	__u32 tid;
	__u32 weight;  /* 100: a thread's at nice 0; 0: as it is */
	__u64 latency; /* ns; COMMON_LATENCY; 0: as it is */
	__u64 waits_in; /* the kernel half's own: the number of the queue in which it waits for a new place, plus one */
};

struct shared {
	__u32 nr_cpus;
	__u32 nr_slots;
	__u32 generation;    /* of the table of cgroups: a change makes every thread look its workload up again */
	__u32 listening;     /* does the loader sleep, and what wakes it? */
	__u64 starving_ns;   /* a thread that has waited for this long gets a turn wherever it may run */
	__u64 system_ns;     /* how long the system's threads wait for a turn on a CPU that an LC holds beyond its guarantee */
	__u64 lc_slice_ns;
	__u64 be_slice_ns;
	__u64 kick[MAX_CPUS / 64]; /* the CPUs that the loader wants to decide again, as bits */
	__u64 drain;         /* the slot whose queue the loader wants emptied into the system's */
	__u64 stuck_before;  /* threads that wait since then, behind a higher class, are what the loader asks for */
	__u64 exit_kind;     /* why the scheduler ended; 0 while it runs */
	__u64 bans;          /* the loader's: may any CPU be banned? */
	__u64 fetches;       /* requests to fetch a thread, ever */
	__u64 loops_thread;  /* the loader's thread that decides (the loop), by number; 0: none */
	__u64 unplaced;      /* cgroups with the cpu controller that are under the limits of what is above only, now */
	__u64 wake_up_latency_ns; /* of threads that hold CPUs as one with others', if they have none of their own */
	__u32 nr_settings;   /* the loader's */
	__u32 nr_caches;     /* the loader's: last-level caches */
	struct setting setting[MAX_SETTINGS];
	__u64 begins;        /* the slot whose queues the loader wants to be there */
	__u64 drain_server;  /* the server, counted over all CPUs, whose queue the loader wants emptied */
	__u64 sets;          /* the loader's: are there sets of CPUs by kind? (`place/kinds.h`) */
	struct cpu cpu[MAX_CPUS];
	struct workload workload[MAX_SLOTS];
	struct serving serving[MAX_CPUS];
	struct set of_kind[KIND_SETS]; /* CPUs; both write them, atomically */
	struct set waiting[2];         /* slots by class: all that wait, and some others (`hold/waiting.h`) */
	struct set at_place[SETS];     /* CPUs; the loader's */
	struct line line;              /* the scheduler's */
};

#endif
