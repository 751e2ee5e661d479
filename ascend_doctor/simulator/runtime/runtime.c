/* libruntime, below acl: the device is the same one. Kernels cannot be loaded; nothing compiles any. */
#include "rt.h"
#include "simulator.h"

#include <stdio.h>

aclError aclrtSetDevice(int32_t device);
aclError aclrtCreateStream(aclrtStream *stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtMalloc(void **pointer, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void *pointer);
aclError aclrtMallocHost(void **pointer, size_t size);
aclError aclrtFreeHost(void *pointer);
aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t size, aclrtMemcpyKind kind);

rtError_t rtSetDevice(int32_t device) {
    return aclrtSetDevice(device);
}

rtError_t rtGetSocVersion(char *name, uint32_t room) {
    if (!name || !room)
        return ACL_ERROR_RT_PARAM_INVALID;
    snprintf(name, room, "%s", sim_config()->soc);
    return ACL_SUCCESS;
}

rtError_t rtGetAiCoreCount(uint32_t *count) {
    if (!count)
        return ACL_ERROR_RT_PARAM_INVALID;
    *count = (uint32_t)sim_config()->cube_cores;
    return ACL_SUCCESS;
}

rtError_t rtStreamCreate(rtStream_t *stream, int32_t priority) {
    (void)priority;
    return aclrtCreateStream(stream);
}

rtError_t rtStreamDestroy(rtStream_t stream) {
    return aclrtDestroyStream(stream);
}

rtError_t rtMalloc(void **pointer, uint64_t size, uint32_t type, uint16_t module) {
    (void)type, (void)module;
    return aclrtMalloc(pointer, size, (aclrtMemMallocPolicy)0);
}

rtError_t rtFree(void *pointer) {
    return aclrtFree(pointer);
}

rtError_t rtMallocHost(void **pointer, uint64_t size, uint32_t type) {
    (void)type;
    return aclrtMallocHost(pointer, size);
}

rtError_t rtFreeHost(void *pointer) {
    return aclrtFreeHost(pointer);
}

rtError_t rtMemcpy(void *to, uint64_t room, const void *from, uint64_t size, rtMemcpyKind_t kind) {
    (void)kind;
    return aclrtMemcpy(to, room, from, size, (aclrtMemcpyKind)0);
}

rtError_t rtDeviceSetLimit(int32_t device, rtLimitType_t type, uint32_t value) {
    (void)device, (void)type, (void)value;
    return sim_not_simulated("rtDeviceSetLimit");
}

rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle) {
    (void)binary, (void)handle;
    return sim_not_simulated("rtDevBinaryRegister");
}

rtError_t rtFunctionRegister(void *binary, const void *stub, const char *name, const void *function,
                             uint32_t mode) {
    (void)binary, (void)stub, (void)name, (void)function, (void)mode;
    return sim_not_simulated("rtFunctionRegister");
}
