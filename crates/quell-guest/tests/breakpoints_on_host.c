// The plugin on a QEMU of our own making: one block whose last instruction was translated as a one-byte one.
#include <setjmp.h>

#include "../src/breakpoints/breakpoints.c"

struct qemu_plugin_insn { size_t size; uint64_t address; };
struct qemu_plugin_tb { int unused; };

static struct qemu_plugin_insn insn;
static uint8_t byte; // the guest's memory
static void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
static void (*execute)(unsigned, void *);
static int flushes;
static jmp_buf loop;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *)) {
    (void)id;
    translated = cb;
}
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *i, void (*cb)(unsigned, void *), int flags, void *d) {
    if (i == &insn && flags == QEMU_PLUGIN_CB_RW_REGS && d == &byte) execute = cb;
}
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *data) {
    (void)id, (void)cb, (void)data;
}
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *b) { return (void)b, 3; }
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *b, size_t i) {
    return (void)b, i == 2 ? &insn : NULL;
}
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *i) { return i->size; }
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *i) { return i->address; }
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *i) { return (void)i, &byte; }
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *i, void *to, size_t n) { return memcpy(to, &byte, n), i->size; }
CPUState *qemu_get_cpu(int i) { return (CPUState *)(intptr_t)(i + 1); }
void tb_flush(CPUState *cpu) { flushes += cpu == qemu_get_cpu(7); }
void cpu_loop_exit_restore(CPUState *cpu, uintptr_t from) { longjmp(loop, cpu == qemu_get_cpu(7) && from ? 1 : 2); }

// What becomes of an instruction of this size at this address, translated while memory held the one byte, executed while
// it holds the other: watched or not, executed or begun anew.
static const char *fate(size_t size, uint64_t address, uint8_t at_translation, uint8_t at_execution) {
    static struct qemu_plugin_tb block;
    insn = (struct qemu_plugin_insn){size, address};
    byte = at_translation;
    execute = NULL;
    flushes = 0;
    translated(0, &block);
    if (!execute) return "not watched";
    byte = at_execution;
    int jumped = setjmp(loop);
    if (!jumped) execute(7, &byte);
    return !jumped && !flushes ? "executed" : jumped == 1 && flushes == 1 ? "anew" : "wrong";
}

int main(void) {
    const uint64_t kernel = 0xffffffff81000000, user = 0x400000;
    qemu_plugin_install(0, NULL, 0, NULL);
    printf("standing: %s\n", fate(1, kernel, 0xcc, 0xcc));
    printf("gone since it was translated: %s\n", fate(1, kernel, 0xcc, 0x0f));
    printf("gone while it was translated: %s\n", fate(1, kernel, 0xe9, 0xe9));
    printf("gone and there again: %s\n", fate(1, kernel, 0xe9, 0xcc));
    printf("a program's: %s\n", fate(1, user, 0xcc, 0xcc));
    printf("a jump: %s\n", fate(5, kernel, 0xe9, 0xe9));
    printf("a return: %s\n", fate(1, kernel, 0xc3, 0xc3));
}
