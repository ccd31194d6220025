// The barrier at the end of each round, and the clock that it drives.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lockstep.h"

enum { COARSE_NS = 100000, PATIENCE_S = 5, SPIN_CYCLES = 50000 };

int64_t quantum_ns = 10000, mips = 1000, coarse_until_ns;
bool serial;
struct qemu_plugin_scoreboard *scores;
Vcpu vcpus[MAX_CPUS];
int cpu_count, host_cpus;
__thread int own_number __attribute__((tls_model("initial-exec"))) = -1;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t clock_event = PTHREAD_COND_INITIALIZER;
int64_t round_start, round_length, last_halt;
int requests;
unsigned joins;
struct Total total;

static int spinning;
static QEMUTimerList *timers; // all timers of the devices

// --- Counting instructions

static Score *score(int i) { return qemu_plugin_scoreboard_find(scores, i); }

uint64_t overrun(int i) { return score(i)->count - SHARE_END; }

bool share_used(int i) { return score(i)->count >= SHARE_END; }

static uint64_t instructions(int64_t ns) { return (uint64_t)ns * mips / 1000; }

void give_share(int i, int64_t ns, uint64_t used) {
    Score *s = score(i);
    s->start = SHARE_END - instructions(ns);
    s->count = s->start + used;
}

// Virtual ns since the round's start, as vCPU i has executed them.
int64_t elapsed(int i) {
    Score *s = score(i);
    int64_t ns = (int64_t)(s->count - s->start) * 1000 / mips;
    int64_t limit = __atomic_load_n(&round_length, __ATOMIC_RELAXED);
    return ns < 0 ? 0 : ns > limit ? limit : ns;
}

int64_t virtual_ns(void) {
    int64_t start = __atomic_load_n(&round_start, __ATOMIC_ACQUIRE);
    return own_number >= 0 && vcpus[own_number].state == RUN ? start + elapsed(own_number) : start;
}

static void advance(int64_t ns) { __atomic_store_n(&round_start, round_start + ns, __ATOMIC_RELEASE); }

// --- Waking and releasing vCPUs

void notify(Vcpu *v) {
    __atomic_add_fetch(&v->events, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&v->sleeping, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &v->events, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// vCPU i runs its share of the round.
static void release(int i) {
    Vcpu *v = &vcpus[i];
    give_share(i, round_length, v->overrun);
    v->overrun = 0;
    v->state = RUN;
    __atomic_add_fetch(&v->released, 1, __ATOMIC_SEQ_CST);
    notify(v);
}

// Those whom the round waits for.
bool round_under_way(void) {
    for (int i = 0; i < cpu_count; i++)
        if (vcpus[i].state == RUN || vcpus[i].state == WAKING) return true;
    return false;
}

// `lock` held, serial: the next vCPU of the round runs if none does.
void pass_turn(void) {
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
void left_round(void) {
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
    round_length = round_start < coarse_until_ns && quantum_ns < COARSE_NS ? COARSE_NS : quantum_ns;
    if (deadline > 0 && deadline < round_length) round_length = deadline;
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

// A request to another host process is under way: gives that one host time, up to PATIENCE_S.
static void wait_for_request(void) {
    struct timespec limit = in_host_ns(PATIENCE_S * 1000000000LL);
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
void end_round(void) {
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

// Waits a moment without sleeping, if a host CPU is left for those who run. With turns the wait is too long for that.
static void spin_until_event(Vcpu *v, unsigned events) {
    if (serial) return;
    int running = 0;
    for (int i = 0; i < cpu_count; i++) running += vcpus[i].state == RUN && !vcpus[i].turn;
    if (running >= host_cpus) return;
    if (__atomic_add_fetch(&spinning, 1, __ATOMIC_SEQ_CST) < host_cpus) {
        uint64_t begin = __builtin_ia32_rdtsc();
        while (__atomic_load_n(&v->events, __ATOMIC_ACQUIRE) == events && __builtin_ia32_rdtsc() - begin < SPIN_CYCLES)
            __builtin_ia32_pause();
    }
    __atomic_sub_fetch(&spinning, 1, __ATOMIC_SEQ_CST);
}

// BQL held, outside of the guest's code: waits for the vCPU's next round; meanwhile serves what others queue for it.
void wait_for_release(int i, unsigned released) {
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

// The machine is complete and lock-step begins, with vCPU i running.
void begin_lockstep(int i) {
    timers = main_loop_tlg.tl[QEMU_CLOCK_VIRTUAL]; // ours from now on; the main loop gets an empty list
    main_loop_tlg.tl[QEMU_CLOCK_VIRTUAL] = timerlist_new(QEMU_CLOCK_VIRTUAL, qemu_timer_notify_cb, NULL);
    pthread_mutex_lock(&lock);
    for (int k = 0; k < cpu_count; k++) give_share(k, quantum_ns, 0);
    vcpus[i].state = RUN;
    round_length = quantum_ns;
    pthread_mutex_unlock(&lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, clock_thread, NULL)) refuse("no thread for the clock");
}
