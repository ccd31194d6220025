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
// Locks: QEMU's BQL first, then `lock`. Options: quantum=NS mips=N serial=0|1 stat=0|1 io=BEGIN:END, the last being the
// guest addresses of the functions that begin and end a request to another host process (virtiofs): while one is under
// way idle time does not jump, since the other process works in the host's time.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "qemu.h"

#define EXPORT __attribute__((visibility("default")))

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
static int64_t quantum_ns = 10000, mips = 1000;
static bool serial, statistics;
static uint64_t io_address[2]; // of the begin and of the end of a request
static const long io_patience_s = 5;
static const unsigned spin_cycles = 50000;

static struct qemu_plugin_scoreboard *scores;
static Vcpu vcpus[MAX_CPUS];
static int cpu_count, host_cpus, spinning;
static bool started;
static QEMUTimerList *timers; // all timers of the devices

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t clock_event = PTHREAD_COND_INITIALIZER;
static int64_t round_start, round_length, last_halt; // virtual ns; the last one counts from the round's start
static int requests;                                 // to other host processes, under way
static unsigned joins;
static __thread int own_number __attribute__((tls_model("initial-exec"))) = -1;

static struct {
    unsigned long rounds, jumps, wakes, wakes_lost, requests, waits, waits_in_vain;
} total;

static void refuse(const char *why) {
    fprintf(stderr, "lockstep: %s\n", why);
    _exit(1);
}

// --- Counting instructions

static Score *score(int i) { return qemu_plugin_scoreboard_find(scores, i); }

static uint64_t instructions(int64_t ns) { return (uint64_t)ns * mips / 1000; }

static void give_share(int i, int64_t ns, uint64_t used) {
    Score *s = score(i);
    s->start = SHARE_END - instructions(ns);
    s->count = s->start + used;
}

// Virtual ns since the round's start, as vCPU i has executed them.
static int64_t elapsed(int i) {
    Score *s = score(i);
    int64_t ns = (int64_t)(s->count - s->start) * 1000 / mips;
    int64_t limit = __atomic_load_n(&round_length, __ATOMIC_RELAXED);
    return ns < 0 ? 0 : ns > limit ? limit : ns;
}

static int64_t virtual_ns(void) {
    int64_t start = __atomic_load_n(&round_start, __ATOMIC_ACQUIRE);
    return own_number >= 0 && vcpus[own_number].state == RUN ? start + elapsed(own_number) : start;
}

static void ignore_setting(int64_t ns) { (void)ns; }

static void advance(int64_t ns) { __atomic_store_n(&round_start, round_start + ns, __ATOMIC_RELEASE); }

// --- Waking and releasing vCPUs

static void notify(Vcpu *v) {
    __atomic_add_fetch(&v->events, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&v->sleeping, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &v->events, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// `lock` held: vCPU i runs its share of the round.
static void release(int i) {
    Vcpu *v = &vcpus[i];
    give_share(i, round_length, v->overrun);
    v->overrun = 0;
    v->state = RUN;
    __atomic_add_fetch(&v->released, 1, __ATOMIC_SEQ_CST);
    notify(v);
}

// Those whom the round waits for.
static bool round_under_way(void) {
    for (int i = 0; i < cpu_count; i++)
        if (vcpus[i].state == RUN || vcpus[i].state == WAKING) return true;
    return false;
}

// `lock` held, serial: the next vCPU of the round runs if none does.
static void pass_turn(void) {
    for (int i = 0; i < cpu_count; i++)
        if (vcpus[i].state == RUN && !vcpus[i].turn) return;
    for (int i = 0; i < cpu_count; i++) {
        if (!vcpus[i].turn) continue;
        if (vcpus[i].state == WAKING) return; // on_resume passes the turn when its thread is there
        vcpus[i].turn = false;
        release(i);
        return;
    }
}

// `lock` held: vCPU i has left the round.
static void left_round(void) {
    if (!round_under_way())
        pthread_cond_signal(&clock_event);
    else if (serial)
        pass_turn();
}

// --- The barrier

static struct timespec in_host_ns(long long ns) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    ns += t.tv_nsec;
    return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

// Lets others have the BQL while `lock` is released; both are held before and after.
static void retake_locks(void) {
    pthread_mutex_unlock(&lock);
    bql_lock();
    pthread_mutex_lock(&lock);
}

// Chooses who takes part in the next round and starts it; false if all vCPUs are idle. `deadline`: ns to the next timer.
static bool begin_round(int64_t deadline) {
    bool chosen[MAX_CPUS] = {false}, any = false;
    for (int i = 0; i < cpu_count; i++) {
        Vcpu *v = &vcpus[i];
        bool woken = v->state == IDLE && !cpu_thread_is_idle(v->cpu);
        total.wakes += woken;
        chosen[i] = woken || v->state == ARRIVED || v->state == JOIN;
        any |= chosen[i];
    }
    if (!any) return false;
    round_length = deadline > 0 && deadline < quantum_ns ? deadline : quantum_ns;
    if (round_length < SHORTEST_ROUND_NS) round_length = SHORTEST_ROUND_NS;
    for (int i = 0; i < cpu_count; i++) {
        Vcpu *v = &vcpus[i];
        if (!chosen[i]) continue;
        if (v->state == IDLE) {
            v->state = WAKING;
            v->turn = serial;
            if (!serial) give_share(i, round_length, 0);
        } else if (serial) {
            v->state = RUN;
            v->turn = true;
        } else {
            release(i);
        }
    }
    if (serial) pass_turn();
    return true;
}

// A request to another host process is under way: gives that one host time, up to `io_patience_s`.
static void wait_for_request(void) {
    struct timespec limit = in_host_ns(io_patience_s * 1000000000LL);
    unsigned before = joins;
    int late = 0;
    total.waits++;
    bql_unlock();
    while (joins == before && !late) late = pthread_cond_timedwait(&clock_event, &lock, &limit);
    retake_locks();
    if (late) {
        total.waits_in_vain++;
        __atomic_store_n(&requests, 0, __ATOMIC_SEQ_CST);
    }
}

// BQL and `lock` held, nobody runs: ends the round, lets time pass until somebody has something to do.
static void end_round(void) {
    for (;;) {
        bool arrived = false;
        for (int i = 0; i < cpu_count; i++) arrived |= vcpus[i].state == ARRIVED;
        advance(arrived ? round_length : last_halt);
        last_halt = round_length = 0;
        total.rounds++;
        pthread_mutex_unlock(&lock); // timers wake vCPUs, and come back to us for it
        timerlist_run_timers(timers);
        timerlist_run_timers(main_loop_tlg.tl[QEMU_CLOCK_VIRTUAL]);
        pthread_mutex_lock(&lock);

        int64_t deadline = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL, QEMU_TIMER_ATTR_ALL);
        if (begin_round(deadline) || !runstate_is_running() || deadline < 0) return;
        if (deadline == 0) { // a timer of another list, which the main loop runs
            bql_unlock();
            pthread_mutex_unlock(&lock);
            usleep(50);
            bql_lock();
            pthread_mutex_lock(&lock);
        } else if (__atomic_load_n(&requests, __ATOMIC_SEQ_CST) > 0) {
            wait_for_request();
        } else {
            advance(deadline);
            total.jumps++;
            continue;
        }
        if (round_under_way()) return;
    }
}

// `lock` held: takes vCPUs out of the round whose wake-up was taken back before their threads saw it.
static void forget_lost_wakes(void) {
    for (int i = 0; i < cpu_count; i++) {
        Vcpu *v = &vcpus[i];
        if (v->state != WAKING || !cpu_thread_is_idle(v->cpu)) continue;
        v->state = IDLE;
        v->turn = false;
        total.wakes_lost++;
        if (serial) pass_turn();
    }
}

// Ends the rounds whose last event was a vCPU going idle, and the idle times.
static void *clock_thread(void *unused) {
    (void)unused;
    rcu_register_thread();
    pthread_mutex_lock(&lock);
    for (;;) {
        if (!round_under_way()) {
            retake_locks();
            if (!round_under_way()) end_round();
            bql_unlock();
        }
        struct timespec limit = in_host_ns(20000000);
        if (pthread_cond_timedwait(&clock_event, &lock, &limit)) {
            retake_locks();
            forget_lost_wakes();
            bql_unlock();
        }
    }
    return NULL;
}

// --- A vCPU at the barrier

// Waits a moment without sleeping, if a host CPU is left for those who run.
static void spin_until_event(Vcpu *v, unsigned events) {
    int running = 0;
    for (int i = 0; i < cpu_count; i++) running += vcpus[i].state == RUN && !vcpus[i].turn;
    if (running >= host_cpus) return;
    if (__atomic_add_fetch(&spinning, 1, __ATOMIC_SEQ_CST) < host_cpus) {
        uint64_t begin = __builtin_ia32_rdtsc();
        while (__atomic_load_n(&v->events, __ATOMIC_ACQUIRE) == events && __builtin_ia32_rdtsc() - begin < spin_cycles)
            __builtin_ia32_pause();
    }
    __atomic_sub_fetch(&spinning, 1, __ATOMIC_SEQ_CST);
}

// BQL held, outside of the guest's code: waits for the vCPU's next round; meanwhile serves what others queue for it.
static void wait_for_release(int i, unsigned released) {
    Vcpu *v = &vcpus[i];
    for (;;) {
        unsigned events = __atomic_load_n(&v->events, __ATOMIC_SEQ_CST);
        process_queued_cpu_work(v->cpu);
        if (__atomic_load_n(&v->released, __ATOMIC_SEQ_CST) != released) return;
        bql_unlock();
        spin_until_event(v, events);
        __atomic_store_n(&v->sleeping, true, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&v->events, __ATOMIC_SEQ_CST) == events)
            syscall(SYS_futex, &v->events, FUTEX_WAIT_PRIVATE, events, NULL, NULL, 0);
        __atomic_store_n(&v->sleeping, false, __ATOMIC_SEQ_CST);
        bql_lock();
    }
}

// Queued work of a vCPU that has used up its share: BQL held, outside of the guest's code, so that nobody who needs all
// vCPUs stopped waits for it.
static void arrive(CPUState *cpu, void *number) {
    (void)cpu;
    int i = (intptr_t)number;
    Vcpu *v = &vcpus[i];
    v->queued = false;
    pthread_mutex_lock(&lock);
    if (v->state != RUN || score(i)->count < SHARE_END) {
        pthread_mutex_unlock(&lock);
        return;
    }
    v->overrun = score(i)->count - SHARE_END;
    v->state = ARRIVED;
    unsigned released = v->released;
    if (!round_under_way())
        end_round();
    else if (serial)
        pass_turn();
    pthread_mutex_unlock(&lock);
    wait_for_release(i, released);
}

// Queued work of the first vCPU that executes anything: the machine is complete and lock-step begins. BQL held.
static void start(CPUState *cpu, void *number) {
    (void)cpu;
    int i = (intptr_t)number;
    vcpus[i].queued = false;
    if (started) return;
    timers = main_loop_tlg.tl[QEMU_CLOCK_VIRTUAL]; // ours from now on; the main loop gets an empty list
    main_loop_tlg.tl[QEMU_CLOCK_VIRTUAL] = timerlist_new(QEMU_CLOCK_VIRTUAL, qemu_timer_notify_cb, NULL);
    pthread_mutex_lock(&lock);
    for (int k = 0; k < cpu_count; k++) give_share(k, quantum_ns, 0);
    vcpus[i].state = RUN;
    round_length = quantum_ns;
    started = true;
    pthread_mutex_unlock(&lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, clock_thread, NULL)) refuse("no thread for the clock");
}

// --- What QEMU calls

static void on_share_used(unsigned i, void *unused) {
    (void)unused;
    if (vcpus[i].queued) return;
    vcpus[i].queued = true;
    async_run_on_cpu(vcpus[i].cpu, started ? arrive : start, (void *)(intptr_t)i);
}

// BQL held until the thread sleeps.
static void on_idle(qemu_plugin_id_t id, unsigned i) {
    (void)id;
    pthread_mutex_lock(&lock);
    if (vcpus[i].state == RUN && elapsed(i) > last_halt) last_halt = elapsed(i);
    give_share(i, quantum_ns, 0);
    vcpus[i].state = IDLE;
    left_round();
    pthread_mutex_unlock(&lock);
}

static void on_resume(qemu_plugin_id_t id, unsigned i) {
    (void)id;
    if (!started || !runstate_is_running()) return;
    pthread_mutex_lock(&lock);
    Vcpu *v = &vcpus[i];
    unsigned released = v->released;
    if (v->state == WAKING) {
        v->state = RUN;
        if (!serial) {
            pthread_mutex_unlock(&lock);
            return;
        }
        pass_turn();
    } else {
        v->state = JOIN;
        joins++;
        if (!round_under_way()) pthread_cond_signal(&clock_event);
    }
    pthread_mutex_unlock(&lock);
    wait_for_release(i, released);
}

static void on_request_begin(unsigned i, void *unused) {
    (void)i, (void)unused;
    __atomic_add_fetch(&requests, 1, __ATOMIC_SEQ_CST);
    total.requests++;
}

static void on_request_end(unsigned i, void *unused) {
    (void)i, (void)unused;
    if (__atomic_add_fetch(&requests, -1, __ATOMIC_SEQ_CST) < 0) __atomic_store_n(&requests, 0, __ATOMIC_SEQ_CST);
}

static void (*original_kick)(CPUState *);

static void kick(CPUState *cpu) {
    original_kick(cpu);
    for (int i = 0; i < cpu_count; i++)
        if (vcpus[i].cpu == cpu) notify(&vcpus[i]);
}

// Puts our functions into the class of TCG's operations. Its layout, in pointers, as of QEMU 10.0:
// create_vcpu_thread, kick_vcpu_thread, …, handle_interrupt (8th after the first), get_virtual_clock, set_virtual_clock,
// get_elapsed_ticks (the time stamp counter); the last three are unset with one thread a vCPU and no -icount.
static void replace_operations(void) {
    enum { FIRST = 8, LAST = 40, KICK = 1, INTERRUPT = 8, GET_CLOCK = 9, SET_CLOCK = 10, GET_TICKS = 11 };
    void **class = object_class_by_name("tcg-accel-ops");
    if (!class) refuse("this QEMU has no class tcg-accel-ops");
    void **ops = NULL;
    for (int k = FIRST; k < LAST && !ops; k++)
        if (class[k] == (void *)mttcg_start_vcpu_thread && class[k + KICK] &&
            class[k + INTERRUPT] == (void *)tcg_handle_interrupt)
            ops = &class[k];
    if (!ops || ops[GET_CLOCK] || ops[SET_CLOCK] || ops[GET_TICKS])
        refuse("the class tcg-accel-ops is not as expected: the plugin knows QEMU 10.0 with -accel tcg,thread=multi");
    round_start = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    original_kick = ops[KICK];
    ops[KICK] = kick;
    ops[GET_CLOCK] = virtual_ns;
    ops[SET_CLOCK] = ignore_setting;
    ops[GET_TICKS] = virtual_ns;
}

static void on_vcpu_init(qemu_plugin_id_t id, unsigned i) {
    (void)id;
    if (i >= MAX_CPUS) refuse("more than 64 vCPUs");
    own_number = i;
    vcpus[i].cpu = qemu_get_cpu(i);
    vcpus[i].state = IDLE;
    if ((int)i >= cpu_count) cpu_count = i + 1;
    give_share(i, quantum_ns, 0);
    if (i == 0) replace_operations();
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    static const exec_cb on_request[] = {on_request_begin, on_request_end};
    enum { LONGEST_BLOCK = 8192 };
    qemu_plugin_u64 count = {scores, offsetof(Score, count)};
    size_t n = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, QEMU_PLUGIN_INLINE_ADD_U64, count, n);
    qemu_plugin_register_vcpu_tb_exec_cond_cb(block, on_share_used, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_COND_GE, count,
                                              SHARE_END, NULL);
    uint64_t address = qemu_plugin_tb_vaddr(block);
    for (int k = 0; k < 2; k++) {
        if (!io_address[k] || io_address[k] < address || io_address[k] >= address + LONGEST_BLOCK) continue;
        for (size_t j = 0; j < n; j++) {
            struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, j);
            if (qemu_plugin_insn_vaddr(insn) == io_address[k])
                qemu_plugin_register_vcpu_insn_exec_cb(insn, on_request[k], QEMU_PLUGIN_CB_NO_REGS, NULL);
        }
    }
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused) {
    (void)id, (void)unused;
    if (!statistics) return;
    fprintf(stderr,
            "lockstep: virtual %.3f s, %lu rounds, %lu idle jumps, %lu wakes (%lu taken back), %lu file requests, "
            "%lu waits for them (%lu in vain)\n",
            round_start / 1e9, total.rounds, total.jumps, total.wakes, total.wakes_lost, total.requests, total.waits,
            total.waits_in_vain);
}

// --- Start

static bool set_option(const char *option) {
    const char *value = strchr(option, '=');
    if (!value) return false;
    size_t length = value++ - option;
#define IS(name) (length == strlen(name) && !strncmp(option, name, length))
    if (IS("quantum")) return (quantum_ns = atoll(value)) >= SHORTEST_ROUND_NS;
    if (IS("mips")) return (mips = atoll(value)) > 0;
    if (IS("serial")) return serial = atoi(value), true;
    if (IS("stat")) return statistics = atoi(value), true;
    if (IS("io")) {
        char *rest;
        io_address[0] = strtoull(value, &rest, 0);
        if (*rest == ':') io_address[1] = strtoull(rest + 1, NULL, 0);
        return io_address[0] && io_address[1];
    }
#undef IS
    return false;
}

EXPORT int qemu_plugin_version = PLUGIN_API;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    if (!info->system_emulation) refuse("it needs the emulation of a whole system");
    for (int i = 0; i < argc; i++)
        if (!set_option(argv[i])) {
            fprintf(stderr, "lockstep: bad option %s\n", argv[i]);
            return -1;
        }
    host_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    scores = qemu_plugin_scoreboard_new(sizeof(Score));
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_idle_cb(id, on_idle);
    qemu_plugin_register_vcpu_resume_cb(id, on_resume);
    qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
    return 0;
}
