// What QEMU calls, and what the plugin replaces in QEMU.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep.h"

#define EXPORT __attribute__((visibility("default")))

static bool started, statistics;
static uint64_t io_address[2]; // of the begin and of the end of a request

void refuse(const char *why) {
    fprintf(stderr, "lockstep: %s\n", why);
    _exit(1);
}

// Queued work of a vCPU that has used up its share: BQL held, outside of the guest's code, so that nobody who needs all
// vCPUs stopped waits for it.
static void arrive(CPUState *cpu, void *number) {
    (void)cpu;
    int i = (intptr_t)number;
    Vcpu *v = &vcpus[i];
    v->queued = false;
    pthread_mutex_lock(&lock);
    if (v->state != RUN || !share_used(i)) {
        pthread_mutex_unlock(&lock);
        return;
    }
    v->overrun = overrun(i);
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
    started = true;
    begin_lockstep(i);
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

static void ignore_setting(int64_t ns) { (void)ns; }

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
    if (IS("coarse")) return coarse_until_ns = atoll(value), true;
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
