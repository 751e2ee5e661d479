/* What a rank called, in a file of its own that outlives the process; diagnosis/journal.py reads it.
 * ASCEND_SIMULATOR_JOURNAL names the folder; without it, or without RANK, nothing is written. */
#define _GNU_SOURCE
#include "hccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { GROUPS = 256, CALLS = 512 };

typedef struct {
    char key[32], name[64];
    uint32_t ranks;
    int32_t members[MAX_RANKS]; /* RANK of each, -1 where it is not known, -2 without a process */
} group_row;
struct sim_call {
    _Atomic uint64_t order; /* among the calls of this rank, from 1 */
    uint64_t number, count; /* of the group's collectives, or of its transfers; elements */
    double entered;         /* seconds since 1970 */
    uint32_t group, type;
    int32_t peer;           /* RANK of the other end; -1: a collective */
    _Atomic uint32_t state; /* 0 queued, 1 begun, 2 ended */
    char operation[24];
};
typedef struct {
    char magic[16];
    int32_t pid, ranks;
    _Atomic uint64_t calls, groups;
    group_row rows[GROUPS];
    sim_call ring[CALLS];
} journal;

static journal *shared;
static pthread_mutex_t in_process = PTHREAD_MUTEX_INITIALIZER;

static void open_journal(void) {
    const char *folder = getenv("ASCEND_SIMULATOR_JOURNAL");
    char path[4096];
    if (!folder || sim_config()->rank < 0)
        return;
    snprintf(path, sizeof path, "%s/rank-%d.calls", folder, sim_config()->rank);
    /* A new file: an earlier process of this rank may have its own mapped. */
    unlink(path);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    void *mapped = MAP_FAILED;
    if (ftruncate(file, sizeof(journal)) == 0)
        mapped = mmap(NULL, sizeof(journal), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        return;
    shared = mapped;
    memcpy(shared->magic, "simulated calls", 16);
    shared->pid = (int32_t)getpid();
    const char *ranks = getenv("WORLD_SIZE");
    shared->ranks = ranks ? atoi(ranks) : 0;
}

void sim_journal_group(communicator *c) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_journal);
    pthread_mutex_lock(&in_process);
    c->row = -1;
    if (shared && shared->groups < GROUPS) {
        c->row = (int)shared->groups;
        group_row *row = &shared->rows[c->row];
        memcpy(row->key, c->shared->cookie, sizeof row->key);
        snprintf(row->name, sizeof row->name, "%.63s", c->name);
        row->ranks = c->ranks;
        for (uint32_t rank = 0; rank < c->ranks; rank++)
            row->members[rank] = sim_absent(c, rank) ? -2 : c->shared->job[rank];
        shared->groups++;
    }
    pthread_mutex_unlock(&in_process);
}

sim_mark sim_journal_call(communicator *c, const char *operation, int peer, uint64_t count, HcclDataType type) {
    sim_mark mark = {NULL, 0};
    pthread_mutex_lock(&in_process);
    if (shared && c->row >= 0) {
        mark.order = shared->calls + 1;
        mark.call = &shared->ring[(mark.order - 1) % CALLS];
        sim_call *call = mark.call;
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        call->order = 0;
        call->number = peer < 0 ? ++c->numbered : ++c->transferred;
        call->count = count;
        call->entered = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
        call->group = (uint32_t)c->row;
        call->type = (uint32_t)type;
        call->peer = peer < 0 ? -1 : c->shared->job[peer];
        call->state = 0;
        snprintf(call->operation, sizeof call->operation, "%s", operation);
        call->order = mark.order;
        shared->calls++;
    }
    pthread_mutex_unlock(&in_process);
    return mark;
}

void sim_journal_mark(sim_mark mark, uint32_t state) {
    if (mark.call && mark.call->order == mark.order)
        mark.call->state = state;
}
