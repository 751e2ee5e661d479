/* Expandable segments: address ranges that are reserved first and mapped piece by piece. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct range {
    struct range *next;
    char *start;
    size_t size;
} range;

typedef struct {
    int file, device; /* file: -1 at true size */
    size_t size;
} physical;

static range *reserved, *mapped;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static aclError put(range **list, void *start, size_t size) {
    range *new = malloc(sizeof *new);
    if (!new)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    pthread_mutex_lock(&guard);
    *new = (range){*list, start, size};
    *list = new;
    pthread_mutex_unlock(&guard);
    return ACL_SUCCESS;
}

static size_t take(range **list, const void *start) {
    size_t size = 0;
    pthread_mutex_lock(&guard);
    for (range **at = list; *at; at = &(*at)->next)
        if ((*at)->start == start) {
            range *gone = *at;
            size = gone->size;
            *at = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&guard);
    return size;
}

aclError aclrtReserveMemAddress(void **address, size_t size, size_t alignment, void *wanted,
                                uint64_t flags) {
    (void)alignment, (void)wanted, (void)flags;
    void *start = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *address = start;
    return put(&reserved, start, size);
}

aclError aclrtReleaseMemAddress(void *address) {
    size_t size = take(&reserved, address);
    return size && munmap(address, size) == 0 ? ACL_SUCCESS : ACL_ERROR_RT_PARAM_INVALID;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *property,
                             uint64_t flags) {
    (void)flags;
    int device = (int)property->location.id;
    if (device < 0 || (uint32_t)device >= sim_config()->devices)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    if (!sim_ledger_take(device, size))
        return sim_report(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004",
                          "Failed to allocate memory requested by the application. size: %zu, device: %d",
                          size, device);
    physical *made = malloc(sizeof *made);
    if (made && sim_config()->true_size) {
        *made = (physical){-1, device, size};
        *handle = made;
        return ACL_SUCCESS;
    }
    /* memfd_create by number: glibc has the function only from 2.27 on */
    int file = made ? (int)syscall(SYS_memfd_create, "simulated HBM", 1U /* MFD_CLOEXEC */) : -1;
    if (file < 0 || ftruncate(file, (off_t)size) != 0) {
        if (file >= 0)
            close(file);
        free(made);
        sim_ledger_give(device, size);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *made = (physical){file, device, size};
    *handle = made;
    return ACL_SUCCESS;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    physical *gone = handle;
    sim_ledger_give(gone->device, gone->size);
    if (gone->file >= 0)
        close(gone->file);
    free(gone);
    return ACL_SUCCESS;
}

aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
    (void)flags;
    const physical *backing = handle;
    if (offset + size > backing->size)
        return ACL_ERROR_RT_PARAM_INVALID;
    /* Reading a hole of a memory file takes its pages, so at true size there is none. */
    int kind = backing->file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *at = mmap(address, size, PROT_READ | PROT_WRITE, kind | MAP_FIXED, backing->file,
                    backing->file >= 0 ? (off_t)offset : 0);
    if (at == MAP_FAILED)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (backing->file < 0)
        madvise(at, size, MADV_NOHUGEPAGE);
    return put(&mapped, address, size);
}

aclError aclrtUnmapMem(void *address) {
    size_t size = take(&mapped, address);
    if (!size)
        return ACL_ERROR_RT_PARAM_INVALID;
    void *at = mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return at == MAP_FAILED ? ACL_ERROR_RT_MEMORY_ALLOCATION : ACL_SUCCESS;
}
