// A plugin for an unmodified QEMU (10.0, TCG, one thread a vCPU, x86): the guest's kernel executes no breakpoint that it
// has taken out again.
//
// The kernel changes its own code in three steps: a breakpoint (int3) in place of the first byte, the other bytes, the
// first byte. While that goes on, its handler knows the breakpoint; afterwards it is an "Oops: int3". QEMU forgets what it
// translated of the old bytes *before* it stores the new ones. Between the two, another vCPU can translate the old bytes
// anew, and what it made of them stays. The host makes that moment long when it takes the CPU from the storing thread
// just there. Of the three steps only the third leaves something wrong: the first two are followed by another store to
// the same instruction, which makes QEMU forget again.
//
// So each translated breakpoint of the kernel looks whether it still stands in memory when it is executed. If not, all
// translations are dropped while no vCPU executes any, so that no store is half done, and the instruction is executed
// anew. Nothing else of the guest's code is touched.
//
// Not covered: a breakpoint in place of a one-byte return that is taken out during the very translation.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// --- The plugin API (qemu-plugin.h, version 4 of the API, QEMU 9.2 and later).

enum { PLUGIN_API = 4, QEMU_PLUGIN_CB_RW_REGS = 2 };

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);

// --- QEMU's internals. Debian's binary exports them, because its own modules need them.

typedef struct CPUState CPUState;

CPUState *qemu_get_cpu(int);
void tb_flush(CPUState *);
void cpu_loop_exit_restore(CPUState *, uintptr_t host_address) __attribute__((noreturn));

#define EXPORT __attribute__((visibility("default")))
#define KERNEL_SPACE (1ULL << 63)

enum { BREAKPOINT = 0xcc };

static unsigned long executed, stale;

// Called from the translated code, with the guest's registers saved.
static void on_breakpoint(unsigned vcpu, void *byte) {
    __atomic_add_fetch(&executed, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n((uint8_t *)byte, __ATOMIC_ACQUIRE) == BREAKPOINT) return;
    __atomic_add_fetch(&stale, 1, __ATOMIC_RELAXED);
    CPUState *cpu = qemu_get_cpu(vcpu);
    tb_flush(cpu); // queued: done before this vCPU executes anything, when all others have stopped
    cpu_loop_exit_restore(cpu, (uintptr_t)__builtin_return_address(0));
}

// Whether it was translated as a breakpoint. Its byte may have changed since it was, and so may the byte that is read
// here: by itself none of these is an instruction but the breakpoint. They begin the jumps, calls and fillers (with
// prefixes) that the kernel puts in and takes out.
static bool is_breakpoint(const struct qemu_plugin_insn *insn) {
    static const uint8_t begins[] = {BREAKPOINT, 0xe8, 0xe9, 0xeb, 0x0f, 0x66, 0x2e};
    uint8_t byte;
    return qemu_plugin_insn_size(insn) == 1 && qemu_plugin_insn_data(insn, &byte, 1) == 1 &&
           memchr(begins, byte, sizeof begins);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    // A breakpoint ends its block.
    struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(block, qemu_plugin_tb_n_insns(block) - 1);
    if (qemu_plugin_insn_vaddr(last) < KERNEL_SPACE || !is_breakpoint(last)) return;
    void *byte = qemu_plugin_insn_haddr(last);
    if (byte) qemu_plugin_register_vcpu_insn_exec_cb(last, on_breakpoint, QEMU_PLUGIN_CB_RW_REGS, byte);
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused) {
    (void)id, (void)unused;
    fprintf(stderr, "breakpoints: %lu executed, %lu of them stale\n", executed, stale);
}

EXPORT int qemu_plugin_version = PLUGIN_API;

// The option stat=1 prints the counters at the end.
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "stat=1")) qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
