/* Programs that cooperate with Quell: they export how long requests wait, and learn how many CPUs they have.
 *
 *   1. quell_attach() once, at the start; without an agent the program runs as it would otherwise.
 *   2. quell_worker() in each thread that takes requests; then quell_request_begin() and quell_request_end() around each
 *      request, and quell_queued() and quell_dequeued() where one waits in a queue of the program's own.
 *   3. quell_cpus() for the number of threads to run, and quell_should_leave() between two requests.
 *
 * Nothing here starts a thread, nothing allocates memory after quell_attach(), and the child of a fork begins anew. Link with
 * -lquell, or with libquell.a -lpthread -ldl -lm. Licence: MIT or Apache-2.0, at your choice. */
#ifndef QUELL_H
#define QUELL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A thread's line in the shared page. Every function takes NULL, and does nothing then. */
struct quell_worker;

/* quell_dequeued(): the program does not know since when the next task waits. */
#define QUELL_NO_TIME UINT64_MAX

/* Asks the agent for the pages, and waits for at most 250 ms. 0: they are there. ENOENT: no agent answers; ETIMEDOUT: it has
 * not answered yet; both are tried again by later calls of quell_cpus(). EPERM: the agent refuses; EPROTO: it is of another
 * version. quell_words() says why, and what to do. QUELL_RUNTIME names another socket than /run/quell/runtime/quell.sock. */
int quell_attach(void);

/* The agent's last answer in words; never NULL. */
const char *quell_words(void);

/* The calling thread's line; NULL before quell_attach(), and for the 256th worker. It is free again when the thread ends. */
struct quell_worker *quell_worker(void);

/* The worker begins a request, and ends it. */
void quell_request_begin(struct quell_worker *worker);
void quell_request_end(struct quell_worker *worker);

/* A task was put into this worker's queue; returns the time, to be kept with the task. */
uint64_t quell_queued(struct quell_worker *worker);

/* A task was taken out of this worker's queue, by it or by a sibling that steals; `oldest` is the time of the one that is the
 * oldest now, 0 if the queue is empty. Both calls belong under the queue's own lock, if it has one. */
void quell_dequeued(struct quell_worker *worker, uint64_t oldest);

/* This many I/O events are ready and not handled yet, of those that an epoll_wait() returned: the oldest waits from the first
 * call that found one. */
void quell_events(struct quell_worker *worker, unsigned left);

/* CPUs that the program has now, rounded up, at least 1; without an agent, those that it may run on. */
unsigned quell_cpus(void);

/* CPUs that it can have at most: the number of threads to start. */
unsigned quell_cpus_most(void);

/* Is this worker asked to leave its CPU? It parks then, after its request, until quell_cpus() is larger. */
int quell_should_leave(const struct quell_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
