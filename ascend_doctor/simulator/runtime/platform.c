/* What surrounds the runtime: versions, profiling hooks and the bounded string functions of libc_sec. */
#define _GNU_SOURCE
#include "simulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *cann(void) {
    const char *text = getenv("ASCEND_SIMULATOR_CANN");
    return text && *text ? text : "0.0.0";
}

aclError aclsysGetCANNVersion(aclCANNPackageName package, aclCANNPackageVersion *version) {
    (void)package; /* from CANN 8.5 on every component has the version of the whole */
    memset(version, 0, sizeof *version);
    snprintf(version->version, sizeof version->version, "%s", cann());
    char *parts[] = {version->majorVersion, version->minorVersion, version->releaseVersion, version->patchVersion};
    char copy[128], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", cann());
    char *part = strtok_r(copy, ".", &rest);
    for (int i = 0; part && i < 4; i++, part = strtok_r(NULL, ".", &rest))
        snprintf(parts[i], 64, "%s", part);
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *package, char *version) {
    (void)package;
    snprintf(version, 128, "%s", cann());
    return ACL_SUCCESS;
}

/* Profiling: registration succeeds and nothing is ever recorded. */
int32_t MsprofRegisterCallback(uint32_t module, int32_t (*handle)(uint32_t, void *, uint32_t)) {
    (void)module, (void)handle;
    return 0;
}

int32_t MsprofReportApi(uint32_t aging, const void *api) {
    (void)aging, (void)api;
    return 0;
}

int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t length) {
    (void)aging, (void)data, (void)length;
    return 0;
}

int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t length) {
    (void)aging, (void)data, (void)length;
    return 0;
}

uint64_t MsprofGetHashId(const char *text, size_t length) {
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211U;
    return hash;
}

uint64_t MsprofSysCycleTime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

int vsnprintf_s(char *target, size_t room, size_t count, const char *format, va_list arguments) {
    int length = vsnprintf(target, room < count + 1 ? room : count + 1, format, arguments);
    return length >= 0 && (size_t)length < room && (size_t)length <= count ? length : -1;
}

int snprintf_s(char *target, size_t room, size_t count, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf_s(target, room, count, format, arguments);
    va_end(arguments);
    return length;
}

int strcpy_s(char *target, size_t room, const char *source) {
    size_t length = strlen(source);
    if (length >= room)
        return 34; /* ERANGE */
    memcpy(target, source, length + 1);
    return 0;
}
