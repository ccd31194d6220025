/* Does what it is told on its standard input, a word a line, and says what came of it. */
#include <quell.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    char word[32];
    struct quell_worker *worker = NULL;
    uint64_t oldest = 0;
    while (scanf("%31s", word) == 1) {
        if (!strcmp(word, "attach")) printf("%d %s\n", quell_attach(), quell_words());
        else if (!strcmp(word, "worker")) printf("%d\n", (worker = quell_worker()) != NULL && worker == quell_worker());
        else if (!strcmp(word, "queued")) printf("%d\n", (oldest = quell_queued(worker)) > 0);
        else if (!strcmp(word, "dequeued")) quell_dequeued(worker, 0), puts("1");
        else if (!strcmp(word, "events")) quell_events(worker, 3), puts("1");
        else if (!strcmp(word, "handled")) quell_events(worker, 0), puts("1");
        else if (!strcmp(word, "lie")) *(uint32_t *)(void *)worker = 1, puts("1");
        else if (!strcmp(word, "begin")) quell_request_begin(worker), puts("1");
        else if (!strcmp(word, "end")) quell_request_end(worker), puts("1");
        else if (!strcmp(word, "cpus")) printf("%u %u\n", quell_cpus(), quell_cpus_most());
        else if (!strcmp(word, "leave")) printf("%d\n", quell_should_leave(worker));
        else if (!strcmp(word, "fork")) {
            fflush(stdout);
            pid_t child = fork();
            int status = 0;
            if (child == 0) {
                struct quell_worker *own = quell_worker();
                quell_queued(own);
                _exit(own != NULL && quell_cpus() > 0 ? 0 : 1);
            }
            waitpid(child, &status, 0);
            printf("%d\n", status);
        }
        fflush(stdout);
    }
}
