/* Faults of a rank in a collective. */
#define _GNU_SOURCE
#include "hccl.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"int8",   "int16",  "int32",  "fp16", "fp32",  "int64",
                                    "uint64", "uint8", "uint16", "uint32", "fp64", "bf16"};

static void place(char *text, size_t size, const char *operation, HcclDataType type) {
    snprintf(text, size, "%s:%s", operation, (unsigned)type < 12 ? names[type] : "other");
}

static aclError do_hang(void *arguments, aclError failed, char *message) {
    (void)arguments, (void)message;
    while (!failed)
        pause();
    return ACL_SUCCESS;
}

static aclError do_sleep(void *arguments, aclError failed, char *message) {
    (void)message;
    double seconds = *(const double *)arguments;
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (!failed)
        nanosleep(&t, NULL);
    return ACL_SUCCESS;
}

bool sim_hccl_fault(const char *operation, HcclDataType type, aclrtStream stream) {
    char here[64];
    place(here, sizeof here, operation, type);
    int device = sim_stream_device(stream);
    if (sim_fault_due_at("hccl-dies", device, here))
        kill(getpid(), SIGKILL);
    const sim_fault *slow = sim_fault_due_at("hccl-slow", device, here);
    if (slow) {
        double seconds = sim_fault_number(slow, "seconds", 0.2);
        sim_launch(stream, do_sleep, &seconds, sizeof seconds, true);
    }
    if (!sim_fault_due_at("hccl-hangs", device, here))
        return false;
    sim_launch(stream, do_hang, NULL, 0, true);
    return true;
}

static void change(const char *as, HcclDataType type, void *data, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        int64_t *whole = (int64_t *)data + i;
        float *real = (float *)data + i;
        if (!strcmp(as, "int32") && type == HCCL_DATA_TYPE_INT64)
            *whole = (int32_t)*whole;
        if (!strcmp(as, "zero") && type == HCCL_DATA_TYPE_FP32 && isnan(*real))
            *real = 0;
    }
}

/* Turns the first element that this rank has received into something else: NaN with nan=1. With as=
 * all elements: int64 cut to 32 bits (int32), or NaN of single precision to 0 (zero). */
void sim_hccl_corrupt(const char *operation, HcclDataType type, void *data, uint64_t count) {
    char here[64];
    place(here, sizeof here, operation, type);
    const sim_fault *fault = count ? sim_fault_due_at("hccl-wrong", -1, here) : NULL;
    const char *as = fault ? sim_fault_text(fault, "as", "") : "";
    if (*as)
        change(as, type, data, count);
    else if (fault)
        memset(data, sim_fault_number(fault, "nan", 0) > 0 ? 0xff : 0x41, sim_hccl_size(type));
}
