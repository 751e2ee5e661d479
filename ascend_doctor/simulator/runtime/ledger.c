/* The ledger of a simulated machine: a small file that its processes map. For each device it has an
 * entry for each process, and the most that was taken at once; for groups of a size what was communicated.
 * Entries of dead processes count for nothing and are taken over, so a killed process leaves no lost
 * memory. The file is not shared memory and holds no data. ledger.py reads it. */
#define _GNU_SOURCE
#include "simulator.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES = 64, TALLIES = 256 };

typedef struct {
    atomic_int pid;
    _Atomic uint64_t bytes;
} entry;
struct sim_tally {
    char operation[24];
    uint64_t ranks;
    _Atomic uint64_t calls, bytes;
};
typedef struct {
    entry entries[SIM_MAX_DEVICES][ENTRIES];
    uint64_t peaks[SIM_MAX_DEVICES];
    sim_tally tallies[TALLIES];
} ledger;

static ledger private_ledger, *shared = &private_ledger;
static int lock_file = -1;
static pthread_mutex_t in_process = PTHREAD_MUTEX_INITIALIZER;

static void open_ledger(void) {
    const char *path = getenv("ASCEND_SIMULATOR_LEDGER");
    if (!path || !*path)
        return;
    /* A file of this user alone: through a link or a foreign file others would be written to. */
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat status;
    if (file < 0)
        return;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1 ||
        status.st_uid != geteuid() || (status.st_mode & 022) || ftruncate(file, sizeof(ledger)) != 0) {
        close(file);
        return;
    }
    void *mapped = mmap(NULL, sizeof(ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return;
    shared = mapped;
    lock_file = file;
}

static void lock(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_ledger);
    pthread_mutex_lock(&in_process);
    if (lock_file >= 0)
        while (flock(lock_file, LOCK_EX) != 0 && errno == EINTR) {
        }
}

static void unlock(void) {
    if (lock_file >= 0)
        flock(lock_file, LOCK_UN);
    pthread_mutex_unlock(&in_process);
}

static bool alive(int pid) {
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

static entry *mine(int device) {
    entry *entries = shared->entries[sim_config()->visible[device]], *free_one = NULL;
    for (int i = 0; i < ENTRIES; i++) {
        if (entries[i].pid == getpid())
            return &entries[i];
        if (!free_one && !alive(entries[i].pid))
            free_one = &entries[i];
    }
    if (free_one) {
        free_one->bytes = 0;
        free_one->pid = getpid();
    }
    return free_one;
}

static uint64_t used(int device) {
    entry *entries = shared->entries[sim_config()->visible[device]];
    uint64_t sum = 0;
    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].bytes && alive(entries[i].pid))
            sum += entries[i].bytes;
    return sum;
}

/* The fault hbm-occupied stands for a process of somebody else: `bytes` are left free. */
static uint64_t capacity(int device) {
    static atomic_llong left[SIM_MAX_DEVICES];
    if (!left[device]) {
        const sim_fault *fault = sim_fault_due("hbm-oom", device);
        left[device] = fault ? (long long)sim_fault_number(fault, "free", 32 << 20) + 1 : -1;
    }
    return left[device] > 0 ? (uint64_t)left[device] - 1 : sim_config()->memory;
}

bool sim_ledger_take(int device, uint64_t bytes) {
    lock();
    entry *own = mine(device);
    bool fits = own && used(device) + bytes <= capacity(device);
    if (fits) {
        uint64_t *peak = &shared->peaks[sim_config()->visible[device]], taken = used(device) + bytes;
        own->bytes += bytes;
        *peak = taken > *peak ? taken : *peak;
    }
    unlock();
    return fits;
}

void sim_ledger_give(int device, uint64_t bytes) {
    lock();
    entry *own = mine(device);
    if (own)
        own->bytes -= bytes < own->bytes ? bytes : own->bytes;
    unlock();
}

/* Bytes that are not free, whoever holds them. */
uint64_t sim_ledger_used(int device) {
    lock();
    uint64_t total = sim_config()->memory, room = capacity(device), sum = used(device);
    unlock();
    return total - (sum < room ? room - sum : 0);
}

/* Where an operation of groups of a size is counted; NULL where there is no room for one more. */
sim_tally *sim_ledger_tally(uint32_t ranks, const char *operation) {
    sim_tally *found = NULL;
    lock();
    for (int i = 0; i < TALLIES && !found; i++) {
        sim_tally *t = &shared->tallies[i];
        if (!*t->operation) {
            snprintf(t->operation, sizeof t->operation, "%s", operation);
            t->ranks = ranks;
        }
        if (t->ranks == ranks && !strcmp(t->operation, operation))
            found = t;
    }
    unlock();
    return found;
}

void sim_ledger_count(sim_tally *tally, uint64_t bytes) {
    if (!tally)
        return;
    atomic_fetch_add(&tally->calls, 1);
    atomic_fetch_add(&tally->bytes, bytes);
}

/* The last process of a machine removes the ledger; killed ones are noticed by whoever makes the next. */
__attribute__((destructor)) static void leave(void) {
    if (shared == &private_ledger)
        return;
    bool others = false;
    lock();
    for (int device = 0; device < SIM_MAX_DEVICES; device++)
        for (int i = 0; i < ENTRIES; i++) {
            entry *e = &shared->entries[device][i];
            if (e->pid == getpid())
                e->pid = 0;
            else
                others = others || alive(e->pid);
        }
    if (!others)
        unlink(getenv("ASCEND_SIMULATOR_LEDGER"));
    unlock();
}
