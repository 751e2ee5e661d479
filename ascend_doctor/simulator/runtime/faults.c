/* Declared faults, as ascend_doctor/simulator/faults.py writes them into ASCEND_SIMULATOR_FAULTS:
 * "kind key=value key=value;kind ...". Keys rank and device choose where it bites; step says how
 * many occurrences go well before, times=N that it bites N times and not for ever. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS = 16, PAIRS = 12 };

struct sim_fault {
    const char *kind;
    const char *keys[PAIRS], *values[PAIRS];
    int pairs;
    atomic_long seen;
};

static struct sim_fault faults[FAULTS];
static int count;

static void read_fault(char *text) {
    if (count == FAULTS)
        return;
    struct sim_fault *fault = &faults[count];
    char *rest, *word = strtok_r(text, " ", &rest);
    if (!word)
        return;
    fault->kind = word;
    while ((word = strtok_r(NULL, " ", &rest)) && fault->pairs < PAIRS) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = '\0';
        fault->keys[fault->pairs] = word;
        fault->values[fault->pairs++] = equals + 1;
    }
    count++;
}

static void read_faults(void) {
    const char *text = getenv("ASCEND_SIMULATOR_FAULTS");
    char *copy = text ? strdup(text) : NULL; /* the faults point into it for the process's life */
    char *rest = NULL;
    for (char *part = copy ? strtok_r(copy, ";", &rest) : NULL; part; part = strtok_r(NULL, ";", &rest))
        read_fault(part);
}

const char *sim_fault_text(const sim_fault *fault, const char *key, const char *fallback) {
    for (int i = 0; i < fault->pairs; i++)
        if (!strcmp(fault->keys[i], key))
            return fault->values[i];
    return fallback;
}

double sim_fault_number(const sim_fault *fault, const char *key, double fallback) {
    const char *text = sim_fault_text(fault, key, NULL);
    return text ? strtod(text, NULL) : fallback;
}

static bool fits(const sim_fault *fault, const char *key, int here) {
    const char *wanted = sim_fault_text(fault, key, NULL);
    return !wanted || (here >= 0 && atoi(wanted) == here);
}

const sim_fault *sim_fault_due(const char *kind, int device) {
    return sim_fault_due_at(kind, device, "");
}

const sim_fault *sim_fault_due_at(const char *kind, int device, const char *place) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_faults);
    for (int i = 0; i < count; i++) {
        struct sim_fault *fault = &faults[i];
        if (strcmp(fault->kind, kind) || !fits(fault, "rank", sim_config()->rank) ||
            !fits(fault, "device", device))
            continue;
        const char *on = sim_fault_text(fault, "on", "");
        if (strncmp(place, on, strlen(on)))
            continue;
        long occurrence = atomic_fetch_add(&fault->seen, 1);
        long step = (long)sim_fault_number(fault, "step", 0);
        long times = (long)sim_fault_number(fault, "times", 0);
        if (occurrence >= step && (!times || occurrence < step + times)) {
            sim_trace("fault %s bites", kind);
            return fault;
        }
    }
    return NULL;
}
