/* Devices, contexts and properties. A context is a device: CANN's default context, one a device. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* torch_npu's release_thread looks into an empty queue after every select() of 1 us. On two cores
   that would be a fifth of all time: the threads that start from here on sleep a little longer. */
#define SLACK_NS 5000000UL

aclError aclrtSetDevice(int32_t device);

static _Thread_local int current = -1;
static char contexts[SIM_MAX_DEVICES];
static atomic_bool active[SIM_MAX_DEVICES];
static atomic_bool initialised;

/* A device that failed stays failed: on hardware the context is lost after 507018 and the like. */
static struct {
    atomic_int code;
    char message[SIM_MESSAGE];
} failed[SIM_MAX_DEVICES];
static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;

static atomic_int default_device = -1;

/* A thread that has set no device works on the default one of aclInit's file, if that names one. */
int sim_device(void) {
    if (current < 0 && default_device >= 0)
        aclrtSetDevice(default_device);
    return current;
}

/* {"defaultDevice": {"default_device": "0"}}, as in the wheel's acl_default.json */
static int read_default_device(const char *path) {
    char text[4096];
    FILE *file = path && *path ? fopen(path, "r") : NULL;
    if (!file)
        return -1;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *found = strstr(text, "\"default_device\"");
    found = found ? strpbrk(found + strlen("\"default_device\""), "0123456789") : NULL;
    return found ? atoi(found) : -1;
}

void sim_device_fail(int device, aclError code, const char *message) {
    pthread_mutex_lock(&failing);
    if (!failed[device].code) {
        snprintf(failed[device].message, SIM_MESSAGE, "%s", message);
        failed[device].code = code;
    }
    pthread_mutex_unlock(&failing);
}

aclError sim_device_error(int device, char *message) {
    aclError code = device < 0 ? ACL_SUCCESS : failed[device].code;
    if (code && message)
        memcpy(message, failed[device].message, SIM_MESSAGE);
    else if (code)
        sim_report_text(failed[device].message);
    return code;
}

/* Called by the operators: the device of the calling thread is broken from here on. */
void sim_fail(aclError code, const char *text) {
    char message[SIM_MESSAGE];
    sim_compose(message, "EH9999", "%s", text);
    if (current >= 0)
        sim_device_fail(current, code, message);
}

aclError aclInit(const char *config) {
    const sim_fault *fault = sim_fault_due("acl-init", -1);
    if (fault)
        return sim_report((aclError)sim_fault_number(fault, "code", ACL_ERROR_FAILURE), "EE9999",
                          "%s", "aclInit failed.");
    if (atomic_exchange(&initialised, true))
        return ACL_ERROR_REPEAT_INITIALIZE;
    default_device = read_default_device(config);
    prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    initialised = false;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    const sim_settings *config = sim_config();
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    *count = config->devices;
    if (config->visible_fault == SIM_VISIBLE_DUPLICATE)
        return sim_report(ACL_ERROR_RT_NO_DEVICE, "EE2002",
                          "Value %s for environment variable ASCEND_RT_VISIBLE_DEVICES is invalid. "
                          "Expected value: cannot be duplicated.", list);
    if (config->visible_fault == SIM_VISIBLE_DESCENDING)
        return sim_report(ACL_ERROR_RT_NO_DEVICE, "EE1001",
                          "The argument is invalid.Reason: set ASCEND_RT_VISIBLE_DEVICES:%s error, "
                          "it must be configured in ascending order", list);
    return ACL_SUCCESS;
}

static aclError invalid_device(int64_t device) {
    return sim_report(ACL_ERROR_RT_INVALID_DEVICEID, "EE1001",
                      "The argument is invalid.Reason: Set device failed, invalid device, set drv "
                      "device=%lld, valid device range is [0, %u)\n"
                      "        Solution: 1.Check the input parameter range of the function. "
                      "2.Check the function invocation relationship.",
                      (long long)device, sim_config()->devices);
}

aclError aclrtSetDevice(int32_t device) {
    uint32_t count;
    aclError code = aclrtGetDeviceCount(&count);
    if (code)
        return code;
    if (device < 0 || (uint32_t)device >= count)
        return invalid_device(device);
    if (sim_fault_due("device-busy", device))
        return sim_report(ACL_ERROR_RT_DEV_SETUP_ERROR, "EE9999",
                          "open device %d failed, runtime result = 507033.[FUNC:ReportCallError]",
                          device);
    current = device;
    active[device] = true;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device) {
    if (device < 0 || (uint32_t)device >= sim_config()->devices)
        return invalid_device(device);
    active[device] = false;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device) {
    if (current < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *device = current;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    if (sim_device() < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *context = &contexts[current];
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    ptrdiff_t device = (char *)context - contexts;
    if (!context || device < 0 || device >= (ptrdiff_t)sim_config()->devices)
        return ACL_ERROR_RT_CONTEXT_NULL;
    return aclrtSetDevice((int32_t)device);
}

aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *is_active) {
    if (device < 0 || (uint32_t)device >= sim_config()->devices)
        return invalid_device(device);
    if (flags)
        *flags = 0;
    if (is_active)
        *is_active = active[device];
    return ACL_SUCCESS;
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t user, int32_t *const logic) {
    if (user < 0 || (uint32_t)user >= sim_config()->devices)
        return invalid_device(user);
    *logic = (int32_t)sim_config()->visible[user];
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void) {
    return sim_config()->soc;
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t *value) {
    const sim_settings *config = sim_config();
    if (device >= config->devices)
        return invalid_device(device);
    switch ((int)attribute) {
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = config->cube_cores; return ACL_SUCCESS;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = config->vector_cores; return ACL_SUCCESS;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = (int64_t)config->memory; return ACL_SUCCESS;
    case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = config->l2_bytes; return ACL_SUCCESS;
    case ACL_DEV_ATTR_PHY_CHIP_ID: *value = config->visible[device]; return ACL_SUCCESS;
    default: return sim_not_simulated("this attribute of aclrtGetDeviceInfo");
    }
}

aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo info, int64_t *value) {
    switch ((int)info) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
        return aclrtGetDeviceInfo(device, ACL_DEV_ATTR_CUBE_CORE_NUM, value);
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        return aclrtGetDeviceInfo(device, ACL_DEV_ATTR_VECTOR_CORE_NUM, value);
    case ACL_DEVICE_INFO_L2_SIZE:
        return aclrtGetDeviceInfo(device, ACL_DEV_ATTR_L2_CACHE_SIZE, value);
    default: return sim_not_simulated("this value of aclGetDeviceCapability");
    }
}

/* "simulated" and the device, so that no real card ever has this identity. */
aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid) {
    if (device < 0 || (uint32_t)device >= sim_config()->devices)
        return invalid_device(device);
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "simulated", 9);
    uuid->bytes[15] = (char)sim_config()->visible[device];
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *info) {
    if (device < 0 || (uint32_t)device >= sim_config()->devices)
        return invalid_device(device);
    *info = (aclrtUtilizationInfo){0};
    info->memoryUtilization = (int32_t)(100 * sim_ledger_used(device) / sim_config()->memory);
    return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
    *can = device != peer;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
    (void)flags;
    return peer < 0 || (uint32_t)peer >= sim_config()->devices ? invalid_device(peer) : ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t *pid) {
    *pid = (int32_t)getpid();
    return ACL_SUCCESS;
}

/* Switches of real hardware that change nothing here: saturation, determinism, time limits. */
static _Atomic int64_t options[16];

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    (void)mode;
    return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t *value) {
    *value = (unsigned)option < 16 ? options[option] : 0;
    return ACL_SUCCESS;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value) {
    if ((unsigned)option >= 16)
        return ACL_ERROR_INVALID_PARAM;
    options[option] = value;
    return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value) {
    return aclrtSetSysParamOpt(option, value);
}

aclError aclrtSetOpWaitTimeout(uint32_t seconds) {
    (void)seconds;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t seconds) {
    (void)seconds;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t microseconds, uint64_t *actual) {
    *actual = microseconds;
    return ACL_SUCCESS;
}
