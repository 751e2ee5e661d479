/* Virtual time at true size. The host has a clock, and each stream: work begins when both the host has
 * launched it and the stream is free, a wait takes the later of two, and what is real passes no time.
 * Without rates nothing costs. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic int64_t host; /* nanoseconds */

double sim_host_clock(void) {
    return (double)atomic_load(&host) * 1e-9;
}

void sim_host_until(double when) {
    int64_t there = (int64_t)(when * 1e9), here = atomic_load(&host);
    while (here < there && !atomic_compare_exchange_weak(&host, &here, there)) {
    }
}

/* timeline.py reads the file. */
void sim_timeline(int stream, const char *name, double begin, double end) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static FILE *file;
    const char *folder = sim_config()->timeline;
    if (!*folder)
        return;
    pthread_mutex_lock(&lock);
    if (!file) {
        char path[1100];
        snprintf(path, sizeof path, "%s/%d-%d.tsv", folder, sim_config()->rank, (int)getpid());
        file = fopen(path, "we");
        if (file)
            setvbuf(file, NULL, _IOLBF, 1 << 12); /* a rank may be killed */
    }
    if (file)
        fprintf(file, "%d\t%.3f\t%.3f\t%s\n", stream, begin * 1e6, (end - begin) * 1e6, name);
    pthread_mutex_unlock(&lock);
}

typedef struct {
    double launched, seconds;
    const char *name;
} cost;

static aclError do_spend(void *arguments, aclError failed, char *message) {
    (void)failed, (void)message;
    const cost *c = arguments;
    sim_clock_from(c->launched);
    double begin = sim_clock_now();
    sim_clock_spend(c->seconds);
    sim_clock_note(c->name, begin);
    return ACL_SUCCESS;
}

/* For operators: so long the host takes to launch one, and so long the stream to run it. `name` stays. */
void sim_spend(aclrtStream stream, double seconds, double launch, const char *name) {
    double now = (double)atomic_fetch_add(&host, (int64_t)(launch * 1e9)) * 1e-9 + launch;
    cost c = {now, seconds, name};
    sim_launch(stream, do_spend, &c, sizeof c, false);
}
