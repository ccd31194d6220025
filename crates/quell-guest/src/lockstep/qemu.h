// What the lock-step plugin uses of QEMU, declared here so that no QEMU headers are needed to build it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- The plugin API (qemu-plugin.h, version 4 of the API, QEMU 9.2 and later).

enum { PLUGIN_API = 4 };

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;

typedef struct {
    struct qemu_plugin_scoreboard *score;
    size_t offset;
} qemu_plugin_u64;

typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
    int smp_vcpus;
    int max_vcpus;
} qemu_info_t;

enum { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_COND_GE = 7, QEMU_PLUGIN_INLINE_ADD_U64 = 0 };

typedef void (*vcpu_cb)(qemu_plugin_id_t, unsigned vcpu);
typedef void (*exec_cb)(unsigned vcpu, void *data);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned vcpu);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, int op, qemu_plugin_u64, uint64_t);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *, exec_cb, int flags, int condition,
                                               qemu_plugin_u64, uint64_t immediate, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, exec_cb, int flags, void *);

// --- QEMU's internals. Debian's binary exports them, because its own modules need them.

typedef struct CPUState CPUState;
typedef struct QEMUTimerList QEMUTimerList;
typedef void (*cpu_work)(CPUState *, void *);

enum { QEMU_CLOCK_VIRTUAL = 1, QEMU_CLOCK_MAX = 4, QEMU_TIMER_ATTR_ALL = -1 };

extern struct {
    QEMUTimerList *tl[QEMU_CLOCK_MAX];
} main_loop_tlg;

void *object_class_by_name(const char *);
CPUState *qemu_get_cpu(int);
void async_run_on_cpu(CPUState *, cpu_work, void *);
void process_queued_cpu_work(CPUState *);
bool cpu_thread_is_idle(CPUState *);
bool runstate_is_running(void);
void rcu_register_thread(void);
void bql_lock_impl(const char *file, int line);
void bql_unlock(void);
int64_t qemu_clock_get_ns(int);
int64_t qemu_clock_deadline_ns_all(int clock, int attributes);
QEMUTimerList *timerlist_new(int clock, void (*notify)(void *, int), void *);
bool timerlist_run_timers(QEMUTimerList *);
void qemu_timer_notify_cb(void *, int);

// Two entries of the class "tcg-accel-ops", by which its layout is recognised.
void mttcg_start_vcpu_thread(CPUState *);
void tcg_handle_interrupt(CPUState *, int);

// The "big QEMU lock".
#define bql_lock() bql_lock_impl(__FILE__, __LINE__)
