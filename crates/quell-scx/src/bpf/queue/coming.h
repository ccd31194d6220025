/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The next thread of a queue that all CPUs take from, first come, first served.
 *
 * Problem: first come, first served alone lets one service's threads, or their long bursts, hold all CPUs; and a thread
 * on which many others sleep waits as long as one on which none does.
 *
 * Rule: the first thread of a service within its share: one that has used no more than `lead` beyond the service of the
 * queue that used the least. If that thread is overdue, the first of those overdue whose service has the most threads
 * asleep on threads that wait. `next_by_progress` in quell-model's `rule` module is the reference.
 *
 * Callers: `queue/progress.h`; on the host quell-scx-rules.
 *
 * Limits: times go round.
 */
#ifndef QUELL_COMING_H
#define QUELL_COMING_H

#include "lib/grant.h"

/* A thread that waits. */
struct coming {
	__u64 since;
	__u64 used;    /* CPU time of its service, by the queue's clock */
	__u64 blocked; /* threads of its service that sleep on one that waits */
};

/* What a choice depends on beside that. */
struct bounds {
	__u64 now;
	__u64 least;   /* the least that a service of the queue has used */
	__u64 lead;
	__u64 overdue; /* a thread is, after this wait */
};

enum pick {
	IS_BEHIND,  /* another one goes first */
	IS_FAVOURED, /* it goes first, unless a later one does */
	IS_NEXT,  /* it goes first */
};

static inline bool rule_used_less(__u64 used, __u64 than)
{
	return (__s64)(used - than) < 0;
}

/* One thread after the other, in the order of their coming. `most`: `blocked` of the favoured one plus one; 0: none is. */
static inline enum pick rule_pick(const struct coming *one, const struct bounds *by, __u64 most)
{
	if ((__s64)(one->used - by->least) > (__s64)by->lead)
		return IS_BEHIND;
	if ((__s64)(by->now - one->since) < (__s64)by->overdue)
		return most ? IS_BEHIND : IS_NEXT;
	return one->blocked + 1 > most ? IS_FAVOURED : IS_BEHIND;
}

#endif
