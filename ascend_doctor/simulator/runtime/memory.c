/* Memory: blocks of host memory that belong to a device, with the device's limit. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 512, HOST = -2 };

typedef struct block {
    struct block *next;
    char *start;
    size_t size;
    int device; /* HOST: pinned host memory */
    bool owned; /* allocated here, not registered by the user */
} block;

static block *blocks;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static aclError keep(void *start, size_t size, int device, bool owned) {
    block *new = malloc(sizeof *new);
    if (!new)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    pthread_mutex_lock(&guard);
    *new = (block){blocks, start, size, device, owned};
    blocks = new;
    pthread_mutex_unlock(&guard);
    return ACL_SUCCESS;
}

/* Takes the block that begins at start out of the list; a block of size 0 means there was none. */
static block drop(const void *start, bool host) {
    block found = {0};
    pthread_mutex_lock(&guard);
    for (block **at = &blocks; *at; at = &(*at)->next)
        if ((*at)->start == start && ((*at)->device == HOST) == host) {
            block *gone = *at;
            found = *gone;
            *at = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&guard);
    return found;
}

static int owner(const void *pointer) {
    int device = -1;
    pthread_mutex_lock(&guard);
    for (const block *b = blocks; b; b = b->next)
        if ((const char *)pointer >= b->start && (const char *)pointer < b->start + b->size) {
            device = b->device;
            break;
        }
    pthread_mutex_unlock(&guard);
    return device;
}

static size_t rounded(size_t size) {
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static aclError out_of_memory(int device, size_t size) {
    return sim_report(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004",
                      "Failed to allocate memory requested by the application. size: %zu, device: %d",
                      size, device);
}

/* At true size pages are taken when they are written, and few are: small ones. */
static void *back(size_t size) {
    if (!sim_config()->true_size)
        return aligned_alloc(ALIGNMENT, size);
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    madvise(start, size, MADV_NOHUGEPAGE);
    return start;
}

static void unback(void *start, size_t size) {
    if (sim_config()->true_size)
        munmap(start, size);
    else
        free(start);
}

static aclError allocate(void **pointer, size_t size) {
    int device = sim_device();
    if (device < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    if (!pointer || !size)
        return ACL_ERROR_RT_PARAM_INVALID;
    aclError code = sim_device_error(device, NULL);
    if (code)
        return code;
    size = rounded(size);
    if (!sim_ledger_take(device, size))
        return out_of_memory(device, size);
    *pointer = back(size);
    if (*pointer && keep(*pointer, size, device, true) == ACL_SUCCESS)
        return ACL_SUCCESS;
    if (*pointer)
        unback(*pointer, size);
    sim_ledger_give(device, size);
    return out_of_memory(device, size);
}

aclError aclrtMalloc(void **pointer, size_t size, aclrtMemMallocPolicy policy) {
    (void)policy;
    return allocate(pointer, size);
}

aclError aclrtMallocAlign32(void **pointer, size_t size, aclrtMemMallocPolicy policy) {
    (void)policy;
    return allocate(pointer, size);
}

aclError aclrtFree(void *pointer) {
    block gone = drop(pointer, false);
    if (!gone.size)
        return ACL_ERROR_RT_PARAM_INVALID;
    sim_wait_device(gone.device, -1); /* nothing may still be writing into it */
    sim_ledger_give(gone.device, gone.size);
    unback(gone.start, gone.size);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **pointer, size_t size) {
    if (!pointer || !size)
        return ACL_ERROR_RT_PARAM_INVALID;
    *pointer = aligned_alloc(ALIGNMENT, rounded(size));
    return *pointer ? keep(*pointer, size, HOST, true) : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtMallocHostWithCfg(void **pointer, uint64_t size, aclrtMallocConfig *config) {
    (void)config;
    return aclrtMallocHost(pointer, size);
}

aclError aclrtFreeHost(void *pointer) {
    block gone = drop(pointer, true);
    if (!gone.size)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (gone.owned)
        free(gone.start);
    return ACL_SUCCESS;
}

aclError aclrtHostRegister(void *pointer, uint64_t size, aclrtHostRegisterType type, void **device) {
    (void)type;
    if (device)
        *device = pointer;
    return keep(pointer, size, HOST, false);
}

aclError aclrtHostRegisterV2(void *pointer, uint64_t size, uint32_t flag) {
    (void)flag;
    return keep(pointer, size, HOST, false);
}

aclError aclrtHostUnregister(void *pointer) {
    return aclrtFreeHost(pointer);
}

aclError aclrtPointerGetAttributes(const void *pointer, aclrtPtrAttributes *attributes) {
    int device = owner(pointer);
    memset(attributes, 0, sizeof *attributes);
    attributes->location.id = device >= 0 ? (uint32_t)device : 0;
    attributes->location.type = device >= 0      ? ACL_MEM_LOCATION_DEVICE
                                : device == HOST ? ACL_MEM_LOCATION_HOST
                                                 : ACL_MEM_LOCATION_UNREGISTERED;
    attributes->pageSize = (uint32_t)sysconf(_SC_PAGESIZE);
    return ACL_SUCCESS;
}

/* High-bandwidth memory is all there is from 910B on: DDR usage reads 0 / 0 there. */
aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t *free_bytes, size_t *total) {
    int device = sim_device();
    if (device < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *total = attribute == ACL_DDR_MEM ? 0 : sim_config()->memory;
    *free_bytes = *total ? *total - sim_ledger_used(device) : 0;
    return ACL_SUCCESS;
}

typedef struct {
    char *to;
    const char *from;
    int value;
    size_t size;
} transfer;

static aclError do_copy(void *arguments, aclError failed, char *message) {
    (void)message;
    const transfer *t = arguments;
    if (!failed && sim_moves(t->size))
        memmove(t->to, t->from, t->size);
    return ACL_SUCCESS;
}

static aclError do_set(void *arguments, aclError failed, char *message) {
    (void)message;
    const transfer *t = arguments;
    if (!failed && sim_moves(t->size))
        memset(t->to, t->value, t->size);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t size, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    (void)kind;
    if (size > room || (size && (!to || !from)))
        return ACL_ERROR_RT_PARAM_INVALID;
    transfer t = {to, from, 0, size};
    return sim_launch(stream, do_copy, &t, sizeof t, false);
}

aclError aclrtMemsetAsync(void *to, size_t room, int32_t value, size_t size, aclrtStream stream) {
    if (size > room || (size && !to))
        return ACL_ERROR_RT_PARAM_INVALID;
    transfer t = {to, NULL, value, size};
    return sim_launch(stream, do_set, &t, sizeof t, false);
}

aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t size, aclrtMemcpyKind kind) {
    (void)kind;
    if (size > room || (size && (!to || !from)))
        return ACL_ERROR_RT_PARAM_INVALID;
    aclError code = sim_device_error(sim_device(), NULL);
    if (!code && sim_moves(size))
        memmove(to, from, size);
    return code;
}

aclError aclrtMemset(void *to, size_t room, int32_t value, size_t size) {
    if (size > room || (size && !to))
        return ACL_ERROR_RT_PARAM_INVALID;
    aclError code = sim_device_error(sim_device(), NULL);
    if (!code && sim_moves(size))
        memset(to, value, size);
    return code;
}
