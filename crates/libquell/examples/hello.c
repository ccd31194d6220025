#include <quell.h>
#include <stdio.h>

int main(void) {
    if (quell_attach() != 0) fprintf(stderr, "%s\n", quell_words());
    struct quell_worker *worker = quell_worker();
    for (int request = 0; request < 3 && !quell_should_leave(worker); request++) {
        quell_request_begin(worker);
        printf("request %d\n", request);
        quell_request_end(worker);
    }
    printf("%u of %u CPUs\n", quell_cpus(), quell_cpus_most());
}
