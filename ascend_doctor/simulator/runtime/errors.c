/* Error texts, in the form that CANN gives them to aclGetRecentErrMsg. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char recent[SIM_MESSAGE];
static _Thread_local char handed_out[SIM_MESSAGE];
static _Thread_local aclError last_error;

/* "EE1001: [PID: 2228607] 2025-08-06-16:15:27.377.593 The argument is invalid. ..." as in captures */
static void compose(char *message, const char *code, const char *format, va_list arguments) {
    struct timeval now;
    struct tm local;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    char stamp[64], text[SIM_MESSAGE - 128];
    strftime(stamp, sizeof stamp, "%Y-%m-%d-%H:%M:%S", &local);
    vsnprintf(text, sizeof text, format, arguments);
    snprintf(message, SIM_MESSAGE, "%s: [PID: %d] %s.%03d.%03d %s\n", code, (int)getpid(), stamp,
             (int)(now.tv_usec / 1000), (int)(now.tv_usec % 1000), text);
    sim_trace("%s", message);
}

void sim_compose(char *message, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    compose(message, code, format, arguments);
    va_end(arguments);
}

aclError sim_report(aclError error, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    compose(recent, code, format, arguments);
    va_end(arguments);
    last_error = error;
    return error;
}

void sim_report_text(const char *text) {
    snprintf(recent, sizeof recent, "%s", text);
}

/* What a generated stub says: the name of what the simulated NPU lacks is in the error. */
aclError sim_not_simulated(const char *name) {
    return sim_report(ACL_ERROR_API_NOT_SUPPORT, "EZ9999",
                      "%s is not simulated. Reason: the simulated NPU has no implementation of it.",
                      name);
}

/* A message is given once: torch_npu appends it to the error that it raises for this very call. */
const char *aclGetRecentErrMsg(void) {
    memcpy(handed_out, recent, sizeof recent);
    recent[0] = '\0';
    return handed_out;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    (void)level;
    return last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
    (void)level;
    aclError code = last_error;
    last_error = ACL_SUCCESS;
    return code;
}

void aclAppLog(aclLogLevel level, const char *function, const char *file, uint32_t line,
               const char *format, ...) {
    (void)file;
    if (level < ACL_ERROR || !sim_config()->trace)
        return;
    char text[SIM_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_trace("%s:%u %s", function, line, text);
}
