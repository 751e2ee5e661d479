/* libascend_hal.so, the driver's library: torch_npu counts devices with it. */
#include <stdint.h>
#include <stdlib.h>

/* All devices of the machine: torch_npu applies ASCEND_RT_VISIBLE_DEVICES itself. */
int32_t drvGetDevNum(uint32_t *count) {
    const char *devices = getenv("ASCEND_SIMULATOR_DEVICES");
    *count = devices ? (uint32_t)strtoul(devices, NULL, 10) : 8;
    return 0;
}

int32_t halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value) {
    (void)device, (void)module, (void)info;
    *value = 0;
    return 0xfffe; /* not supported */
}

int32_t halGetAPIVersion(int32_t *version) {
    *version = 0;
    return 0;
}
