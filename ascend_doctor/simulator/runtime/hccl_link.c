/* How ranks wait for each other: futexes in the shared segment, so that a waiting rank sleeps. */
#define _GNU_SOURCE
#include "hccl.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

double sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void sim_word_wake(word *w) {
    syscall(SYS_futex, w, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool sim_word_wait(word *w, uint32_t old, double deadline) {
    while (atomic_load(w) == old) {
        double left = deadline - sim_now();
        if (left <= 0)
            return false;
        if (left > 3600)
            left = 3600;
        struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        syscall(SYS_futex, w, FUTEX_WAIT, old, &t, NULL, 0);
    }
    return true;
}

static double seconds(const char *name, double fallback) {
    const char *text = getenv(name);
    double value = text ? strtod(text, NULL) : 0;
    return value > 0 ? value : fallback;
}

/* 120 s by default, and HCCL adds 20 s */
double sim_connect_limit(void) {
    return (seconds("HCCL_CONNECT_TIMEOUT", 120) + 20) / sim_config()->haste;
}

double sim_exec_limit(void) {
    return seconds("HCCL_EXEC_TIMEOUT", 1836) / sim_config()->haste;
}

HcclResult sim_check_limits(void) {
    const char *text = getenv("HCCL_CONNECT_TIMEOUT");
    double value = text ? strtod(text, NULL) : 120;
    if (value >= 120 && value <= 7200)
        return HCCL_SUCCESS;
    sim_report(HCCL_E_PARA, "EI0001",
               "Value %s for environment variable HCCL_CONNECT_TIMEOUT is invalid. Expected value : "
               "range[120, 7200].", text);
    return HCCL_E_PARA;
}

/* Two slots a rank with a process: while some ranks still read the last exchange, others already write the next. */
static slot *slot_at(const communicator *c, uint32_t rank, uint32_t meeting) {
    char *slots = (char *)(c->shared + 1);
    return (slot *)(slots + (2 * (size_t)c->shared->place[rank] + meeting % 2) * (sizeof(slot) + SLOT));
}

slot *sim_slot(const communicator *c) {
    return slot_at(c, c->rank, c->meetings);
}

slot *sim_published(const communicator *c, uint32_t rank) {
    return slot_at(c, sim_absent(c, rank) ? c->first_real : rank, c->meetings - 1);
}

char *sim_mail(const communicator *c, uint32_t from, uint32_t to, uint32_t message) {
    char *mails = (char *)(c->shared + 1) + 2 * (size_t)c->real * (sizeof(slot) + SLOT);
    size_t sender = c->shared->place[from], receiver = c->shared->place[to];
    return mails + ((sender * c->real + receiver) * MESSAGES + message % MESSAGES) * MAIL;
}

aclError sim_execution_timeout(char *message, uint32_t rank) {
    sim_compose(message, "EI0002",
                "The wait execution of the Notify register times out. Reason: The Notify register "
                "has not received the Notify record from remote rank [%u].", rank);
    return ACL_ERROR_RT_FFTS_PLUS_TIMEOUT;
}

static aclError missing(const communicator *c, char *message) {
    uint32_t rank = 0;
    while (rank < c->ranks && (sim_absent(c, rank) || atomic_load(&c->shared->met[rank]) >= c->meetings))
        rank++;
    return sim_execution_timeout(message, rank);
}

static const char *difference(const signature *here, const signature *there, uint64_t values[2]) {
#define DIFFER(member)                                                   \
    if (here->member != there->member) {                                 \
        values[0] = here->member, values[1] = there->member;             \
        return #member;                                                  \
    }
    DIFFER(kind)
    DIFFER(type)
    DIFFER(reduction)
    DIFFER(root)
    DIFFER(count)
    return NULL;
}

static bool disagree(const signature *here, const signature *there, char *text) {
    uint64_t values[2];
    const char *name = difference(here, there, values);
    if (name)
        snprintf(text, SIM_MESSAGE / 2,
                 "The arguments for collective communication are inconsistent between ranks:parameter "
                 "%s, local end %llu, remote end %llu", name, (unsigned long long)values[0],
                 (unsigned long long)values[1]);
    return name != NULL;
}

aclError sim_meet(communicator *c, const signature *what, char *message) {
    segment *s = c->shared;
    sim_slot(c)->what = *what;
    sim_slot(c)->clock = sim_clock_now();
    uint32_t generation = atomic_load(&s->generation);
    atomic_store(&s->met[c->rank], ++c->meetings);
    if (atomic_fetch_add(&s->arrived, 1) + 1 == c->real) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->generation, 1);
        sim_word_wake(&s->generation);
    } else if (!sim_word_wait(&s->generation, generation, sim_now() + sim_exec_limit())) {
        return missing(c, message);
    }
    char text[SIM_MESSAGE / 2];
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        sim_clock_until(sim_published(c, rank)->clock);
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        if (disagree(what, &sim_published(c, rank)->what, text)) {
            sim_compose(message, "EI0005", "%s", text);
            return ACL_ERROR_RT_FFTS_PLUS_EXCEPTION;
        }
    return ACL_SUCCESS;
}

static HcclResult connect_timeout(void) {
    sim_report(HCCL_E_TIMEOUT, "EI0006",
               "Getting socket times out. Reason: Remote Rank did not send the data in time. Please check "
               "the reason for the rank being stuck");
    return HCCL_E_TIMEOUT;
}

HcclResult sim_link(communicator *c, const signature *what) {
    segment *s = c->shared;
    if (c->linked)
        return HCCL_SUCCESS;
    s->first[c->rank] = *what;
    double deadline = sim_now() + sim_connect_limit();
    atomic_fetch_add(&s->linked, 1);
    sim_word_wake(&s->linked);
    for (uint32_t there; (there = atomic_load(&s->linked)) < c->real;)
        if (!sim_word_wait(&s->linked, there, deadline))
            return connect_timeout();
    char text[SIM_MESSAGE / 2];
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        if (!sim_absent(c, rank) && disagree(what, &s->first[rank], text)) {
            sim_report(HCCL_E_PARA, "EI0005", "%s", text);
            return HCCL_E_PARA;
        }
    c->linked = true;
    return HCCL_SUCCESS;
}

void sim_announce(communicator *c, uint32_t peer) {
    word *mine = &c->shared->paired[c->rank][peer];
    if (!atomic_exchange(mine, 1))
        sim_word_wake(mine);
}

HcclResult sim_await(communicator *c, uint32_t peer, double deadline) {
    if (sim_absent(c, peer))
        return HCCL_SUCCESS;
    return sim_word_wait(&c->shared->paired[peer][c->rank], 0, deadline) ? HCCL_SUCCESS : connect_timeout();
}
