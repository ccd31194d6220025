// A plugin for an unmodified QEMU (TCG, x86): counts how often each block of the guest's code is executed, by vCPU, between
// two marks.
//
// A mark is a no-operation of eight bytes whose displacement is a number that no compiler chooses. A program in the guest
// executes the first one, and all counters become 0; it executes the second one, and they are written. In a serial
// lock-step guest no other vCPU executes anything meanwhile, so that two runs count the same.
//
// A block of the kernel, or of a BPF program, is known by its address and its number of instructions. The addresses of
// programs say nothing without the process: together they are the block 0, of one instruction, executed as often as they
// executed instructions. A block that an exception leaves early counts whole.
//
// What is written: the line "cpus N", then a line for each block that was executed: its address (hexadecimal), its number
// of instructions, and how often each vCPU executed it.
//
// Options: fd=N: where the counts go. begin=HEX, end=HEX: the numbers of the marks.
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- The plugin API (qemu-plugin.h, version 4 of the API, QEMU 9.2 and later).

enum { PLUGIN_API = 4, QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_INLINE_ADD_U64 = 0 };

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;

typedef struct {
    struct qemu_plugin_scoreboard *score;
    size_t offset;
} qemu_plugin_u64;

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned vcpu);
int qemu_plugin_num_vcpus(void);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, int op, qemu_plugin_u64, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);

#define EXPORT __attribute__((visibility("default")))
#define KERNEL_SPACE (1ULL << 63)

enum { BLOCKS_A_CHUNK = 4096, CHUNKS = 4096, HASH_BITS = 18, MARK_BYTES = 8 };

typedef struct {
    uint64_t address;
    uint32_t instructions;
    uint32_t next; // of the same hash; 0: none
} Block;

// Blocks with a counter each for every vCPU.
typedef struct {
    Block blocks[BLOCKS_A_CHUNK];
    struct qemu_plugin_scoreboard *counters;
} Chunk;

static Chunk *chunks[CHUNKS];
static uint32_t block_count;
static uint32_t first_of_hash[1 << HASH_BITS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of all above: vCPUs translate at the same time

static uint8_t begin_mark[MARK_BYTES], end_mark[MARK_BYTES];
static FILE *out;

static void refuse(const char *why) {
    fprintf(stderr, "counts: %s\n", why);
    _exit(1);
}

static Block *block_at(uint32_t number) {
    return &chunks[number / BLOCKS_A_CHUNK]->blocks[number % BLOCKS_A_CHUNK];
}

static uint32_t new_block(uint64_t address, uint32_t instructions) {
    uint32_t number = block_count++;
    if (number / BLOCKS_A_CHUNK == CHUNKS) refuse("too many blocks");
    Chunk **chunk = &chunks[number / BLOCKS_A_CHUNK];
    if (!*chunk) {
        *chunk = calloc(1, sizeof(Chunk));
        if (!*chunk) refuse("no memory");
        (*chunk)->counters = qemu_plugin_scoreboard_new(BLOCKS_A_CHUNK * sizeof(uint64_t));
    }
    *block_at(number) = (Block){address, instructions, 0};
    return number;
}

// The block of the kernel; `lock` held.
static uint32_t kernel_block(uint64_t address, uint32_t instructions) {
    uint64_t hash = ((address * 31 + instructions) * 0x9e3779b97f4a7c15ULL) >> (64 - HASH_BITS);
    for (uint32_t number = first_of_hash[hash]; number; number = block_at(number)->next)
        if (block_at(number)->address == address && block_at(number)->instructions == instructions) return number;
    uint32_t number = new_block(address, instructions);
    block_at(number)->next = first_of_hash[hash];
    return first_of_hash[hash] = number;
}

static uint64_t *counter(uint32_t number, int vcpu) {
    uint64_t *of_chunk = qemu_plugin_scoreboard_find(chunks[number / BLOCKS_A_CHUNK]->counters, vcpu);
    return &of_chunk[number % BLOCKS_A_CHUNK];
}

static void on_begin(unsigned vcpu, void *unused) {
    (void)vcpu, (void)unused;
    pthread_mutex_lock(&lock);
    for (uint32_t number = 0; number < block_count; number++)
        for (int i = 0; i < qemu_plugin_num_vcpus(); i++) *counter(number, i) = 0;
    pthread_mutex_unlock(&lock);
}

static void on_end(unsigned vcpu, void *unused) {
    (void)vcpu, (void)unused;
    pthread_mutex_lock(&lock);
    int cpus = qemu_plugin_num_vcpus();
    fprintf(out, "cpus %d\n", cpus);
    for (uint32_t number = 0; number < block_count; number++) {
        uint64_t total = 0;
        for (int i = 0; i < cpus; i++) total += *counter(number, i);
        if (!total) continue;
        fprintf(out, "%lx %u", block_at(number)->address, block_at(number)->instructions);
        for (int i = 0; i < cpus; i++) fprintf(out, " %lu", *counter(number, i));
        fputc('\n', out);
    }
    if (fflush(out)) refuse("the counts cannot be written");
    pthread_mutex_unlock(&lock);
}

static bool is_mark(const struct qemu_plugin_insn *insn, const uint8_t *mark) {
    uint8_t bytes[MARK_BYTES];
    return qemu_plugin_insn_size(insn) == MARK_BYTES && qemu_plugin_insn_data(insn, bytes, MARK_BYTES) == MARK_BYTES &&
           !memcmp(bytes, mark, MARK_BYTES);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    enum { PROGRAMS = 0 };
    size_t n = qemu_plugin_tb_n_insns(tb);
    uint64_t address = qemu_plugin_tb_vaddr(tb);
    bool is_kernel = address >= KERNEL_SPACE;
    pthread_mutex_lock(&lock);
    uint32_t number = is_kernel ? kernel_block(address, n) : PROGRAMS;
    struct qemu_plugin_scoreboard *counters = chunks[number / BLOCKS_A_CHUNK]->counters;
    pthread_mutex_unlock(&lock);
    qemu_plugin_u64 count = {counters, number % BLOCKS_A_CHUNK * sizeof(uint64_t)};
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, count, is_kernel ? 1 : n);
    for (size_t i = 0; !is_kernel && i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        bool begins = is_mark(insn, begin_mark);
        if (begins || is_mark(insn, end_mark))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, begins ? on_begin : on_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
}

// --- Start

// nopl number(%rax,%rax,1)
static void set_mark(uint8_t *mark, const char *number) {
    static const uint8_t nopl[] = {0x0f, 0x1f, 0x84, 0x00};
    uint32_t displacement = strtoul(number, NULL, 16);
    memcpy(mark, nopl, sizeof nopl);
    memcpy(mark + sizeof nopl, &displacement, sizeof displacement);
}

EXPORT int qemu_plugin_version = PLUGIN_API;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "fd=", 3)) out = fdopen(atoi(argv[i] + 3), "w");
        if (!strncmp(argv[i], "begin=", 6)) set_mark(begin_mark, argv[i] + 6);
        if (!strncmp(argv[i], "end=", 4)) set_mark(end_mark, argv[i] + 4);
    }
    if (!out || !begin_mark[0] || !end_mark[0]) {
        fprintf(stderr, "counts: it needs the options fd, begin and end\n");
        return -1;
    }
    new_block(0, 1); // of all programs
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
