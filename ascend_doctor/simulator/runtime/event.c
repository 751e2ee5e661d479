/* Events: a mark in a stream, that other streams and the host can wait for. */
#define _GNU_SOURCE
#include "simulator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int holders;              /* the user and every task that still needs it */
    uint64_t recorded, passed; /* number of the last record that was launched, and that was reached */
    struct timespec when;
    double clock;
    aclError error;
    char message[SIM_MESSAGE];
} event;

static void release(event *e) {
    pthread_mutex_lock(&e->lock);
    int left = --e->holders;
    pthread_mutex_unlock(&e->lock);
    if (left)
        return;
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    free(e);
}

typedef struct {
    event *event;
    uint64_t number;
} mark;

static aclError launch(aclrtStream stream, sim_task task, mark m, bool blocks) {
    aclError code = sim_launch(stream, task, &m, sizeof m, blocks);
    if (code)
        release(m.event);
    return code;
}

static aclError do_record(void *arguments, aclError failed, char *message) {
    const mark *m = arguments;
    event *e = m->event;
    pthread_mutex_lock(&e->lock);
    e->passed = m->number;
    e->clock = sim_clock_now();
    clock_gettime(CLOCK_MONOTONIC, &e->when);
    e->error = failed;
    snprintf(e->message, sizeof e->message, "%s", message);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    release(e);
    return ACL_SUCCESS;
}

/* Whoever waits for a stream that failed does not get what it waits for, and fails likewise. */
static aclError do_wait(void *arguments, aclError failed, char *message) {
    const mark *m = arguments;
    event *e = m->event;
    pthread_mutex_lock(&e->lock);
    while (!failed && e->passed < m->number)
        pthread_cond_wait(&e->changed, &e->lock);
    sim_clock_until(e->clock);
    aclError code = failed ? ACL_SUCCESS : e->error;
    if (code)
        snprintf(message, SIM_MESSAGE, "%s", e->message);
    pthread_mutex_unlock(&e->lock);
    release(e);
    return code;
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *handle, uint32_t flag) {
    (void)flag;
    event *e = calloc(1, sizeof *e);
    if (!e)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->holders = 1;
    *handle = e;
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent *handle, uint32_t flag) {
    return aclrtCreateEventExWithFlag(handle, flag);
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
    release(handle);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream) {
    event *e = handle;
    pthread_mutex_lock(&e->lock);
    e->holders++;
    mark m = {e, ++e->recorded};
    pthread_mutex_unlock(&e->lock);
    return launch(stream, do_record, m, false);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent handle) {
    event *e = handle;
    pthread_mutex_lock(&e->lock);
    mark m = {e, e->recorded};
    bool waits = e->passed < e->recorded || e->error;
    e->holders++;
    pthread_mutex_unlock(&e->lock);
    return launch(stream, do_wait, m, waits);
}

aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream) {
    (void)handle, (void)stream; /* an event of the Ex kind is recorded again without a reset */
    return ACL_SUCCESS;
}

static aclError outcome(event *e) {
    if (e->error)
        sim_report_text(e->message);
    return e->error;
}

aclError aclrtSynchronizeEvent(aclrtEvent handle) {
    event *e = handle;
    pthread_mutex_lock(&e->lock);
    uint64_t number = e->recorded;
    while (e->passed < number)
        pthread_cond_wait(&e->changed, &e->lock);
    sim_host_until(e->clock);
    aclError code = outcome(e);
    pthread_mutex_unlock(&e->lock);
    return code;
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus *status) {
    event *e = handle;
    pthread_mutex_lock(&e->lock);
    *status = e->passed == e->recorded ? ACL_EVENT_RECORDED_COMPLETE : ACL_EVENT_RECORDED_NOT_READY;
    aclError code = outcome(e);
    pthread_mutex_unlock(&e->lock);
    return code;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus *status) {
    aclrtEventRecordedStatus recorded;
    aclError code = aclrtQueryEventStatus(handle, &recorded);
    *status = recorded == ACL_EVENT_RECORDED_COMPLETE ? ACL_EVENT_WAIT_COMPLETE : ACL_EVENT_WAIT_NOT_READY;
    return code;
}

static struct timespec reached(event *e, bool *known) {
    pthread_mutex_lock(&e->lock);
    struct timespec when = e->when;
    *known = e->recorded && e->passed == e->recorded;
    pthread_mutex_unlock(&e->lock);
    return when;
}

aclError aclrtEventElapsedTime(float *milliseconds, aclrtEvent start, aclrtEvent end) {
    bool started, ended;
    struct timespec a = reached(start, &started), b = reached(end, &ended);
    if (!started || !ended)
        return ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID;
    *milliseconds = (float)((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
    return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent handle, uint64_t *microseconds) {
    bool known;
    struct timespec when = reached(handle, &known);
    *microseconds = (uint64_t)when.tv_sec * 1000000U + (uint64_t)when.tv_nsec / 1000U;
    return known ? ACL_SUCCESS : ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID;
}
