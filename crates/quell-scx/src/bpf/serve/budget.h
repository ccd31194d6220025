/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budget of a deferrable server: kept while there is nothing to run, full at each period's beginning, lost at its
 * end.
 *
 * Problem: the budget has to be right at any time at which it is read, without a timer a period.
 *
 * Rule: `left` and `next_period` are brought up to date when they are read. `DeferrableServer` in quell-model's
 * `rule` module is the reference. The loader begins a server and sets other terms, which count from the next period
 * on.
 *
 * Callers: `serve/servers.h`, `serve/serve.h`; on the host quell-scx-rules.
 *
 * Limits: a run beyond a budget is not carried over into the next period; its length is reported.
 */
#ifndef QUELL_BUDGET_H
#define QUELL_BUDGET_H

#include "lib/grant.h"

/* `left`: what the server may use from now on. A new period has the terms that were given last. */
static inline __u64 rule_server_left(struct server *s, __u64 now)
{
	if (now < s->next_period)
		return s->left;
	__u32 given = s->given & 1;
	__u64 period = s->periods[given];

	if (!period)
		return 0;
	s->budget = s->budgets[given];
	s->period = period;
	s->next_period += ((now - s->next_period) / period + 1) * period;
	s->left = s->budget;
	return s->left;
}

/* The same without a change: for code that does not hold the kernel's lock of the CPU. */
static inline bool rule_server_has_budget(const struct server *s, __u64 now)
{
	return (now < s->next_period ? s->left : s->budgets[s->given & 1]) != 0;
}

static inline __u64 spend(struct server *s, __u64 span)
{
	__u64 over = span > s->left ? span - s->left : 0;

	s->left -= span - over;
	return over;
}

/* `ran`, period by period. Returns the longest run beyond a budget, which is not carried over. */
static inline __u64 rule_server_ran(struct server *s, __u64 since, __u64 now)
{
	__u64 longest = 0;

	if ((__s64)(now - since) <= 0)
		return 0;
	if (now >= s->next_period) {
		if (since < s->next_period) {
			longest = spend(s, s->next_period - since);
			since = s->next_period;
		}
		rule_server_left(s, now);
		__u64 began = s->next_period - s->period;

		if (since < began) {
			__u64 whole = s->period - s->budget;

			longest = whole > longest ? whole : longest;
			since = began;
		}
	}
	__u64 over = spend(s, now - since);

	return over > longest ? over : longest;
}

#define NEVER (~0ULL)

/* When a thread of the server that runs from now on must stop. It is in the present period. */
static inline __u64 rule_server_ends(const struct server *s, __u64 now)
{
	__u32 given = s->given & 1;

	if (now + s->left < s->next_period)
		return now + s->left;
	return s->budgets[given] < s->periods[given] ? s->next_period + s->budgets[given] : NEVER;
}

#endif
