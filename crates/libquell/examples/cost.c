/* What the calls cost, in nanoseconds each: cargo build --release -p libquell && cc -O2 -Icrates/libquell
 * crates/libquell/examples/cost.c target/release/libquell.a -lpthread -ldl -lm -lgcc_s -o target/cost && target/cost */
#include <quell.h>
#include <stdio.h>
#include <time.h>

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

#define COST(what, call)                                            \
    do {                                                            \
        uint64_t best = UINT64_MAX;                                 \
        for (int round = 0; round < 20; round++) {                  \
            uint64_t begin = now();                                 \
            for (int i = 0; i < 100000; i++) { call; }              \
            uint64_t took = now() - begin;                          \
            if (took < best) best = took;                           \
        }                                                           \
        printf("%-20s %6.1f\n", what, (double)best / 100000.0);     \
    } while (0)

int main(void) {
    quell_attach();
    struct quell_worker *worker = quell_worker();
    COST("a clock read", now());
    COST("request begin", quell_request_begin(worker));
    COST("request end", quell_request_end(worker));
    COST("queued", quell_queued(worker));
    COST("dequeued", quell_dequeued(worker, 1));
    COST("should leave", quell_should_leave(worker));
    COST("worker", quell_worker());
    COST("cpus", quell_cpus());
}
