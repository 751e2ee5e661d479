/* Communicators: made from root information, or from another communicator; their names and their end. */
#define _GNU_SOURCE
#include "hccl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What stands in HcclRootInfo: where the other ranks find the memory file. */
typedef struct {
    char magic[24];
    int32_t pid, file;
    char cookie[32];
} address;

static const char MAGIC[24] = "simulated HCCL root";

static size_t segment_size(uint32_t real) {
    return sizeof(segment) + 2 * (size_t)real * (sizeof(slot) + SLOT) + (size_t)real * real * MESSAGES * MAIL;
}

/* A new memory file with a cookie that tells it from whatever may get its number later. */
static HcclResult create(address *where) {
    static atomic_uint made;
    memset(where, 0, sizeof *where);
    memcpy(where->magic, MAGIC, sizeof MAGIC);
    where->pid = (int32_t)getpid();
    snprintf(where->cookie, sizeof where->cookie, "%x-%u-%llx", (unsigned)getpid(), atomic_fetch_add(&made, 1),
             (unsigned long long)(sim_now() * 1e9));
    where->file = (int32_t)syscall(SYS_memfd_create, "simulated HCCL", 1U /* MFD_CLOEXEC */);
    if (where->file < 0 || ftruncate(where->file, sizeof(segment)) != 0 ||
        pwrite(where->file, where->cookie, sizeof where->cookie, 0) != sizeof where->cookie)
        return HCCL_E_SYSCALL;
    return HCCL_SUCCESS;
}

/* Maps the file of another process, or of this one. NULL when it is gone. */
static segment *attach(const address *where, size_t size) {
    char path[64], cookie[32];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", where->pid, where->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return NULL;
    segment *mapped = MAP_FAILED;
    if (pread(file, cookie, sizeof cookie, 0) == sizeof cookie && !memcmp(cookie, where->cookie, sizeof cookie) &&
        ftruncate(file, (off_t)size) == 0)
        mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static HcclResult topology_timeout(const segment *s, uint32_t ranks) {
    char missing[256] = "";
    for (uint32_t rank = 0; s && rank < ranks; rank++)
        if (!s->present[rank] && strlen(missing) < sizeof missing - 8)
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%u", *missing ? "," : "", rank);
    sim_report(HCCL_E_TIMEOUT, "EI0015",
               "topo exchange server get socket timeout! timeout[%d s]. Failed to connect agent[%s]",
               (int)(sim_connect_limit() * sim_config()->haste) - 20, missing);
    return HCCL_E_TIMEOUT;
}

/* Two ranks on one device (catalogue: hccl-hccp-init-ej0001). */
static HcclResult check_devices(const segment *s, uint32_t ranks) {
    for (uint32_t a = 0; a < ranks; a++)
        for (uint32_t b = 0; b < a; b++)
            if (s->present[a] && s->present[a] == s->present[b]) {
                sim_report(HCCL_E_INTERNAL, "EJ0001",
                           "Failed to initialize the HCCP process. Reason: Maybe the last training process is "
                           "running. Ranks %u and %u use device %u.", b, a, (s->present[a] - 1) % SIM_MAX_DEVICES);
                return HCCL_E_INTERNAL;
            }
    return HCCL_SUCCESS;
}

/* Ranks with a process, of the communicator that this thread makes next; 0: all. */
static _Thread_local uint32_t expected;

/* And the nodes that all ranks of it are on. */
static _Thread_local uint32_t expected_nodes;

void sim_expect_ranks(uint32_t real, uint32_t nodes) {
    expected = real;
    expected_nodes = nodes;
}

static HcclResult join(const address *where, uint32_t ranks, uint32_t rank, const char *name, HcclComm *out) {
    uint32_t real = expected && expected < ranks ? expected : ranks;
    expected = 0;
    if (!ranks || ranks > MAX_RANKS || rank >= ranks)
        return HCCL_E_PARA;
    int device = sim_device();
    if (device < 0)
        return HCCL_E_RUNTIME;
    double deadline = sim_now() + sim_connect_limit();
    size_t size = segment_size(real);
    segment *s = attach(where, size);
    if (!s)
        return topology_timeout(NULL, ranks);
    s->job[rank] = sim_config()->rank;
    atomic_store(&s->place[rank], atomic_fetch_add(&s->placed, 1));
    atomic_store(&s->present[rank],
                 1 + sim_config()->node * SIM_MAX_DEVICES + sim_config()->visible[device]);
    atomic_fetch_add(&s->joined, 1);
    sim_word_wake(&s->joined);
    HcclResult result = HCCL_SUCCESS;
    for (uint32_t there; !result && (there = atomic_load(&s->joined)) < real;)
        if (!sim_word_wait(&s->joined, there, deadline))
            result = topology_timeout(s, ranks);
    if (where->pid == (int32_t)getpid())
        close(where->file);
    if (!result)
        result = check_devices(s, ranks);
    communicator *c = result ? NULL : calloc(1, sizeof *c);
    if (!c) {
        munmap(s, size);
        return result ? result : HCCL_E_MEMORY;
    }
    c->shared = s;
    c->size = size;
    c->ranks = ranks;
    c->real = real;
    c->rank = rank;
    c->nodes = expected_nodes ? expected_nodes : sim_hccl_nodes(c);
    expected_nodes = 0;
    while (sim_absent(c, c->first_real))
        c->first_real++;
    snprintf(c->name, sizeof c->name, "%s", name && *name ? name : where->cookie);
    sim_journal_group(c);
    *out = c;
    return HCCL_SUCCESS;
}

HcclResult HcclGetRootInfo(HcclRootInfo *info) {
    HcclResult result = sim_check_limits();
    if (result)
        return result;
    if (sim_fault_due("hccl-port", sim_device())) {
        sim_report(HCCL_E_UNAVAIL, "EJ0003",
                   "Failed to bind the IP port. Reason: The IP address and port have been bound already.");
        return HCCL_E_UNAVAIL;
    }
    address where;
    result = create(&where);
    memset(info, 0, sizeof *info);
    memcpy(info->internal, &where, sizeof where);
    return result;
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo *info, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm) {
    address where;
    memcpy(&where, info->internal, sizeof where);
    if (memcmp(where.magic, MAGIC, sizeof MAGIC))
        return HCCL_E_PARA;
    HcclResult result = sim_check_limits();
    if (result)
        return result;
    if (sim_fault_due("hccl-absent", sim_device()))
        for (;;)
            pause();
    return join(&where, ranks, rank, config ? config->hcclCommName : NULL, comm);
}

HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, HcclComm *comm) {
    return HcclCommInitRootInfoConfig(ranks, info, rank, NULL, comm);
}

/* The id that the caller gives, and who takes part. */
static uint64_t child_id(uint64_t id, const uint32_t *ranks, uint32_t count) {
    uint64_t hash = 14695981039346656037U ^ id;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ ranks[i]) * 1099511628211U;
    return hash;
}

static HcclResult offer(segment *parent, uint64_t id, uint32_t others, const address *where) {
    for (int i = 0; i < CHILDREN; i++) {
        child *entry = &parent->children[i];
        uint32_t unused = 0;
        if (!atomic_compare_exchange_strong(&entry->state, &unused, 1))
            continue;
        entry->left = others;
        entry->id = id;
        entry->pid = where->pid;
        entry->file = where->file;
        memcpy(entry->cookie, where->cookie, sizeof entry->cookie);
        atomic_store(&entry->state, 2);
        atomic_fetch_add(&parent->children_changed, 1);
        sim_word_wake(&parent->children_changed);
        return HCCL_SUCCESS;
    }
    return HCCL_E_UNAVAIL;
}

static HcclResult accept_offer(segment *parent, uint64_t id, address *where) {
    double deadline = sim_now() + sim_connect_limit();
    for (;;) {
        uint32_t seen = atomic_load(&parent->children_changed);
        for (int i = 0; i < CHILDREN; i++) {
            child *entry = &parent->children[i];
            if (atomic_load(&entry->state) != 2 || entry->id != id)
                continue;
            *where = (address){.pid = entry->pid, .file = entry->file};
            memcpy(where->cookie, entry->cookie, sizeof where->cookie);
            if (atomic_fetch_sub(&entry->left, 1) == 1)
                atomic_store(&entry->state, 0);
            return HCCL_SUCCESS;
        }
        if (!sim_word_wait(&parent->children_changed, seen, deadline))
            return topology_timeout(NULL, 0);
    }
}

/* A rank that takes no part passes no ranks and gets no communicator (hccl.h). */
HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t count, uint32_t *ranks, uint64_t id, uint32_t rank,
                                   HcclCommConfig *config, HcclComm *made) {
    if (!ranks || !count) {
        *made = NULL;
        return HCCL_SUCCESS;
    }
    communicator *parent = *comm;
    uint64_t key = child_id(id, ranks, count);
    address where = {.pid = 0};
    uint32_t real = 0, before = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool there = !sim_absent(parent, ranks[i]);
        real += there;
        before += there && i < rank;
    }
    HcclResult result;
    if (before == 0) {
        result = create(&where);
        if (!result && real > 1)
            result = offer(parent->shared, key, real - 1, &where);
    } else {
        result = accept_offer(parent->shared, key, &where);
    }
    expected = real;
    return result ? result : join(&where, count, rank, config ? config->hcclCommName : NULL, made);
}

HcclResult HcclCommDestroy(HcclComm comm) {
    communicator *c = comm;
    if (!c)
        return HCCL_E_PTR;
    sim_wait_device(sim_device(), -1);
    munmap(c->shared, c->size);
    free(c);
    return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm comm, char *name) {
    memcpy(name, ((communicator *)comm)->name, sizeof ((communicator *)comm)->name);
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t *ranks) {
    *ranks = ((communicator *)comm)->ranks;
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank) {
    *rank = ((communicator *)comm)->rank;
    return HCCL_SUCCESS;
}

void sim_hccl_count(communicator *c, const char *operation, uint64_t bytes) {
    for (int i = 0; i < OPERATIONS; i++) {
        if (!c->counted[i].operation) {
            c->counted[i].operation = operation;
            c->counted[i].tally = sim_ledger_tally(c->ranks, operation);
        }
        if (c->counted[i].operation == operation) {
            sim_ledger_count(c->counted[i].tally, bytes);
            return;
        }
    }
}

void sim_hccl_failed(communicator *c, const char *message) {
    if (atomic_exchange(&c->failed, true))
        return;
    memcpy(c->message, message, sizeof c->message);
    c->error = HCCL_E_REMOTE;
}

/* torch_npu's watchdog prints the recent message of its own thread and ends the process. */
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *error) {
    communicator *c = comm;
    *error = (HcclResult)c->error;
    if (*error)
        sim_report_text(c->message);
    return HCCL_SUCCESS;
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue value) {
    (void)config, (void)value; /* every reduction is deterministic */
    return HCCL_SUCCESS;
}

/* Buffer size, determinism and name are understood (HcclCommConfigCapability). */
uint32_t HcclGetCommConfigCapability(void) {
    return 3;
}

const char *HcclGetErrorString(HcclResult code) {
    static const char *const texts[] = {"success", "parameter error", "empty pointer", "memory error",
                                        "internal error", "not support feature", "not found specific resource",
                                        "resource unavailable", "call system interface error", "timeout"};
    return (unsigned)code < sizeof texts / sizeof texts[0] ? texts[code] : "unknown error";
}
