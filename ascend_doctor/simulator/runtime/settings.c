/* Settings: ASCEND_SIMULATOR_* variables that Tree.environment() wrote, and the job's own ones. */
#include "simulator.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sim_settings settings;

static double number(const char *name, double fallback) {
    const char *text = getenv(name);
    return text && *text ? strtod(text, NULL) : fallback;
}

/* ASCEND_SIMULATOR_CLOCK is "name=value name=value"; operators/clock.py reads it, too. */
static double rate(const char *name) {
    const char *text = getenv("ASCEND_SIMULATOR_CLOCK");
    size_t length = strlen(name);
    for (; text && *text; text = strchr(text, ' '), text += text != NULL)
        if (!strncmp(text, name, length) && text[length] == '=')
            return strtod(text + length + 1, NULL);
    return 0;
}

/* The rules are those of CANN: logical ids, no blanks and no ranges; the list is cut silently at an
 * entry that is no device; a duplicate is the error EE2002; a list that does not ascend selects
 * nothing and is an error (catalogue: visible-devices-not-ascending); so does an empty list. */
static void read_visible(void) {
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    settings.devices = 0;
    if (!text) {
        for (uint32_t i = 0; i < settings.physical_devices; i++)
            settings.visible[settings.devices++] = i;
        return;
    }
    long last = -1;
    while (*text >= '0' && *text <= '9' && settings.devices < SIM_MAX_DEVICES) {
        char *end;
        long id = strtol(text, &end, 10);
        if (id <= last) {
            settings.visible_fault = id == last ? SIM_VISIBLE_DUPLICATE : SIM_VISIBLE_DESCENDING;
            settings.devices = 0;
            return;
        }
        if (id >= (long)settings.physical_devices || (*end && *end != ','))
            return;
        settings.visible[settings.devices++] = (uint32_t)id;
        last = id;
        if (!*end)
            return;
        text = end + 1;
    }
}

static void read_settings(void) {
    const char *soc = getenv("ASCEND_SIMULATOR_SOC");
    snprintf(settings.soc, sizeof settings.soc, "%s", soc && *soc ? soc : "Ascend910B3");
    double devices = number("ASCEND_SIMULATOR_DEVICES", 8);
    settings.physical_devices =
        devices < 0 ? 0 : devices > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : (uint32_t)devices;
    settings.memory = (uint64_t)number("ASCEND_SIMULATOR_MEMORY", 1 << 30);
    settings.cube_cores = (int64_t)number("ASCEND_SIMULATOR_CUBE_CORES", 20);
    settings.vector_cores = (int64_t)number("ASCEND_SIMULATOR_VECTOR_CORES", 40);
    settings.l2_bytes = (int64_t)number("ASCEND_SIMULATOR_L2", 192 << 20);
    settings.node = (uint32_t)number("ASCEND_SIMULATOR_NODE", 0);
    settings.rank = (int)number("RANK", -1);
    settings.haste = number("ASCEND_SIMULATOR_HASTE", 1);
    if (settings.haste <= 0)
        settings.haste = 1;
    settings.trace = getenv("ASCEND_SIMULATOR_TRACE") != NULL;
    settings.links.pair = rate("pair");
    settings.links.own = rate("own");
    settings.links.node = rate("node");
    settings.links.latency = rate("latency");
    const char *timeline = getenv("ASCEND_SIMULATOR_TIMELINE");
    snprintf(settings.timeline, sizeof settings.timeline, "%s", timeline ? timeline : "");
    settings.true_size = getenv("ASCEND_SIMULATOR_TRUE_SIZE") != NULL;
    read_visible();
}

const sim_settings *sim_config(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_settings);
    return &settings;
}

/* For a process that was forked with another place among the ranks. */
void sim_read_again(void) {
    sim_config();
    read_settings();
}

bool sim_moves(uint64_t bytes) {
    return bytes <= SIM_MOST_MOVED || !sim_config()->true_size;
}

void sim_trace(const char *format, ...) {
    if (!sim_config()->trace)
        return;
    char line[SIM_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "[simulated NPU %d] %s\n", (int)getpid(), line);
}
