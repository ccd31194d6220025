// Lock-step time for QEMU: a plugin for an unmodified QEMU (TCG, one thread a vCPU, x86) that makes the guest's clock a
// function of the instructions that the guest has executed, and of nothing else.
//
// Time passes in rounds. In a round every vCPU that has something to do executes the same number of instructions
// (quantum x mips) and then waits at a barrier. When the last one has arrived the clock advances by one quantum, the
// timers that are due run, and the next round begins with those vCPUs that are awake then. Timers and interrupts
// between CPUs therefore act at the ends of rounds. When all vCPUs are idle the clock jumps to the next timer. How fast
// the host executes the instructions, and what else it does, changes nothing.
//
// Within a round the vCPUs run in parallel, and what they race for can come out differently from run to run. With
// serial=1 they run one after the other, in the order of their numbers: then two runs are identical.
//
// The plugin API alone cannot do this (under TCG its time control sets no clock), so the plugin also replaces entries of
// QEMU's class of accelerator operations: how the virtual clock and the time stamp counter are read, and how a vCPU is
// woken. It looks for those entries by their neighbours, and QEMU does not start where the class is laid out otherwise.
//
// A vCPU's life, as the barrier sees it:
//
//   IDLE  halted                          --an interrupt is pending at a round's end--> WAKING
//   WAKING chosen for the round, its thread has not come out of the halt yet --resumes--> RUN
//   RUN   executes its share              --used up--> ARRIVED, --halts--> IDLE
//   ARRIVED waits for the next round      --the round begins--> RUN
//   JOIN  woken while a round was under way; takes part in the next one --the round begins--> RUN
//
// Locks: QEMU's BQL first, then `lock`.
//
// Options: quantum=NS, mips=N, serial=0|1, stat=0|1 (counters at the end), coarse=NS: until this virtual time rounds are
// 0.1 ms long, to get through the boot sooner. io=BEGIN:END: the guest addresses of the functions that begin and end a
// request to another host process (virtiofs); while one is under way idle time does not jump, since the other process
// works in the host's time.
//
// Files: rounds.c is the barrier and the clock, plugin.c what QEMU calls.
#pragma once

#include <pthread.h>

#include "qemu.h"

enum { MAX_CPUS = 64, SHORTEST_ROUND_NS = 500 };

// A vCPU's instructions are counted up to this number, at which its share of the round is used up.
#define SHARE_END (1ULL << 40)

typedef struct {
    uint64_t count;
    uint64_t start; // of this round
} Score;

typedef enum { NONE, IDLE, WAKING, RUN, ARRIVED, JOIN } State;

typedef struct {
    CPUState *cpu;
    State state;
    unsigned released; // counts its rounds: changes when it may run
    unsigned events;   // futex: changes when it is released or kicked
    bool sleeping;     // on the futex
    bool queued;       // its arrival is queued as work
    bool turn;         // serial: takes part in the round, may not run yet
    uint64_t overrun;  // instructions beyond its last share
} Vcpu;

// Options.
extern int64_t quantum_ns, mips, coarse_until_ns;
extern bool serial;

extern struct qemu_plugin_scoreboard *scores;
extern Vcpu vcpus[MAX_CPUS];
extern int cpu_count, host_cpus;
extern __thread int own_number; // of the vCPU whose thread this is, else -1

extern pthread_mutex_t lock;
extern pthread_cond_t clock_event;
extern int64_t round_start; // virtual ns
extern int64_t round_length;
extern int64_t last_halt; // when the last vCPU went idle, counted from the round's start
extern int requests;      // to other host processes, under way
extern unsigned joins;

extern struct Total {
    unsigned long rounds, jumps, wakes, wakes_lost, requests, waits, waits_in_vain;
} total;

void refuse(const char *why) __attribute__((noreturn));

// The clock.
int64_t virtual_ns(void);
int64_t elapsed(int vcpu); // virtual ns since the round's start
void give_share(int vcpu, int64_t ns, uint64_t used);

// The barrier; `lock` held.
bool round_under_way(void);
void pass_turn(void);  // serial: the next vCPU of the round runs if none does
void left_round(void); // a vCPU is no longer in the round
void end_round(void);  // BQL held too

void notify(Vcpu *);
bool share_used(int vcpu);
uint64_t overrun(int vcpu); // instructions beyond its share
void wait_for_release(int vcpu, unsigned released); // BQL held, `lock` not
void begin_lockstep(int vcpu);                      // BQL held, `lock` not
