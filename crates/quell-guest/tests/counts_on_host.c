// The plugin on a QEMU of our own making: two vCPUs that execute blocks of this file.
#include "../src/counts/counts.c"

enum { VCPUS = 2, MOST = 8 };

struct qemu_plugin_insn { size_t size; uint8_t bytes[MARK_BYTES]; void (*execute)(unsigned, void *); };
struct qemu_plugin_tb { uint64_t address; size_t n; struct qemu_plugin_insn *insn; qemu_plugin_u64 counter; uint64_t add; };
struct qemu_plugin_scoreboard { size_t size; char *memory[VCPUS]; };

static void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size) {
    struct qemu_plugin_scoreboard *score = calloc(1, sizeof *score);
    for (int i = 0; i < VCPUS; i++) score->memory[i] = calloc(1, size);
    return score;
}
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned vcpu) { return score->memory[vcpu]; }
int qemu_plugin_num_vcpus(void) { return VCPUS; }
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *)) {
    (void)id;
    translated = cb;
}
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb) { return tb->n; }
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb) { return tb->address; }
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i) { return &tb->insn[i]; }
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn) { return insn->size; }
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t n) {
    return memcpy(to, insn->bytes, n), insn->size;
}
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op, qemu_plugin_u64 counter,
                                                       uint64_t add) {
    if (op == QEMU_PLUGIN_INLINE_ADD_U64) tb->counter = counter, tb->add = add;
}
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*cb)(unsigned, void *), int flags, void *d) {
    if (flags == QEMU_PLUGIN_CB_NO_REGS && !d) insn->execute = cb;
}

static void execute(struct qemu_plugin_tb *tb, unsigned vcpu, unsigned times) {
    while (times--) {
        *(uint64_t *)(tb->counter.score->memory[vcpu] + tb->counter.offset) += tb->add;
        for (size_t i = 0; i < tb->n; i++)
            if (tb->insn[i].execute) tb->insn[i].execute(vcpu, NULL);
    }
}

static struct qemu_plugin_tb translate(uint64_t address, size_t n, struct qemu_plugin_insn *insn) {
    struct qemu_plugin_tb tb = {address, n, insn, {NULL, 0}, 0};
    translated(0, &tb);
    return tb;
}

int main(void) {
    const uint64_t kernel = 0xffffffff81000000;
    char *options[] = {"fd=1", "begin=11223344", "end=11223345"};
    if (qemu_plugin_install(0, NULL, 3, options)) return 1;
    struct qemu_plugin_insn plain[MOST] = {{3, {0x48, 0x89, 0xe5}, NULL}};
    struct qemu_plugin_insn filler[] = {{8, {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, NULL}};
    struct qemu_plugin_insn begin[] = {{8, {0x0f, 0x1f, 0x84, 0, 0x44, 0x33, 0x22, 0x11}, NULL}};
    struct qemu_plugin_insn end[] = {{8, {0x0f, 0x1f, 0x84, 0, 0x45, 0x33, 0x22, 0x11}, NULL}};
    struct qemu_plugin_insn kernels[] = {begin[0]};

    struct qemu_plugin_tb first = translate(kernel, 5, plain), shorter = translate(kernel, 2, plain);
    struct qemu_plugin_tb other = translate(kernel + 32, 4, plain), again = translate(kernel, 5, plain);
    struct qemu_plugin_tb program = translate(0x400000, 6, plain), another = translate(0x400000, 3, plain);
    struct qemu_plugin_tb fills = translate(0x400100, 1, filler), in_kernel = translate(kernel + 64, 1, kernels);
    struct qemu_plugin_tb begins = translate(0x400200, 1, begin), ends = translate(0x400300, 1, end);

    execute(&first, 0, 100), execute(&program, 1, 100); // before the mark
    execute(&begins, 1, 1);
    execute(&first, 0, 3), execute(&again, 1, 2), execute(&shorter, 1, 7), execute(&in_kernel, 0, 1);
    execute(&program, 0, 10), execute(&another, 0, 1), execute(&fills, 1, 4);
    for (uint64_t i = 0; i < 3 * BLOCKS_A_CHUNK; i++) translate(kernel + 4096 + i, 1, plain); // not executed
    struct qemu_plugin_tb last = translate(kernel - 16, 1, plain);
    execute(&last, 1, 1);
    execute(&ends, 0, 1);
    execute(&other, 0, 1); // after the mark
    return 0;
}
