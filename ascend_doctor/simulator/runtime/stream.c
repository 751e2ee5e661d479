/* Streams: work runs in order. An idle stream runs work at once in the calling thread; what has to
 * wait (collectives, events of other streams) goes to the stream's own thread, and so does all that
 * is launched behind it. So nothing that waits ever holds up the thread that launches. */
#define _GNU_SOURCE
#include "simulator.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct work {
    struct work *next;
    sim_task task;
    max_align_t arguments[];
} work;

typedef struct stream {
    struct stream *next; /* of all streams */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work *first, **last;
    bool running;  /* some thread executes work of this stream */
    bool threaded; /* the stream has its own thread */
    bool in_use;   /* a destroyed stream is kept, with its thread, for the next one */
    int device, id;
    double clock, busy, starved, waited; /* seconds of virtual time; what it was busy, and waited for */
    aclError error; /* stays until the stream is destroyed: ACL_STOP_ON_FAILURE */
    char message[SIM_MESSAGE];
} stream;

static stream *streams;
static stream *defaults[SIM_MAX_DEVICES];
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static atomic_int last_id;

static stream *reusable(void) {
    for (stream *s = streams; s; s = s->next) {
        if (s->in_use)
            continue;
        pthread_mutex_lock(&s->lock);
        bool idle = !s->first && !s->running;
        pthread_mutex_unlock(&s->lock);
        if (idle)
            return s;
    }
    return NULL;
}

static stream *create(int device) {
    stream *made = reusable();
    if (!made) {
        made = calloc(1, sizeof *made);
        if (!made)
            return NULL;
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_mutex_init(&made->lock, NULL);
        pthread_cond_init(&made->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        made->last = &made->first;
        made->next = streams;
        streams = made;
    }
    made->in_use = true;
    made->device = device;
    made->id = ++last_id;
    made->error = ACL_SUCCESS;
    return made;
}

/* NULL is the default stream of the thread's device. */
static stream *find(aclrtStream handle) {
    if (handle)
        return handle;
    int device = sim_device();
    if (device < 0)
        return NULL;
    pthread_mutex_lock(&registry);
    if (!defaults[device])
        defaults[device] = create(device);
    stream *found = defaults[device];
    pthread_mutex_unlock(&registry);
    return found;
}

static _Thread_local stream *running;

/* The lock is held; it is not while the task runs. */
static void run(stream *s, sim_task task, void *arguments) {
    char message[SIM_MESSAGE] = "";
    s->running = true;
    aclError failed = s->error;
    if (failed)
        memcpy(message, s->message, sizeof message);
    else
        failed = sim_device_error(s->device, message);
    pthread_mutex_unlock(&s->lock);
    stream *outer = running;
    running = s;
    aclError code = task(arguments, failed, message);
    running = outer;
    pthread_mutex_lock(&s->lock);
    s->running = false;
    if (code && !s->error) {
        s->error = code;
        memcpy(s->message, message, sizeof message);
    }
    pthread_cond_broadcast(&s->changed);
}

static void *work_loop(void *argument) {
    stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        work *next = s->first;
        if (!next || s->running) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->first = next->next;
        if (!s->first)
            s->last = &s->first;
        run(s, next->task, next->arguments);
        free(next);
    }
    return NULL;
}

static bool enqueue(stream *s, sim_task task, const void *arguments, size_t size) {
    work *new = malloc(sizeof *new + size);
    if (!new)
        return false;
    if (!s->threaded) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work_loop, s) != 0) {
            free(new);
            return false;
        }
        pthread_detach(thread);
        s->threaded = true;
    }
    new->next = NULL;
    new->task = task;
    if (size)
        memcpy(new->arguments, arguments, size);
    *s->last = new;
    s->last = &new->next;
    pthread_cond_broadcast(&s->changed);
    return true;
}

/* Faults that strike while a device works; they surface when somebody waits for it. */
static void strike(int device) {
    char message[SIM_MESSAGE];
    if (sim_fault_due("hbm-ecc", device)) {
        sim_compose(message, "EZ9999", "HBM MULTI BIT ECC ERROR, runtime result = 507054.");
        sim_device_fail(device, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, message);
    }
    if (sim_fault_due("device-lost", device)) {
        sim_compose(message, "EL0001", "Device[%d] lost heartbeat, runtime result = 507010.", device);
        sim_device_fail(device, ACL_ERROR_RT_LOST_HEARTBEAT, message);
    }
}

aclError sim_launch(aclrtStream handle, sim_task task, const void *arguments, size_t size, bool blocks) {
    stream *s = find(handle);
    if (!s)
        return ACL_ERROR_RT_CONTEXT_NULL;
    strike(s->device);
    aclError code = ACL_SUCCESS;
    pthread_mutex_lock(&s->lock);
    if (blocks || s->first || s->running)
        code = enqueue(s, task, arguments, size) ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
    else
        run(s, task, (void *)arguments);
    pthread_mutex_unlock(&s->lock);
    return code;
}

static struct timespec deadline(int32_t milliseconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += milliseconds / 1000;
    t.tv_nsec += milliseconds % 1000 * 1000000L;
    if (t.tv_nsec >= 1000000000L)
        t.tv_sec++, t.tv_nsec -= 1000000000L;
    return t;
}

double sim_clock_now(void) {
    return running ? running->clock : 0;
}

void sim_clock_from(double launched) {
    if (running && launched > running->clock) {
        running->starved += launched - running->clock;
        running->clock = launched;
    }
}

void sim_clock_until(double when) {
    if (running && when > running->clock) {
        running->waited += when - running->clock;
        running->clock = when;
    }
}

void sim_clock_spend(double seconds) {
    if (running) {
        running->clock += seconds;
        running->busy += seconds;
    }
}

void sim_clock_note(const char *name, double begin) {
    if (running && running->clock > begin)
        sim_timeline(running->id, name, begin, running->clock);
}

static aclError drain(stream *s, int32_t milliseconds) {
    struct timespec until = deadline(milliseconds < 0 ? 0 : milliseconds);
    aclError code = ACL_SUCCESS;
    pthread_mutex_lock(&s->lock);
    while ((s->first || s->running) && code != ETIMEDOUT)
        code = milliseconds < 0 ? pthread_cond_wait(&s->changed, &s->lock)
                                : pthread_cond_timedwait(&s->changed, &s->lock, &until);
    if (code == ETIMEDOUT)
        code = sim_report(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "EE1002", "Stream synchronize timeout.");
    else if ((code = s->error))
        sim_report_text(s->message);
    pthread_mutex_unlock(&s->lock);
    return code;
}

/* The operators wait for their stream before they compute, so waits count as work as well. */
aclError sim_wait(aclrtStream handle, int32_t milliseconds) {
    stream *s = find(handle);
    if (!s)
        return ACL_ERROR_RT_CONTEXT_NULL;
    strike(s->device);
    aclError code = drain(s, milliseconds);
    sim_host_until(s->clock);
    return code ? code : sim_device_error(s->device, NULL);
}

aclError sim_settle(aclrtStream handle) {
    stream *s = find(handle);
    if (!s)
        return ACL_ERROR_RT_CONTEXT_NULL;
    strike(s->device);
    aclError code = drain(s, -1);
    return code ? code : sim_device_error(s->device, NULL);
}

aclError sim_wait_device(int device, int32_t milliseconds) {
    aclError first = ACL_SUCCESS;
    pthread_mutex_lock(&registry);
    stream *all = streams; /* streams are only ever put in front of it and never freed */
    pthread_mutex_unlock(&registry);
    for (stream *s = all; s && !first; s = s->next)
        if (s->device == device) {
            first = drain(s, milliseconds);
            sim_host_until(s->clock);
        }
    return first ? first : sim_device_error(device, NULL);
}

/* For operators: clock, busy, starved, waited of a stream, and the latest clock of the process, after all
 * that is launched. */
void sim_clock_read(aclrtStream handle, double values[5]) {
    stream *s = find(handle);
    if (!s)
        return;
    pthread_mutex_lock(&registry);
    stream *all = streams;
    pthread_mutex_unlock(&registry);
    double latest = sim_host_clock();
    for (stream *each = all; each; each = each->next)
        if (each->device == s->device) {
            drain(each, -1);
            latest = each->clock > latest ? each->clock : latest;
        }
    memcpy(values, (double[]){s->clock, s->busy, s->starved, s->waited, latest}, 5 * sizeof *values);
}

int sim_stream_device(aclrtStream handle) {
    stream *s = find(handle);
    return s ? s->device : -1;
}

aclError aclrtCreateStream(aclrtStream *handle) {
    int device = sim_device();
    if (device < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&registry);
    *handle = create(device);
    pthread_mutex_unlock(&registry);
    return *handle ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *handle, uint32_t priority, uint32_t flag) {
    (void)priority, (void)flag;
    return aclrtCreateStream(handle);
}

aclError aclrtDestroyStream(aclrtStream handle) {
    stream *s = handle;
    if (!s)
        return ACL_ERROR_RT_PARAM_INVALID;
    aclError code = drain(s, -1);
    pthread_mutex_lock(&registry);
    s->in_use = false;
    pthread_mutex_unlock(&registry);
    return code;
}

/* As the name says: whatever is still queued is not done, only cancelled. */
aclError aclrtDestroyStreamForce(aclrtStream handle) {
    stream *s = handle;
    if (!s)
        return ACL_ERROR_RT_PARAM_INVALID;
    pthread_mutex_lock(&s->lock);
    if (s->first && !s->error)
        s->error = ACL_ERROR_RT_STREAM_ABORT;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&registry);
    s->in_use = false;
    pthread_mutex_unlock(&registry);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream handle) {
    return sim_wait(handle, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t milliseconds) {
    return sim_wait(handle, milliseconds);
}

aclError aclrtSynchronizeDevice(void) {
    return sim_device() < 0 ? ACL_ERROR_RT_CONTEXT_NULL : sim_wait_device(sim_device(), -1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds) {
    return sim_device() < 0 ? ACL_ERROR_RT_CONTEXT_NULL : sim_wait_device(sim_device(), milliseconds);
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus *status) {
    stream *s = find(handle);
    if (!s)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&s->lock);
    *status = s->first || s->running ? ACL_STREAM_NOT_READY : ACL_STREAM_COMPLETE;
    aclError code = s->error;
    if (code)
        sim_report_text(s->message);
    pthread_mutex_unlock(&s->lock);
    return code;
}

aclError aclrtStreamGetId(aclrtStream handle, int32_t *id) {
    stream *s = find(handle);
    if (!s)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *id = s->id;
    return ACL_SUCCESS;
}

aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
    (void)mode; /* every stream stops on failure, as torch_npu asks */
    return handle ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream handle, uint32_t flag) {
    (void)handle, (void)flag;
    return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream handle, uint32_t *flag) {
    (void)handle;
    *flag = 0;
    return ACL_SUCCESS;
}

typedef struct {
    void (*function)(void *);
    void *data;
} call;

static aclError do_call(void *arguments, aclError failed, char *message) {
    (void)message;
    const call *c = arguments;
    if (!failed)
        c->function(c->data);
    return ACL_SUCCESS;
}

/* A callback may wait for Python's lock, so it never runs in the thread that launches. */
aclError aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc function, void *data) {
    call c = {function, data};
    return sim_launch(handle, do_call, &c, sizeof c, true);
}

aclError aclrtLaunchCallback(aclrtCallback function, void *data, aclrtCallbackBlockType block,
                             aclrtStream handle) {
    (void)block;
    return aclrtLaunchHostFunc(handle, function, data);
}

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream handle) {
    (void)thread, (void)handle;
    return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream handle) {
    (void)thread, (void)handle;
    return ACL_SUCCESS;
}

/* Callbacks run in the stream's thread, so there is never one to process here. */
aclError aclrtProcessReport(int32_t milliseconds) {
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&pause, NULL);
    return ACL_ERROR_WAIT_CALLBACK_TIMEOUT;
}
