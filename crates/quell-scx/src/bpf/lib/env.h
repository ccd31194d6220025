/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the rules need of the environment in which they run.
 *
 * Problem: the rules run in the kernel, whose verifier wants bounded loops, and calls of global functions where it would
 * follow inlined code again and again; and on the host, where tests compare them with their reference functions.
 *
 * Rule: twelve macros, each in two implementations: for the BPF program (in the kernel, or on the host's simulated
 * kernel), and for the rules alone on the host.
 *
 *   FOR(i, from, to)                  a loop
 *   WHILE(condition)                  likewise
 *   CAN_LOOP                          true in a loop's condition
 *   OPAQUE(i)                         keeps the compiler from knowing what i is
 *   SETS_ON                           are there sets of CPUs? (`place/kinds.h`)
 *   KIND(s, cpu)                      calls rule_kind
 *   LEAVE_KIND(s, kind, cpu)          calls rule_leave_kind
 *   FIT(s, cpu, slot)                 calls rule_fit
 *   FIT_FROM(s, look, cpu)            calls rule_fit_from
 *   IN_PLACE(s, look, kind, in, but)  calls rule_in_place
 *   SERVED(s, cpu)                    does a server's thread have the CPU?
 *   HAS_RT_TASK(cpu)                  does a real-time thread have the CPU, or wait to get it at the next choice?
 *
 * Callers: `lib/sets.h`, and through it all rules; `lib/state.h` defines the functions of the BPF program.
 *
 * Limits: alone on the host there is no real-time thread.
 */
#ifndef QUELL_ENV_H
#define QUELL_ENV_H

#ifdef QUELL_STATE_H /* the BPF program */

/* Zero, opaque to the verifier: it would follow a loop with a known start turn by turn. */
int zero;

struct look;

__u32 cpu_kind(__u32 cpu);
int leave_cpu_kind(__u32 kind, __u32 cpu);
__u32 cpu_fit(__u32 cpu, __u32 slot);
__u32 cpu_fit_from(struct look *look, __u32 cpu);
__u32 find_in_place(struct look *look, __u32 kind, __u32 in, __u32 but);
static __always_inline bool has_rt_task(__u32 cpu);

#define FOR(i, from, to) for (i = (from) + zero; i < (int)(to) && can_loop; i++)
#define CAN_LOOP can_loop
#define WHILE(condition) while ((condition) && CAN_LOOP)
#define OPAQUE(i) barrier_var(i)
#define SETS_ON sets_on
#define KIND(s, cpu) cpu_kind(cpu)
#define LEAVE_KIND(s, kind, cpu) leave_cpu_kind(kind, cpu)
#define FIT(s, cpu, slot) cpu_fit(cpu, slot)
#define FIT_FROM(s, look, cpu) cpu_fit_from(look, cpu)
#define IN_PLACE(s, look, kind, in, but) find_in_place(look, kind, in, but)
#define SERVED(s, cpu) (servers_on && AT((s)->serving, cpu, MAX_CPUS)->served)
#define HAS_RT_TASK(cpu) has_rt_task(cpu)

#else /* the rules alone */

#include <stdbool.h>

/* Are there sets of CPUs, for this thread's tests? */
static __thread bool sets_on;

#define FOR(i, from, to) for (i = (from); (__u32)i < (to); i++)
#define CAN_LOOP true
#define WHILE(condition) while (condition)
#define OPAQUE(i) (void)(i)
#define SETS_ON sets_on
#define KIND(s, cpu) rule_kind(s, cpu)
#define LEAVE_KIND(s, kind, cpu) rule_leave_kind(s, kind, cpu)
#define FIT(s, cpu, slot) rule_fit(s, cpu, slot)
#define FIT_FROM(s, look, cpu) rule_fit_from(s, look, cpu)
#define IN_PLACE(s, look, kind, in, but) rule_in_place(s, look, kind, in, but)
#define SERVED(s, cpu) ((s)->serving[cpu].served)
#define HAS_RT_TASK(cpu) false

#endif

#endif
