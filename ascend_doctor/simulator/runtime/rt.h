/* simulated: of CANN's runtime what triton-ascend's driver uses (triton/backends/ascend/npu_utils.cpp
 * of 3.2.0): its names are CANN's, the values behind them are those of this stand-in alone. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rtError_t;
typedef void *rtStream_t;
typedef enum { RT_MEMCPY_HOST_TO_DEVICE = 1, RT_MEMCPY_DEVICE_TO_HOST } rtMemcpyKind_t;
typedef enum { RT_MEMORY_HBM = 1, RT_MEMORY_HOST } rtMemType_t;
typedef enum {
    RT_LIMIT_TYPE_LOW_POWER_TIMEOUT,
    RT_LIMIT_TYPE_SIMT_WARP_STACK_SIZE,
    RT_LIMIT_TYPE_SIMT_DVG_WARP_STACK_SIZE,
    RT_LIMIT_TYPE_STACK_SIZE,
} rtLimitType_t;
typedef struct {
    uint32_t magic, version;
    const void *data;
    uint64_t length;
} rtDevBinary_t;

#define RT_ERROR_NONE 0
#define RT_DEV_BINARY_MAGIC_ELF 1u
#define RT_DEV_BINARY_MAGIC_ELF_AIVEC 2u

rtError_t rtSetDevice(int32_t device);
rtError_t rtGetSocVersion(char *name, uint32_t room);
rtError_t rtGetAiCoreCount(uint32_t *count);
rtError_t rtStreamCreate(rtStream_t *stream, int32_t priority);
rtError_t rtStreamDestroy(rtStream_t stream);
rtError_t rtMalloc(void **pointer, uint64_t size, uint32_t type, uint16_t module);
rtError_t rtFree(void *pointer);
rtError_t rtMallocHost(void **pointer, uint64_t size, uint32_t type);
rtError_t rtFreeHost(void *pointer);
rtError_t rtMemcpy(void *to, uint64_t room, const void *from, uint64_t size, rtMemcpyKind_t kind);
rtError_t rtDeviceSetLimit(int32_t device, rtLimitType_t type, uint32_t value);
rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle);
rtError_t rtFunctionRegister(void *binary, const void *stub, const char *name, const void *function,
                             uint32_t mode);

#ifdef __cplusplus
}
#endif
